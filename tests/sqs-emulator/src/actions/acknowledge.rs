//! What a receiver does with a delivery: delete it, or change how long it stays hidden.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::batch::{self, BatchEntry};
use super::{Call, nothing, required_queue};
use crate::error::SqsError;
use crate::receipt::Receipt;

/// Seconds for which a message may be hidden (quota of SQS).
const VISIBILITY_SECONDS_MAX: i64 = 43_200;

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct DeleteEntry {
    id: String,
    queue_url: String,
    receipt_handle: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct VisibilityEntry {
    id: String,
    queue_url: String,
    receipt_handle: String,
    visibility_timeout: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct BatchRequest<E> {
    #[serde(default)]
    queue_url: String,
    #[serde(default = "Vec::new")]
    entries: Vec<E>,
}

impl BatchEntry for DeleteEntry {
    const TYPE: &'static str = "DeleteMessageBatchRequestEntry";

    fn id(&self) -> &str {
        &self.id
    }
}

impl BatchEntry for VisibilityEntry {
    const TYPE: &'static str = "ChangeMessageVisibilityBatchRequestEntry";

    fn id(&self) -> &str {
        &self.id
    }
}

pub(super) fn delete(call: &mut Call<'_>, entry: &DeleteEntry) -> Result<Value, SqsError> {
    delete_one(call, required_queue(&entry.queue_url)?, entry)
}

pub(super) fn delete_batch(call: &mut Call<'_>, request: BatchRequest<DeleteEntry>) -> Result<Value, SqsError> {
    let queue = required_queue(&request.queue_url)?;
    call.store.queue(queue)?;
    batch::validate(&request.entries)?;
    Ok(batch::apply(call, "DeleteMessageBatch", queue, request.entries, |call, entry| delete_one(call, queue, &entry)))
}

fn delete_one(call: &mut Call<'_>, queue: &str, entry: &DeleteEntry) -> Result<Value, SqsError> {
    let receipt = known_receipt(call, queue, &entry.receipt_handle)?;
    // A repeated delete, or one by an older handle, succeeds without an effect.
    call.store.queue_mut(queue)?.delete(&receipt);
    Ok(nothing())
}

pub(super) fn change_visibility(call: &mut Call<'_>, entry: &VisibilityEntry) -> Result<Value, SqsError> {
    change_one(call, required_queue(&entry.queue_url)?, entry)
}

pub(super) fn change_visibility_batch(
    call: &mut Call<'_>,
    request: BatchRequest<VisibilityEntry>,
) -> Result<Value, SqsError> {
    let queue = required_queue(&request.queue_url)?;
    call.store.queue(queue)?;
    batch::validate(&request.entries)?;
    Ok(batch::apply(call, "ChangeMessageVisibilityBatch", queue, request.entries, |call, entry| {
        change_one(call, queue, &entry)
    }))
}

fn change_one(call: &mut Call<'_>, queue: &str, entry: &VisibilityEntry) -> Result<Value, SqsError> {
    let receipt = known_receipt(call, queue, &entry.receipt_handle)?;
    let timeout =
        visibility(entry.visibility_timeout.ok_or_else(|| SqsError::missing_parameter("VisibilityTimeout"))?)?;
    let now = call.now;
    call.store.queue_mut(queue)?.change_visibility(&receipt, &entry.receipt_handle, timeout, now)?;
    Ok(nothing())
}

/// A visibility timeout within the quota.
pub(super) fn visibility(seconds: i64) -> Result<Duration, SqsError> {
    let in_range = (0..=VISIBILITY_SECONDS_MAX).contains(&seconds);
    match u64::try_from(seconds) {
        Ok(seconds) if in_range => Ok(Duration::from_secs(seconds)),
        _ => {
            let reason = format!("VisibilityTimeout must be between 0 and {VISIBILITY_SECONDS_MAX}.");
            Err(SqsError::invalid_value(seconds, "VisibilityTimeout", &reason))
        }
    }
}

fn known_receipt(call: &Call<'_>, queue: &str, handle: &str) -> Result<Receipt, SqsError> {
    call.store.queue(queue)?;
    let receipt = Receipt::parse(handle, queue)?;
    if call.store.has_issued(receipt.key) { Ok(receipt) } else { Err(SqsError::receipt_handle_is_invalid(handle)) }
}
