//! The running emulator, as tests and the local stack hold it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::actions;
use crate::faults::Fault;
use crate::message::MessageView;
use crate::server::{self, Shared};
use crate::settings::{QueueSettings, REGION};
use crate::shelf::QueueCounts;
use crate::store::EmulatorStats;
use crate::wire::{CuttableListener, Cutter};

/// An SQS that listens on one address. It ends, with all its connections, when its last handle is dropped.
#[derive(Clone, Debug)]
pub struct SqsEmulator {
    running: Arc<Running>,
}

#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
    server: JoinHandle<()>,
}

impl SqsEmulator {
    /// Starts to serve on `listen`; port 0 takes a free one. An error is that of binding the address.
    pub async fn start(listen: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(format!("http://{address}")));
        let stopped = Arc::new(AtomicBool::new(false));
        let listener = CuttableListener { listener, stopped: Arc::clone(&stopped) };
        let service = server::router(Arc::clone(&shared)).into_make_service_with_connect_info::<Cutter>();
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, service).await {
                tracing::error!(error = %error, "the SQS emulator stopped serving");
            }
        });
        Ok(Self { running: Arc::new(Running { shared, address, stopped, server }) })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// Scheme, host and port, for the `endpoint_url` of an SDK client.
    pub fn endpoint_url(&self) -> String {
        self.shared().base_url.clone()
    }

    /// The URL of a queue, whether it exists or not.
    pub fn queue_url(&self, name: &str) -> String {
        actions::queue_url(&self.shared().base_url, name)
    }

    /// An SDK client for this emulator, with the SDK's own retries. See [`client_for`].
    pub fn client(&self) -> aws_sdk_sqs::Client {
        client_for(&self.endpoint_url())
    }

    /// Makes a queue, or gives an existing one these settings, and answers with its URL. A dead-letter queue that is
    /// missing is made with default settings. An error is a setting that SQS refuses.
    pub fn create_queue(&self, settings: QueueSettings) -> anyhow::Result<String> {
        let url = self.queue_url(&settings.name);
        let now = self.shared().clock.now();
        let made = self.shared().store().put_queue(settings, now);
        made.map_err(|error| anyhow::anyhow!("the queue is refused: {}", error.message))?;
        Ok(url)
    }

    /// The messages that are in a queue now, oldest first; none for an unknown queue.
    pub fn messages(&self, queue: &str) -> Vec<MessageView> {
        let now = self.shared().clock.now();
        let mut store = self.shared().store();
        let Ok(queue) = store.queue_mut(queue) else {
            return Vec::new();
        };
        queue.catch_up(now);
        queue.views()
    }

    /// The messages that were ever sent to a queue (the newest 100,000), oldest first, as they were when sent.
    pub fn history(&self, queue: &str) -> Vec<MessageView> {
        let store = self.shared().store();
        let Ok(queue) = store.queue(queue) else {
            return Vec::new();
        };
        queue.history().map(|sent| sent.view()).collect()
    }

    /// How many messages of a queue are where; zeros for an unknown queue.
    pub fn counts(&self, queue: &str) -> QueueCounts {
        let now = self.shared().clock.now();
        let mut store = self.shared().store();
        let Ok(queue) = store.queue_mut(queue) else {
            return QueueCounts::default();
        };
        queue.catch_up(now);
        queue.counts()
    }

    /// Calls by action, and what happened to each queue's messages.
    pub fn stats(&self) -> EmulatorStats {
        self.shared().store().stats()
    }

    /// Removes all messages of a queue, as often as wanted.
    pub fn clear_queue(&self, queue: &str) {
        if let Ok(queue) = self.shared().store().queue_mut(queue) {
            queue.clear();
        }
    }

    /// Asks for a failure. Several stand side by side; the first that is about an occasion strikes.
    pub fn add_fault(&self, fault: Fault) {
        self.shared().store().faults.add(fault);
    }

    /// Forgets all failures that were asked for.
    pub fn clear_faults(&self) {
        self.shared().store().faults.clear();
    }

    /// Moves the emulator's clock forward: visibility timeouts, delays and retention pass without waiting.
    pub fn advance(&self, span: Duration) {
        self.shared().advance(span);
    }

    fn shared(&self) -> &Shared {
        &self.running.shared
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        self.server.abort();
    }
}

/// An SDK client for an endpoint that does not check signatures: fixed credentials and region, the SDK's own retries.
pub fn client_for(endpoint_url: &str) -> aws_sdk_sqs::Client {
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new(REGION))
        .credentials_provider(Credentials::new("emulator", "emulator", None, None, "emulator"))
        .endpoint_url(endpoint_url)
        .build();
    aws_sdk_sqs::Client::from_conf(config)
}
