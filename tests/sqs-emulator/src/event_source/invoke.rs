//! One invocation: the function gets a batch, and the batch gets its verdict.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant, SystemTime};

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::DisplayErrorContext;
use aws_sdk_sqs::types::DeleteMessageBatchRequestEntry;
use futures::{FutureExt as _, StreamExt as _};
use uuid::Uuid;

use super::answer::{Verdict, judge};
use super::{EventSourceMapping, PollSummary};

/// Entries that one delete may have (quota of SQS).
const DELETE_ENTRIES_MAX: usize = 10;
/// Deletes at once.
const PARALLEL_DELETES: usize = 5;

/// What a function knows about its invocation.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// Identifier of the invocation.
    pub request_id: String,
    /// When the function is stopped.
    pub deadline: Instant,
}

impl Invocation {
    /// How long the function may still work.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The deadline by the wall clock, as Lambda's context gives it.
    #[expect(clippy::disallowed_methods, reason = "a deadline of the wall clock is made where Lambda would make it")]
    pub fn deadline_at(&self) -> SystemTime {
        SystemTime::now() + self.remaining()
    }
}

/// Invokes the function with a batch and deletes what succeeded.
pub(super) async fn invoke<H, Answer>(
    client: &Client,
    mapping: &EventSourceMapping,
    handler: &H,
    records: Vec<SqsMessage>,
) -> PollSummary
where
    H: Fn(SqsEvent, Invocation) -> Answer + Sync,
    Answer: Future<Output = anyhow::Result<SqsBatchResponse>> + Send,
{
    let mut event = SqsEvent::default();
    event.records.clone_from(&records);
    let response = call(mapping.function_timeout, handler, event).await;
    let verdict = verdict(mapping, response, &records);
    let done = done(&verdict, &records);
    let failed = records.len() - done.len();
    let deleted = delete(client, &mapping.queue_url, &done).await;
    let undeleted = done.len() - deleted;
    PollSummary { received: records.len(), invoked: 1, deleted, failed, undeleted, receive_errors: 0 }
}

/// The function's answer; `None` for an error, a panic, or no answer in time.
async fn call<H, Answer>(timeout: Duration, handler: &H, event: SqsEvent) -> Option<SqsBatchResponse>
where
    H: Fn(SqsEvent, Invocation) -> Answer + Sync,
    Answer: Future<Output = anyhow::Result<SqsBatchResponse>> + Send,
{
    let invocation = Invocation { request_id: Uuid::new_v4().to_string(), deadline: Instant::now() + timeout };
    let work = AssertUnwindSafe(async { handler(event, invocation).await }).catch_unwind();
    match tokio::time::timeout(timeout, work).await {
        Ok(Ok(Ok(response))) => Some(response),
        Ok(Ok(Err(error))) => {
            tracing::warn!(error = format!("{error:#}"), "the invocation failed; its batch returns");
            None
        }
        Ok(Err(_panic)) => {
            tracing::warn!("the invocation panicked; its batch returns");
            None
        }
        Err(_elapsed) => {
            tracing::warn!("the invocation had no answer in time; its batch returns");
            None
        }
    }
}

fn verdict(mapping: &EventSourceMapping, response: Option<SqsBatchResponse>, records: &[SqsMessage]) -> Verdict {
    let Some(response) = response else {
        return Verdict::ReturnAll;
    };
    if !mapping.report_batch_item_failures {
        return Verdict::DeleteAll;
    }
    let batch: BTreeSet<&str> = records.iter().filter_map(|record| record.message_id.as_deref()).collect();
    match serde_json::to_value(response) {
        Ok(answer) => judge(&answer, &batch),
        Err(_unreadable) => Verdict::ReturnAll,
    }
}

/// The receipt handles of the messages to be deleted.
fn done<'a>(verdict: &Verdict, records: &'a [SqsMessage]) -> Vec<&'a str> {
    let is_done = |record: &&SqsMessage| match verdict {
        Verdict::DeleteAll => true,
        Verdict::ReturnAll => false,
        Verdict::DeleteExcept(failed) => record.message_id.as_ref().is_none_or(|id| !failed.contains(id)),
    };
    records.iter().filter(is_done).filter_map(|record| record.receipt_handle.as_deref()).collect()
}

/// Deletes by receipt handle; answers how many deletes succeeded. The rest shows again.
async fn delete(client: &Client, queue_url: &str, handles: &[&str]) -> usize {
    let deletes: Vec<_> =
        handles.chunks(DELETE_ENTRIES_MAX).map(|chunk| delete_chunk(client, queue_url, chunk)).collect();
    futures::stream::iter(deletes).buffer_unordered(PARALLEL_DELETES).fold(0, async |sum, deleted| sum + deleted).await
}

async fn delete_chunk(client: &Client, queue_url: &str, handles: &[&str]) -> usize {
    let entries = handles.iter().enumerate().filter_map(|(position, handle)| {
        let entry = DeleteMessageBatchRequestEntry::builder().id(position.to_string()).receipt_handle(*handle);
        entry.build().ok()
    });
    let request = client.delete_message_batch().queue_url(queue_url).set_entries(Some(entries.collect()));
    match request.send().await {
        Ok(answer) => answer.successful().len(),
        Err(error) => {
            tracing::warn!(error = %DisplayErrorContext(error), "a delete failed; its messages show again");
            0
        }
    }
}
