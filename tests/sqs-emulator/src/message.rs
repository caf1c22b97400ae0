//! A message: what was sent, and what happened to it since.

use std::sync::Arc;

use serde::Serialize;

use crate::attributes::{self, MessageAttributes};
use crate::clock::Moment;

/// What a sender sent.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) body: String,
    pub(crate) attributes: MessageAttributes,
    pub(crate) group: Option<String>,
    pub(crate) trace_header: Option<String>,
    pub(crate) sent_at: Moment,
}

/// A message in a queue, with what happened to it so far.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) message: Arc<Message>,
    pub(crate) receives: u32,
    pub(crate) first_received_at: Option<Moment>,
    pub(crate) received_at: Option<Moment>,
    /// ARN of the queue that gave the message up, once it lies in a dead-letter queue.
    pub(crate) dead_letter_source: Option<String>,
    pub(crate) place: Place,
}

/// Where a message is, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Receivable; the number is its turn.
    Visible(u64),
    Delayed(Moment),
    InFlight(Moment),
}

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessagePlace {
    /// A receive can take it.
    Visible,
    /// Hidden since it was sent.
    Delayed,
    /// Hidden since it was received.
    InFlight,
}

/// A message as tests and the admin routes see it.
#[derive(Clone, Debug, Serialize)]
pub struct MessageView {
    /// Identifier that SQS gave it.
    pub message_id: String,
    /// Its body.
    pub body: String,
    /// Its message attributes by name.
    pub message_attributes: MessageAttributes,
    /// Its message group, if the sender named one.
    pub message_group_id: Option<String>,
    /// Its X-Ray trace header, if the sender gave one.
    pub trace_header: Option<String>,
    /// When it was sent, in milliseconds since 1970 of the emulator's clock.
    pub sent_at_ms: i64,
    /// How often it was received.
    pub receives: u32,
    /// Where it is.
    pub place: MessagePlace,
}

impl Stored {
    /// The message as it is now.
    pub(crate) fn view(&self) -> MessageView {
        let place = match self.place {
            Place::Visible(_) => MessagePlace::Visible,
            Place::Delayed(_) => MessagePlace::Delayed,
            Place::InFlight(_) => MessagePlace::InFlight,
        };
        MessageView { receives: self.receives, place, ..self.message.view() }
    }
}

impl Message {
    /// The message as it was when it was sent.
    pub(crate) fn view(&self) -> MessageView {
        MessageView {
            message_id: self.id.clone(),
            body: self.body.clone(),
            message_attributes: self.attributes.clone(),
            message_group_id: self.group.clone(),
            trace_header: self.trace_header.clone(),
            sent_at_ms: self.sent_at.as_milliseconds(),
            receives: 0,
            place: MessagePlace::Visible,
        }
    }

    /// Bytes that count against the size limits: body, and names, types and values of the attributes.
    pub(crate) fn size(body: &str, attributes: &MessageAttributes) -> usize {
        body.len() + attributes::size(attributes)
    }
}
