//! `SendMessage` and `SendMessageBatch`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::batch::{self, BatchEntry};
use super::{Call, required_queue};
use crate::attributes::{self, MessageAttributes};
use crate::error::SqsError;
use crate::faults::Occasion;
use crate::message::Message;
use crate::settings::MESSAGE_BYTES_MAX;

/// Seconds by which a message may be delayed (quota of SQS).
const DELAY_SECONDS_MAX: i64 = 900;
/// Characters of a message group's name (quota of SQS).
const GROUP_CHARACTERS_MAX: usize = 128;
/// The one system attribute that a sender may set.
const TRACE_HEADER: &str = "AWSTraceHeader";

/// A message as a sender gives it, alone or as an entry of a batch.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Draft {
    id: String,
    queue_url: String,
    message_body: String,
    delay_seconds: Option<i64>,
    message_attributes: MessageAttributes,
    message_system_attributes: MessageAttributes,
    message_group_id: Option<String>,
    message_deduplication_id: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct SendBatchRequest {
    queue_url: String,
    entries: Vec<Draft>,
}

impl BatchEntry for Draft {
    const TYPE: &'static str = "SendMessageBatchRequestEntry";

    fn id(&self) -> &str {
        &self.id
    }
}

pub(super) fn send(call: &mut Call<'_>, draft: Draft) -> Result<Value, SqsError> {
    let queue = required_queue(&draft.queue_url)?.to_owned();
    call.store.queue(&queue)?;
    accept(call, "SendMessage", &queue, draft)
}

pub(super) fn send_batch(call: &mut Call<'_>, request: SendBatchRequest) -> Result<Value, SqsError> {
    let queue = required_queue(&request.queue_url)?;
    call.store.queue(queue)?;
    batch::validate(&request.entries)?;
    let bytes = request.entries.iter().map(Draft::size).sum();
    if bytes > MESSAGE_BYTES_MAX {
        return Err(SqsError::batch_too_long(MESSAGE_BYTES_MAX, bytes));
    }
    Ok(batch::apply(call, "SendMessageBatch", queue, request.entries, |call, draft| {
        accept(call, "SendMessageBatch", queue, draft)
    }))
}

/// Checks a message, stores it, and answers with its id and checksums.
fn accept(call: &mut Call<'_>, action: &str, queue: &str, draft: Draft) -> Result<Value, SqsError> {
    let settings = &call.store.queue(queue)?.settings;
    draft.validate(settings.maximum_message_size)?;
    let own_delay = draft.delay_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let asked_delay = own_delay.map_or(settings.delay, Duration::from_secs);
    let occasion = Occasion { action, queue, position: None };
    let late = call.store.faults.strike_delay(occasion).unwrap_or(0);
    let message = draft.into_message(call);
    let answer = answer_for(&message);
    let key = call.store.new_key();
    call.store.queue_mut(queue)?.send(key, message, asked_delay + Duration::from_secs(late));
    Ok(answer)
}

fn answer_for(message: &Message) -> Value {
    let mut answer = json!({
        "MessageId": message.id,
        "MD5OfMessageBody": attributes::md5_of_body(&message.body),
    });
    if let Some(md5) = attributes::md5_of_attributes(&message.attributes) {
        answer["MD5OfMessageAttributes"] = Value::String(md5);
    }
    if let Some(trace_header) = &message.trace_header {
        let system = [(TRACE_HEADER.to_owned(), attributes::MessageAttribute::text(trace_header))].into();
        answer["MD5OfMessageSystemAttributes"] = json!(attributes::md5_of_attributes(&system));
    }
    answer
}

impl Draft {
    fn size(&self) -> usize {
        Message::size(&self.message_body, &self.message_attributes)
    }

    fn validate(&self, bytes_max: usize) -> Result<(), SqsError> {
        if self.message_body.is_empty() {
            return Err(SqsError::missing_parameter("MessageBody"));
        }
        attributes::validate_characters(&self.message_body)?;
        attributes::validate(&self.message_attributes)?;
        if self.size() > bytes_max {
            return Err(SqsError::invalid_parameter(format!(
                "One or more parameters are invalid. Reason: Message must be shorter than {bytes_max} bytes."
            )));
        }
        self.validate_delay()?;
        self.validate_group()?;
        self.validate_system_attributes()
    }

    fn validate_delay(&self) -> Result<(), SqsError> {
        match self.delay_seconds {
            Some(seconds) if !(0..=DELAY_SECONDS_MAX).contains(&seconds) => {
                let reason = format!("DelaySeconds must be >= 0 and <= {DELAY_SECONDS_MAX}.");
                Err(SqsError::invalid_value(seconds, "DelaySeconds", &reason))
            }
            _ => Ok(()),
        }
    }

    /// On a standard queue a group spreads capacity fairly and does not order; a deduplication id is refused.
    fn validate_group(&self) -> Result<(), SqsError> {
        if let Some(id) = &self.message_deduplication_id {
            let reason = "The request includes a parameter that is not valid for this queue type.";
            return Err(SqsError::invalid_value(id, "MessageDeduplicationId", reason));
        }
        let Some(group) = &self.message_group_id else {
            return Ok(());
        };
        let allowed = group.bytes().all(|byte| byte.is_ascii_graphic());
        if (1..=GROUP_CHARACTERS_MAX).contains(&group.len()) && allowed {
            return Ok(());
        }
        let reason = "MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.";
        Err(SqsError::invalid_value(group, "MessageGroupId", reason))
    }

    fn validate_system_attributes(&self) -> Result<(), SqsError> {
        for (name, attribute) in &self.message_system_attributes {
            if name != TRACE_HEADER || attribute.data_type != "String" || attribute.string_value.is_none() {
                return Err(SqsError::invalid_parameter(format!(
                    "Message system attribute name '{name}' is invalid, or its type is not String."
                )));
            }
        }
        Ok(())
    }

    fn into_message(self, call: &Call<'_>) -> Message {
        let own_trace = self.message_system_attributes.get(TRACE_HEADER).and_then(|own| own.string_value.clone());
        Message {
            id: Uuid::new_v4().to_string(),
            body: self.message_body,
            attributes: self.message_attributes,
            group: self.message_group_id,
            trace_header: own_trace.or_else(|| call.trace_header.map(str::to_owned)),
            sent_at: call.now,
        }
    }
}
