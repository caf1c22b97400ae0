//! What an application decided about one contact, as the worker reads it back from the outbox.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ids::{ContactKey, EventId, PortalId, RecordId, StreamId};
use super::mapping::Targets;

/// The kind of outbox event that carries a subscription decision.
pub const DESIRED_STATE_KIND: &str = "subscription.desired-state.v1";

/// What a contact is to be with regard to one product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DesiredState {
    /// Mail is wanted.
    Subscribed,
    /// Mail is not wanted.
    Unsubscribed,
}

impl DesiredState {
    /// The word used in tables and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Subscribed => "subscribed",
            Self::Unsubscribed => "unsubscribed",
        }
    }
}

/// Which queue an event travels by: who waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventLane {
    /// A visitor waits.
    Interactive,
    /// An import or a comparison; nobody waits.
    Bulk,
    /// A webhook delivery.
    Inbound,
    /// A side effect.
    Effects,
}

impl EventLane {
    /// The word used in tables and queue names.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Bulk => "bulk",
            Self::Inbound => "inbound",
            Self::Effects => "effects",
        }
    }

    /// Reads the word used in tables. `None` for any other word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Interactive, Self::Bulk, Self::Inbound, Self::Effects].into_iter().find(|lane| lane.as_str() == word)
    }
}

/// How a contact agreed, and when.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Consent {
    /// One of `HubSpot`'s legal bases, such as `CONSENT_WITH_NOTICE`.
    pub legal_basis: String,
    /// In words, for whoever has to show it later.
    pub explanation: String,
    /// When consent was given; the moment of acceptance if the application did not say.
    pub given_at: Timestamp,
}

/// The mapping an event was accepted under, as it stood then.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct MappingSnapshot {
    /// Version of the mapping.
    pub version: i32,
    /// What that version means in `HubSpot`.
    pub targets: Targets,
}

/// The payload of a [`DESIRED_STATE_KIND`] event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Payload {
    /// What is to be.
    pub desired_state: DesiredState,
    /// How the contact agreed; always there to subscribe.
    pub consent: Option<Consent>,
    /// What it means in `HubSpot`.
    pub mapping: MappingSnapshot,
}

/// A contact as the application has it now, and where it is in the portal.
#[derive(Clone, PartialEq, Eq)]
pub struct Contact {
    /// Stable key.
    pub key: ContactKey,
    /// Canonical address.
    pub email: String,
    /// Properties by the application's names.
    pub properties: BTreeMap<String, Value>,
    /// The record in the portal, once it is known: its own, or that of another contact with its address.
    pub record_id: Option<RecordId>,
    /// Whether the record is known to hold its key in the unique property.
    pub keyed: bool,
    /// Whose key and address the record carries: its own, unless it shares the record with a contact that comes first.
    pub owner: Owner,
    /// Whether others are the same record.
    pub shares: bool,
    /// All that were leased with it, itself among them: those with its address, and those with their records.
    pub leased: Vec<ContactKey>,
}

/// Of the contacts that are one record, the one whose key and address it carries.
#[derive(Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its key.
    pub key: ContactKey,
    /// Its address.
    pub email: String,
}

/// What was decided for the same record by another stream, later than the event that this comes with.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LaterDecision {
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// What is to be.
    pub desired_state: DesiredState,
    /// What it means in `HubSpot`.
    pub targets: Targets,
}

impl std::fmt::Debug for Owner {
    // As below: no address.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owner").field("key", &self.key).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Contact {
    // Address and properties are personal data and have no place in a log or an error.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contact").field("key", &self.key).field("record_id", &self.record_id).finish_non_exhaustive()
    }
}

/// An event that this worker holds, with all that its plan needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedEvent {
    /// The event.
    pub event_id: EventId,
    /// Its stream.
    pub stream_id: StreamId,
    /// Its place in the stream.
    pub sequence: i64,
    /// The portal it goes to.
    pub portal_id: PortalId,
    /// Who waits for it.
    pub lane: EventLane,
    /// Attempts that counted so far.
    pub process_attempts: i32,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// The contact, as it is now and not as it was when the event was accepted.
    pub contact: Contact,
    /// What was decided.
    pub payload: Payload,
    /// Operations that an earlier attempt finished: operation key → desired hash, in hexadecimal.
    pub receipts: BTreeMap<String, String>,
    /// The newest decisions of other streams that write to the same record, as far as they are later than this one.
    pub later: Vec<LaterDecision>,
}
