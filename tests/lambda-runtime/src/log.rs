//! What a process wrote, line by line.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::sync::watch;

/// A line that does not come within this does not come.
const LINE_LIMIT: Duration = Duration::from_secs(30);

/// Standard output and standard error.
const STREAMS: usize = 2;

/// The lines so far; clones see the same.
#[derive(Clone, Debug)]
pub(crate) struct Log(Arc<watch::Sender<Lines>>);

#[derive(Debug)]
struct Lines {
    written: Vec<String>,
    open_streams: usize,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Lines { written: Vec::new(), open_streams: STREAMS })))
    }

    /// Takes a stream's lines until it ends.
    pub(crate) async fn take(self, stream: impl AsyncRead + Unpin) {
        let mut lines = BufReader::new(stream).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            self.0.send_modify(|log| log.written.push(line));
        }
        self.0.send_modify(|log| log.open_streams -= 1);
    }

    /// The lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.borrow().written.clone()
    }

    /// All lines, once the process has ended.
    pub(crate) async fn all(&self) -> Vec<String> {
        // The sender is a member, so waiting can't fail.
        let _ = self.0.subscribe().wait_for(|log| log.open_streams == 0).await;
        self.lines()
    }

    /// The first line that is so, which may be still to come; `None` when it does not.
    pub(crate) async fn line(&self, is_so: impl Fn(&str) -> bool) -> Option<String> {
        let mut log = self.0.subscribe();
        let found = log.wait_for(|log| log.written.iter().any(|line| is_so(line)));
        let lines = tokio::time::timeout(LINE_LIMIT, found).await.ok()?.ok()?;
        lines.written.iter().find(|line| is_so(line)).cloned()
    }
}
