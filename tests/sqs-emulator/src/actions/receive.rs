//! `ReceiveMessage`, one look at the queue; the server repeats it while a long poll lasts.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Call, acknowledge, required_queue};
use crate::attributes;
use crate::error::SqsError;
use crate::faults::Occasion;
use crate::message::Stored;
use crate::receipt::Receipt;
use crate::settings::DeadLetter;

/// Messages that one receive may take (quota of SQS).
const MESSAGES_MAX: i64 = 10;
/// Seconds that one receive may wait (quota of SQS).
const WAIT_SECONDS_MAX: i64 = 20;
/// What every message shows as its sender here.
const SENDER_ID: &str = "AIDAEMULATEDSENDER";

/// A receive as the protocol carries it.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ReceiveRequest {
    queue_url: String,
    attribute_names: Vec<String>,
    message_system_attribute_names: Vec<String>,
    message_attribute_names: Vec<String>,
    max_number_of_messages: Option<i64>,
    visibility_timeout: Option<i64>,
    wait_time_seconds: Option<i64>,
}

/// Takes what is receivable now; an empty answer has no `Messages`.
pub(crate) fn receive(call: &mut Call<'_>, request: &ReceiveRequest) -> Result<Value, SqsError> {
    let name = required_queue(&request.queue_url)?;
    let redrive = redrive_of(call, name)?;
    let max_receives = redrive.as_ref().map_or(u32::MAX, |dead_letter| dead_letter.max_receives);
    let queue = call.store.queue_mut(name)?;
    let visibility =
        request.visibility_timeout.map_or(Ok(queue.settings.visibility_timeout), acknowledge::visibility)?;
    let found = queue.receive(request.maximum()?, visibility, max_receives, call.now)?;
    if let Some(dead_letter) = redrive {
        bury(call, &dead_letter.queue, found.dead)?;
    }
    for (_, stored) in &found.deliveries {
        leave_copy(call, name, stored)?;
    }
    let messages: Vec<Value> =
        found.deliveries.iter().map(|(receipt, stored)| request.render(receipt, stored, name)).collect();
    Ok(if messages.is_empty() { json!({}) } else { json!({ "Messages": messages }) })
}

/// The redrive policy of a queue, unless its dead-letter queue was deleted: then messages stay where they are.
fn redrive_of(call: &Call<'_>, queue: &str) -> Result<Option<DeadLetter>, SqsError> {
    let policy = call.store.queue(queue)?.settings.dead_letter.clone();
    Ok(policy.filter(|dead_letter| call.store.queue(&dead_letter.queue).is_ok()))
}

/// Moves messages that were received too often into the dead-letter queue.
fn bury(call: &mut Call<'_>, target: &str, dead: Vec<Stored>) -> Result<(), SqsError> {
    for stored in dead {
        let key = call.store.new_key();
        call.store.queue_mut(target)?.take_in(key, stored);
    }
    Ok(())
}

/// Leaves a second copy of a delivered message when a fault asks for it.
fn leave_copy(call: &mut Call<'_>, queue: &str, stored: &Stored) -> Result<(), SqsError> {
    let occasion = Occasion { action: "ReceiveMessage", queue, position: None };
    if call.store.faults.strike_duplicate(occasion) {
        let key = call.store.new_key();
        call.store.queue_mut(queue)?.take_in(key, stored.clone());
    }
    Ok(())
}

impl ReceiveRequest {
    /// How long the receive may wait, its own word before the queue's.
    pub(crate) fn wait(&self, queue_default: Duration) -> Result<Duration, SqsError> {
        let Some(seconds) = self.wait_time_seconds else {
            return Ok(queue_default);
        };
        let in_range = (0..=WAIT_SECONDS_MAX).contains(&seconds);
        match u64::try_from(seconds) {
            Ok(seconds) if in_range => Ok(Duration::from_secs(seconds)),
            _ => {
                let reason = format!("Must be >= 0 and <= {WAIT_SECONDS_MAX}, if provided.");
                Err(SqsError::invalid_value(seconds, "WaitTimeSeconds", &reason))
            }
        }
    }

    fn maximum(&self) -> Result<usize, SqsError> {
        let count = self.max_number_of_messages.unwrap_or(1);
        match usize::try_from(count) {
            Ok(maximum) if (1..=MESSAGES_MAX).contains(&count) => Ok(maximum),
            _ => {
                let reason = format!("Must be between 1 and {MESSAGES_MAX}, if provided.");
                Err(SqsError::invalid_value(count, "MaxNumberOfMessages", &reason))
            }
        }
    }

    fn render(&self, receipt: &Receipt, stored: &Stored, queue: &str) -> Value {
        let message = &stored.message;
        let mut answer = json!({
            "MessageId": message.id,
            "ReceiptHandle": receipt.handle(queue),
            "MD5OfBody": attributes::md5_of_body(&message.body),
            "Body": message.body,
        });
        let own = attributes::select(&message.attributes, &self.message_attribute_names);
        if let Some(md5) = attributes::md5_of_attributes(&own) {
            answer["MD5OfMessageAttributes"] = Value::String(md5);
            answer["MessageAttributes"] = json!(own);
        }
        let system = self.system_attributes(stored);
        if !system.is_empty() {
            answer["Attributes"] = Value::Object(system);
        }
        answer
    }

    fn system_attributes(&self, stored: &Stored) -> Map<String, Value> {
        let message = &stored.message;
        let first_received = stored.first_received_at.map(|at| at.as_milliseconds().to_string());
        [
            ("SenderId", Some(SENDER_ID.to_owned())),
            ("SentTimestamp", Some(message.sent_at.as_milliseconds().to_string())),
            ("ApproximateReceiveCount", Some(stored.receives.to_string())),
            ("ApproximateFirstReceiveTimestamp", first_received),
            ("MessageGroupId", message.group.clone()),
            ("AWSTraceHeader", message.trace_header.clone()),
            ("DeadLetterQueueSourceArn", stored.dead_letter_source.clone()),
        ]
        .into_iter()
        .filter(|(name, _)| self.wants_system(name))
        .filter_map(|(name, value)| Some((name.to_owned(), Value::String(value?))))
        .collect()
    }

    fn wants_system(&self, name: &str) -> bool {
        let mut wanted = self.attribute_names.iter().chain(&self.message_system_attribute_names);
        wanted.any(|wish| wish == "All" || wish == name)
    }
}
