//! Events as an operator sees them: listed, shown, cancelled, replayed.

mod change;
mod list;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::outbox::millis;
use crate::model::ids::{EventId, PortalId};

pub use change::{ReplayedMapping, cancel_events, judge_cancels, judge_replays, replay_events};
pub use list::{count_open_events, list_finished_events, list_open_events, show_event};

/// Events in one call that changes them, which takes no more.
pub const MOST_CHANGED: usize = 500;

/// Which events are meant. What is `None` names all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Of this portal.
    pub portal: Option<PortalId>,
    /// Of this brand.
    pub brand: Option<String>,
    /// Of this product.
    pub product: Option<String>,
    /// With this error code.
    pub code: Option<String>,
    /// With an error of this class, such as `configuration`.
    pub class: Option<String>,
    /// Of this kind.
    pub kind: Option<String>,
    /// Accepted longer ago than this.
    pub older_than: Option<Duration>,
    /// Without the dead ones that were replayed.
    pub unreplayed: bool,
}

/// An event in a list. Identifiers and words of ours, no personal data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedEvent {
    /// The event.
    pub event_id: EventId,
    /// Its kind.
    pub kind: String,
    /// The portal that it goes to.
    pub portal_id: PortalId,
    /// The brand, unless it belongs to a portal as a whole.
    pub brand: Option<String>,
    /// The product, if it belongs to a stream.
    pub product: Option<String>,
    /// Its queue.
    pub lane: String,
    /// Its place in the stream.
    pub sequence: Option<i64>,
    /// Its status.
    pub status: String,
    /// Refusals by SQS.
    pub publish_attempts: i32,
    /// Attempts that counted.
    pub process_attempts: i32,
    /// Why it waits or ended, as a stable word.
    pub code: Option<String>,
    /// The same in a sentence.
    pub summary: Option<String>,
    /// When its decision was accepted.
    pub accepted_at: Timestamp,
    /// When it is due, if it waits for its time.
    pub due_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The dead event that it replays.
    pub replays: Option<EventId>,
    /// The event that replays it.
    pub replayed_as: Option<EventId>,
}

/// How many events have a status, a brand and a code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventCount {
    /// The status.
    pub status: String,
    /// The brand, unless they belong to a portal as a whole.
    pub brand: Option<String>,
    /// The code.
    pub code: Option<String>,
    /// How many.
    pub events: i64,
}

/// What became of an event that was to be changed, or would become of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedEvent {
    /// The event.
    pub event_id: EventId,
    /// Its status before; `None` when there is no such event.
    pub status: Option<String>,
    /// Why it was left alone; `None` when it was not.
    pub refusal: Option<Refused>,
    /// The other event that stands in its way.
    pub other_event_id: Option<EventId>,
    /// The new event, if there is one now.
    pub replay_id: Option<EventId>,
    /// The new event's place in the stream.
    pub sequence: Option<i64>,
}

/// Why an event was left alone. The words are those of `migrations/V4__replay.sql`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refused {
    /// There is no such event.
    UnknownEvent,
    /// Only a dead event can be replayed.
    NotDead,
    /// It was replayed before.
    AlreadyReplayed,
    /// It is no decision about a subscription.
    NoStream,
    /// Its contact was erased.
    ContactErased,
    /// A newer decision stands.
    NewerAccepted,
    /// Its product has no active mapping.
    NoActiveMapping,
    /// It carries no mapping.
    UnreadablePayload,
    /// It ended.
    Finished,
}

impl EventFilter {
    /// As the statements take it.
    fn to_json(&self) -> Value {
        json!({
            "portal_id": self.portal, "brand": self.brand, "product": self.product, "code": self.code, "class": self.class,
            "kind": self.kind, "older_than_ms": self.older_than.map(millis), "unreplayed": self.unreplayed,
        })
    }
}

impl Refused {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "unknown_event" => Self::UnknownEvent,
            "not_dead" => Self::NotDead,
            "already_replayed" => Self::AlreadyReplayed,
            "no_stream" => Self::NoStream,
            "contact_erased" => Self::ContactErased,
            "newer_accepted" => Self::NewerAccepted,
            "no_active_mapping" => Self::NoActiveMapping,
            "unreadable_payload" => Self::UnreadablePayload,
            "finished" => Self::Finished,
            _ => return None,
        })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownEvent => "there is no such event",
            Self::NotDead => "it is not dead",
            Self::AlreadyReplayed => "it was replayed already",
            Self::NoStream => "it is no decision about a subscription",
            Self::ContactErased => "its contact was erased",
            Self::NewerAccepted => "a newer decision was accepted",
            Self::NoActiveMapping => "its product has no active mapping",
            Self::UnreadablePayload => "it carries no mapping; replay it under the current one",
            Self::Finished => "it is finished",
        })
    }
}
