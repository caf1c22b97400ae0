//! The kinds of events, each with a file of its own; this is the list of them.
//!
//! A decision belongs to a stream: it is planned and merged with others in [`portal`](super::portal). Every other kind belongs
//! to no stream, and is applied from here. To add one: a file beside this one with its steps, a line in [`KINDS`], and one in
//! [`Worker::apply_kind`].

mod contact_erase;
mod webhook_delivery;

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use crate::adapters::db::{ContactRelease, LinkChange, PortalSettings, UnreadableEvent};
use crate::model::event::{DELIVERY_KIND, ERASE_KIND, PlainEvent};

use super::Worker;
use super::lease::Lease;
use super::portal::PortalOutcome;

/// A kind of events that belong to no stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A contact is to be deleted in a portal.
    ContactErase,
    /// A delivery of HubSpot's webhooks is to be applied.
    WebhookDelivery,
}

/// Every kind of events that belong to no stream, by its name in the outbox.
const KINDS: [(&str, Kind); 2] = [(ERASE_KIND, Kind::ContactErase), (DELIVERY_KIND, Kind::WebhookDelivery)];

impl Kind {
    fn of(event: &PlainEvent) -> Option<Self> {
        KINDS.iter().find(|(name, _)| *name == event.kind).map(|(_, kind)| *kind)
    }
}

impl Worker {
    /// Applies the events of one portal that belong to no stream, kind by kind. A kind that this version does not know is dead,
    /// and its batch goes on.
    pub(super) async fn apply_kinds(
        &self,
        portal: &PortalSettings,
        events: Vec<PlainEvent>,
        lease: &Lease,
        deadline: Instant,
    ) -> PortalOutcome {
        let mut outcome = PortalOutcome::default();
        let mut by_kind: BTreeMap<Option<Kind>, Vec<PlainEvent>> = BTreeMap::new();
        for event in events {
            by_kind.entry(Kind::of(&event)).or_default().push(event);
        }
        for (kind, events) in by_kind {
            outcome.extend(match kind {
                Some(kind) => self.apply_kind(kind, portal, events, lease, deadline).await,
                None => PortalOutcome::given_up(events.iter().map(unknown).collect()),
            });
        }
        outcome
    }

    async fn apply_kind(
        &self,
        kind: Kind,
        portal: &PortalSettings,
        events: Vec<PlainEvent>,
        lease: &Lease,
        deadline: Instant,
    ) -> PortalOutcome {
        match kind {
            Kind::ContactErase => self.erase_contacts(portal, events, lease, deadline).await,
            Kind::WebhookDelivery => self.apply_deliveries(portal, events, lease, deadline).await,
        }
    }
}

fn unknown(event: &PlainEvent) -> UnreadableEvent {
    UnreadableEvent { event_id: event.event_id, contacts: event.leased().collect(), reason: "unknown_kind" }
}

/// A contact is released once, with whatever was learned about it.
pub(super) fn one_each(releases: Vec<ContactRelease>) -> Vec<ContactRelease> {
    let mut each: HashMap<_, ContactRelease> = HashMap::new();
    for release in releases {
        let key = (release.portal_id, release.contact_key.clone());
        let known = each.entry(key).or_insert_with(|| release.clone());
        if known.link == LinkChange::None {
            *known = release;
        }
    }
    each.into_values().collect()
}
