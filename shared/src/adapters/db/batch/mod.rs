//! The outbox as the worker sees it: a batch is claimed, renewed and finished in one statement each.

mod claim;
mod finish;
mod holders;
mod receipts;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::model::event::PlainEvent;
use crate::model::ids::{ContactKey, EventId, PortalId, RecordId};
use crate::model::plan::WriteMode;
use crate::model::subscription::{ClaimedEvent, DesiredState};
use crate::model::suspects::Suspect;

pub use claim::{Renewed, claim_batch, claim_suspects, defer_suspects, renew_leases};
pub use finish::finish_batch;
pub use holders::meet_holders;
pub use receipts::{own_opt_outs, start_receipts};

/// What became of the events of a batch of messages.
#[derive(Debug, Default)]
pub struct ClaimedBatch {
    /// Held by us now, by portal.
    pub portals: BTreeMap<PortalId, (PortalSettings, Vec<ClaimedEvent>)>,
    /// Held by us now, and of no stream, by portal.
    pub without_stream: BTreeMap<PortalId, (PortalSettings, Vec<PlainEvent>)>,
    /// Held by us, but of a kind or form that this version does not understand.
    pub unreadable: Vec<UnreadableEvent>,
    /// A newer state was accepted: ended without a call.
    pub superseded: usize,
    /// The contact was erased: ended without a call.
    pub cancelled: usize,
    /// Another worker holds the contact: snoozed.
    pub busy: usize,
    /// Waiting for their time, or finished: nothing to do.
    pub settled: usize,
    /// No such event: not committed yet, pruned, or not of this database.
    pub unknown: Vec<EventId>,
    /// Published, and not claimed with others: workers did not come back that held them.
    pub suspects: Vec<Suspect>,
}

impl ClaimedBatch {
    /// Every event that is held by us now.
    #[cfg(feature = "failpoints")]
    pub(crate) fn event_ids(&self) -> impl Iterator<Item = EventId> {
        let readable = self.portals.values().flat_map(|(_, events)| events).map(|event| event.event_id);
        let plain = self.without_stream.values().flat_map(|(_, events)| events).map(|event| event.event_id);
        readable.chain(plain).chain(self.unreadable.iter().map(|event| event.event_id))
    }
}

/// An event that a later version may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableEvent {
    /// The event.
    pub event_id: EventId,
    /// The contacts that were claimed with it.
    pub contacts: Vec<(PortalId, ContactKey)>,
    /// Why, as a stable word.
    pub reason: &'static str,
}

/// A portal as it is configured now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortalSettings {
    /// The account.
    pub portal_id: PortalId,
    /// Calls in any rolling window.
    pub call_limit: u32,
    /// Length of that window.
    pub call_window: Duration,
    /// Search requests a second.
    pub search_limit_per_second: u32,
    /// How consent is read and written.
    pub write_mode: WriteMode,
    /// The contact property with unique values that holds our key.
    pub unique_property: String,
    /// The dated version of HubSpot's API that this portal is called in, if not the deployment's.
    pub api_version: Option<String>,
    /// The contact properties that its rules wait for: what is written to them comes back, and has to be known then.
    pub watched: HashSet<String>,
    /// Switched off by an operator.
    pub off: bool,
    /// Paused for this much longer.
    pub paused_for: Option<Duration>,
}

/// What an event's row is to say from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The event.
    pub event_id: EventId,
    /// Where it goes.
    pub status: VerdictStatus,
    /// Why, as a stable word and as a sentence without personal data.
    pub reason: Option<(String, String)>,
    /// What HubSpot holds now for the stream, as far as this event settled it.
    pub applied: Option<DesiredState>,
}

/// Where an event goes when its batch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictStatus {
    /// HubSpot agrees.
    Synced,
    /// HubSpot knew better.
    Superseded,
    /// A person has to look.
    Dead,
    /// It waits for its time. A snooze does not count as an attempt.
    Retry {
        /// How long.
        due_in: Duration,
        /// Whether it counts as an attempt.
        charged: bool,
    },
}

/// A contact that is given back, with what was learned about its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContactRelease {
    /// The portal.
    pub portal_id: PortalId,
    /// The contact.
    pub contact_key: ContactKey,
    /// Where it is now.
    pub link: LinkChange,
    /// Whether its key was written into that record; `None`: nothing new.
    pub keyed: Option<bool>,
    /// Whether it was taken to share the record with nobody.
    pub alone: bool,
}

impl ContactRelease {
    /// A contact of which nothing was learned.
    pub fn unchanged(portal_id: PortalId, contact_key: ContactKey) -> Self {
        Self { portal_id, contact_key, link: LinkChange::None, keyed: None, alone: false }
    }
}

/// What was learned about where a contact is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LinkChange {
    /// Nothing.
    #[default]
    None,
    /// It is this record.
    Is(RecordId),
    /// It is not this record, which is gone: forgotten, if it was this one that we knew.
    IsNot(RecordId),
}

/// An event that was still ours when its batch was finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FinishedEvent {
    /// The event.
    pub event_id: EventId,
    /// It was to be synced, but its contact turned out to be the record of another contact too: it comes round once more.
    pub shares_record: bool,
}

/// A key that was found on a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundKey {
    /// The key.
    pub key: ContactKey,
    /// The record, and an address that it has; `None` to ask only for the key's place in the order.
    pub record: Option<(RecordId, String)>,
}

/// A contact that is alive, and belongs to the record on which its key was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Its key.
    pub key: ContactKey,
    /// The record that it was asked for with.
    pub record_id: Option<RecordId>,
}

/// What is about to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedReceipt {
    /// The event.
    pub event_id: EventId,
    /// The operation.
    pub operation_key: String,
    /// The portal.
    pub portal_id: PortalId,
    /// The contact.
    pub contact_key: ContactKey,
    /// Fingerprint of what is written.
    pub desired_hash: [u8; 32],
}

/// What became of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Identity and fingerprint.
    pub started: StartedReceipt,
    /// How it ended.
    pub status: ReceiptStatus,
    /// The record HubSpot named.
    pub record_id: Option<RecordId>,
    /// HubSpot's id of the call.
    pub correlation_id: Option<String>,
    /// When the change happened, by HubSpot's clock.
    pub remote_at: Option<Timestamp>,
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiptStatus {
    /// HubSpot holds what was wanted.
    Done,
    /// HubSpot refused it.
    Refused,
}

/// Asks for our own opt-outs of a contact and subscription type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OptOutQuery {
    /// The portal.
    pub portal_id: PortalId,
    /// The contact.
    pub contact_key: ContactKey,
    /// Such as `status:1001:unsubscribed`.
    pub operation_key: String,
}

/// An opt-out that we wrote, or may have written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptOut {
    /// Which.
    pub query: OptOutQuery,
    /// When the decision to opt out was accepted.
    pub accepted_at: Timestamp,
    /// The call began after this.
    pub started_at: Timestamp,
    /// So did calls before it, whose answers were lost.
    pub earlier_starts: Vec<Timestamp>,
    /// HubSpot's instant of the change, if its answer arrived.
    pub remote_at: Option<Timestamp>,
}
