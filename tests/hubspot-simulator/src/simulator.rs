//! The handle that tests hold.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc, thread::JoinHandle, time::Duration};

use anyhow::Context;
use jiff::Timestamp;
use tokio::{net::TcpListener, sync::oneshot};

use crate::{
    config::SimulatorConfig,
    faults::{Fault, FaultId},
    handle::{AccountHandle, ContactView},
    ids::{PortalId, RecordId},
    preferences::SubscriptionState,
    server,
    stats::Stats,
    webhooks::{self, WebhookConfig, WebhookStats},
    world::{SharedWorld, World},
};

/// A running simulator. Dropping it closes the port and every connection.
///
/// The server has a thread and a runtime of its own, so that a test which blocks its runtime does not stop HubSpot.
pub struct Simulator {
    addr: SocketAddr,
    world: Arc<SharedWorld>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Simulator {
    /// Binds and serves. Fails when the port is taken, the state file cannot be read, or no account is configured.
    pub async fn start(config: SimulatorConfig) -> anyhow::Result<Self> {
        let world = Arc::new(SharedWorld::new(World::new(&config)?));
        let listener =
            std::net::TcpListener::bind(config.listen).with_context(|| format!("binding {}", config.listen))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = oneshot::channel();
        let shared = Arc::clone(&world);
        let thread = std::thread::Builder::new()
            .name("hubspot-simulator".to_owned())
            .spawn(move || run(listener, shared, ready, stopped))?;
        is_ready.await.context("the simulator's thread did not start")??;
        Ok(Self { addr, world, stop: Some(stop), thread: Some(thread) })
    }

    /// The address that it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:port`, without a slash at the end.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Closes the port and every connection, and returns when they are closed.
    pub async fn stop(mut self) {
        if let Some(thread) = self.signal() {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            tracing::debug!(clean = matches!(joined, Ok(Ok(()))), "the simulator stopped");
        }
    }

    fn signal(&mut self) -> Option<JoinHandle<()>> {
        // A receiver that is gone belongs to a server that has stopped already.
        let _ = self.stop.take()?.send(());
        self.thread.take()
    }

    /// Sets a fault; it stays until its calls are used up or the faults are cleared.
    pub fn add_fault(&self, fault: Fault) -> FaultId {
        self.world.lock().faults.add(fault)
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.world.lock().faults.clear();
    }

    /// Counters since the start or the last reset.
    pub fn stats(&self) -> Stats {
        self.world.lock().stats()
    }

    /// Starts counting afresh; the limits keep what they hold.
    pub fn reset_stats(&self) {
        self.world.lock().reset_stats();
    }

    /// Moves the simulator's clock forward, for windows, lag and timestamps, instead of waiting.
    pub fn advance(&self, by: Duration) {
        self.world.lock().clock.advance(by);
    }

    /// Reports what changes from now on to this address, or to none.
    pub fn send_webhooks(&self, config: Option<WebhookConfig>) {
        let world = &mut *self.world.lock();
        match config {
            Some(config) => world.webhooks.switch_on(config, &world.accounts),
            None => world.webhooks.switch_off(),
        }
    }

    /// How reporting is going.
    pub fn webhook_stats(&self) -> WebhookStats {
        self.world.lock().webhooks.stats()
    }

    /// One account's state.
    ///
    /// # Panics
    /// When no account with this id is configured.
    pub fn account(&self, portal_id: u64) -> AccountHandle<'_> {
        let portal = PortalId(portal_id);
        let is_known = self.world.lock().account(portal).is_some();
        assert!(is_known, "no account {portal} is configured");
        AccountHandle { world: &self.world, portal }
    }

    fn first(&self) -> AccountHandle<'_> {
        let portal = self.world.lock().accounts[0].settings.portal_id;
        AccountHandle { world: &self.world, portal }
    }

    /// [`AccountHandle::contacts`] of the first account.
    pub fn contacts(&self) -> Vec<ContactView> {
        self.first().contacts()
    }

    /// [`AccountHandle::contact_by_email`] of the first account.
    pub fn contact_by_email(&self, email: &str) -> Option<ContactView> {
        self.first().contact_by_email(email)
    }

    /// [`AccountHandle::contact_by`] of the first account.
    pub fn contact_by(&self, property: &str, value: &str) -> Option<ContactView> {
        self.first().contact_by(property, value)
    }

    /// [`AccountHandle::status_of`] of the first account.
    pub fn status_of(&self, email: &str, subscription_id: u64) -> SubscriptionState {
        self.first().status_of(email, subscription_id)
    }

    /// [`AccountHandle::list_members`] of the first account.
    pub fn list_members(&self, list_id: u64) -> BTreeSet<RecordId> {
        self.first().list_members(list_id)
    }

    /// [`AccountHandle::opt_out`] of the first account.
    pub fn opt_out(&self, email: &str, subscription_id: Option<u64>, at: Option<Timestamp>) -> anyhow::Result<()> {
        self.first().opt_out(email, subscription_id, at)
    }

    /// [`AccountHandle::opt_in`] of the first account.
    pub fn opt_in(&self, email: &str, subscription_id: u64, at: Option<Timestamp>) -> anyhow::Result<()> {
        self.first().opt_in(email, subscription_id, at)
    }

    /// [`AccountHandle::seed_contact`] of the first account.
    pub fn seed_contact(&self, properties: &[(&str, &str)]) -> anyhow::Result<RecordId> {
        self.first().seed_contact(properties)
    }

    /// [`AccountHandle::merge`] of the first account.
    pub fn merge(&self, primary: RecordId, other: RecordId) -> anyhow::Result<RecordId> {
        self.first().merge(primary, other)
    }

    /// [`AccountHandle::delete`] of the first account.
    pub fn delete(&self, id: RecordId) -> anyhow::Result<()> {
        self.first().delete(id)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        if let Some(thread) = self.signal() {
            // The thread only drops its runtime now, which takes no time worth mentioning. A panic in it has been
            // printed already.
            let _ = thread.join();
        }
    }
}

/// Serves on a runtime of this thread; dropping the runtime closes listener and connections.
fn run(
    listener: std::net::TcpListener,
    world: Arc<SharedWorld>,
    ready: oneshot::Sender<anyhow::Result<()>>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = ready.send(Err(error.into()));
            return;
        }
    };
    runtime.block_on(async move {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => {
                let _ = ready.send(Err(error.into()));
                return;
            }
        };
        let _ = ready.send(Ok(()));
        let sender = webhooks::run(Arc::clone(&world));
        tokio::select! {
            sent = sender => {
                if let Err(error) = sent {
                    tracing::error!(error = %error, "the sender of webhooks ended");
                }
            }
            served = server::serve(listener, world) => {
                if let Err(error) = served {
                    tracing::error!(error = %error, "the simulator's server ended");
                }
            }
            _ = stopped => {}
        }
    });
}
