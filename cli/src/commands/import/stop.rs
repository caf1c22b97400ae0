//! Ctrl-C, and the signal by which a machine asks a process to end.

use tokio::sync::watch;

use crate::output;

/// Whether somebody asked to stop.
#[derive(Debug, Clone)]
pub(super) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Listens from now on. The second signal ends the process at once, which costs the next run one repeated batch.
    pub(super) fn on_signal() -> Self {
        let (sender, receiver) = watch::channel(false);
        tokio::spawn(async move {
            signal().await;
            output::note("stopping after this batch; Ctrl-C again stops at once");
            sender.send_replace(true);
            signal().await;
            std::process::exit(1);
        });
        Self(receiver)
    }

    pub(super) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for somebody to ask.
    pub(super) async fn requested(&self) {
        let mut receiver = self.0.clone();
        // The sender ends only with the process.
        if receiver.wait_for(|requested| *requested).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A process that can't listen to signals is ended by them as ever.
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
