//! Events that belong to no stream, as the worker reads them back from the outbox.

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::ids::{ContactKey, EventId, PortalId, RecordId};
use super::subscription::EventLane;

/// The kind of event that erases a contact in one portal. Its payload holds the address that the contact had:
/// `{"email": "…"}`; it is empty once HubSpot has been told.
pub const ERASE_KIND: &str = "contact.erase.v1";

/// The kind of event that applies what a delivery of HubSpot's webhooks says about one portal. Its payload names the
/// delivery: `{"delivery_id": "…", "portal_id": …}`.
pub const DELIVERY_KIND: &str = "webhook.delivery.v1";

/// An event of no stream that this worker holds. What its payload means is its kind's to say.
#[derive(Clone, PartialEq, Eq)]
pub struct PlainEvent {
    /// The event.
    pub event_id: EventId,
    /// Its kind.
    pub kind: String,
    /// The portal that it belongs to.
    pub portal_id: PortalId,
    /// Who waits for it.
    pub lane: EventLane,
    /// Attempts that counted so far.
    pub process_attempts: i32,
    /// When it was written.
    pub created_at: Timestamp,
    /// The contact that it concerns, if it concerns one.
    pub contact: Option<PlainContact>,
    /// For its kind.
    pub payload: Value,
}

/// A contact that an event without a stream concerns. It may be erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainContact {
    /// Its key.
    pub key: ContactKey,
    /// The record that it is linked to in the portal.
    pub record_id: Option<RecordId>,
    /// All that were leased with it, itself among them.
    pub leased: Vec<ContactKey>,
}

impl PlainEvent {
    /// The delivery that it is about, of a [`DELIVERY_KIND`].
    pub fn delivery_id(&self) -> Option<Uuid> {
        self.payload.get("delivery_id")?.as_str()?.parse().ok()
    }

    /// All contacts that were leased with it.
    pub fn leased(&self) -> impl Iterator<Item = (PortalId, ContactKey)> {
        self.contact.iter().flat_map(|contact| contact.leased.iter().map(|key| (self.portal_id, key.clone())))
    }
}

impl fmt::Debug for PlainEvent {
    // A payload may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainEvent")
            .field("event_id", &self.event_id)
            .field("kind", &self.kind)
            .field("contact", &self.contact)
            .finish_non_exhaustive()
    }
}
