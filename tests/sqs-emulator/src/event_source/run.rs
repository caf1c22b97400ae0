//! Running a mapping: until it is stopped, or step by step for tests.

use std::ops::AddAssign;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use aws_sdk_sqs::Client;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::collect::Collector;
use super::invoke::{Invocation, invoke};
use super::{EventSourceMapping, MappingError};

/// Batches of one drain. Messages that return at once (visibility timeout 0) would drain for ever.
const DRAIN_BATCHES_MAX: usize = 10_000;

/// What a mapping did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollSummary {
    /// Messages received and given to the function.
    pub received: usize,
    /// Invocations of the function.
    pub invoked: usize,
    /// Messages deleted.
    pub deleted: usize,
    /// Messages that the function did not finish; they show again.
    pub failed: usize,
    /// Messages that the function finished and whose delete failed; they show again.
    pub undeleted: usize,
    /// Receives that failed.
    pub receive_errors: usize,
}

impl AddAssign for PollSummary {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.invoked += other.invoked;
        self.deleted += other.deleted;
        self.failed += other.failed;
        self.undeleted += other.undeleted;
        self.receive_errors += other.receive_errors;
    }
}

/// Runs a mapping until `stop` is ready, then lets the invocations under way end.
///
/// A stop takes as long as the running invocations plus at most one idle receive. Dropping the returned future breaks
/// the invocations off, as a crash would. An error is a setting that Lambda would refuse.
pub async fn run<H, Answer>(
    client: Client,
    mapping: EventSourceMapping,
    handler: H,
    stop: impl Future<Output = ()> + Send,
) -> Result<PollSummary, MappingError>
where
    H: Fn(SqsEvent, Invocation) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = anyhow::Result<SqsBatchResponse>> + Send + 'static,
{
    mapping.validate()?;
    mapping.validate_queue(&client).await?;
    let slots = Arc::new(Semaphore::new(mapping.maximum_concurrency));
    let function = Arc::new((client.clone(), mapping.clone(), handler));
    let mut collector = Collector::new(&client, &mapping);
    let mut invocations = Invocations::default();
    let stopping = AtomicBool::new(false);
    let mut stop = pin!(stop);
    while !stopping.load(Ordering::Acquire) || collector.has_carried() {
        let slot = finish_or_note(free_slot(&slots), &mut stop, &stopping).await;
        let records = finish_or_note(collector.collect(&stopping), &mut stop, &stopping).await;
        if records.is_empty() {
            continue;
        }
        let function = Arc::clone(&function);
        invocations.start(async move {
            let (client, mapping, handler) = &*function;
            let summary = invoke(client, mapping, handler, records).await;
            drop(slot);
            summary
        });
    }
    let mut summary = invocations.end().await;
    summary.receive_errors = collector.receive_errors;
    Ok(summary)
}

/// Receives what is there, up to one batch and without waiting, invokes the function once and deletes what succeeded.
///
/// The batching window and the queue's visibility timeout play no part. An error is a setting that Lambda would refuse.
pub async fn poll_once<H, Answer>(
    client: &Client,
    mapping: &EventSourceMapping,
    handler: &H,
) -> Result<PollSummary, MappingError>
where
    H: Fn(SqsEvent, Invocation) -> Answer + Sync,
    Answer: Future<Output = anyhow::Result<SqsBatchResponse>> + Send,
{
    mapping.validate()?;
    let mut collector = Collector::new(client, mapping);
    Ok(poll(&mut collector, client, mapping, handler).await)
}

/// Polls batch after batch until nothing is there; answers with the sum.
///
/// Messages that failed are hidden until their visibility timeout ends, and are not waited for.
pub async fn drain<H, Answer>(
    client: &Client,
    mapping: &EventSourceMapping,
    handler: &H,
) -> Result<PollSummary, MappingError>
where
    H: Fn(SqsEvent, Invocation) -> Answer + Sync,
    Answer: Future<Output = anyhow::Result<SqsBatchResponse>> + Send,
{
    mapping.validate()?;
    let mut sum = PollSummary::default();
    let mut collector = Collector::new(client, mapping);
    for _ in 0..DRAIN_BATCHES_MAX {
        let summary = poll(&mut collector, client, mapping, handler).await;
        sum += summary;
        if summary.received == 0 {
            break;
        }
    }
    Ok(sum)
}

async fn poll<H, Answer>(
    collector: &mut Collector<'_>,
    client: &Client,
    mapping: &EventSourceMapping,
    handler: &H,
) -> PollSummary
where
    H: Fn(SqsEvent, Invocation) -> Answer + Sync,
    Answer: Future<Output = anyhow::Result<SqsBatchResponse>> + Send,
{
    let errors_before = collector.receive_errors;
    let records = collector.collect_available().await;
    let mut summary = PollSummary::default();
    if !records.is_empty() {
        summary = invoke(client, mapping, handler, records).await;
    }
    summary.receive_errors = collector.receive_errors - errors_before;
    summary
}

/// Waits for an invocation slot. The semaphore is never closed, so that there is always one to come.
async fn free_slot(slots: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(slots).acquire_owned().await.ok()
}

/// Does the work to its end, and notes a stop that comes meanwhile.
async fn finish_or_note<W: Future>(
    work: W,
    stop: &mut (impl Future<Output = ()> + Unpin),
    stopping: &AtomicBool,
) -> W::Output {
    let mut work = pin!(work);
    if !stopping.load(Ordering::Acquire) {
        tokio::select! {
            output = &mut work => return output,
            () = stop => stopping.store(true, Ordering::Release),
        }
    }
    work.await
}

/// The invocations under way, and the sum of those that ended.
#[derive(Default)]
struct Invocations {
    running: JoinSet<PollSummary>,
    ended: PollSummary,
}

impl Invocations {
    fn start(&mut self, invocation: impl Future<Output = PollSummary> + Send + 'static) {
        while let Some(Ok(summary)) = self.running.try_join_next() {
            self.ended += summary;
        }
        self.running.spawn(invocation);
    }

    async fn end(mut self) -> PollSummary {
        while let Some(joined) = self.running.join_next().await {
            match joined {
                Ok(summary) => self.ended += summary,
                Err(error) => tracing::error!(error = %error, "an invocation was broken off"),
            }
        }
        self.ended
    }
}
