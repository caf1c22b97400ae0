//! What a batch learned about where its contacts are.

use std::collections::{HashMap, HashSet};

use crate::adapters::db::{ContactRelease, LinkChange};
use crate::model::ids::{ContactKey, EventId, RecordId};
use crate::model::plan::Plan;
use crate::model::subscription::ClaimedEvent;

use super::apply::Results;
use super::verdict::{Done, OperationResult};

/// Where a contact was found.
pub(super) enum Found<'a> {
    /// On the record that was written, with this key.
    There { record: RecordId, key: &'a Option<ContactKey>, is_alone: bool },
    /// On a record that could not be written yet.
    Elsewhere(RecordId),
}

/// What the answers say about where the contact of each event is.
pub(super) fn learned<'a>(plan: &Plan, results: &'a Results) -> HashMap<EventId, Found<'a>> {
    let alone: HashSet<&ContactKey> =
        plan.upserts().filter(|upsert| upsert.is_alone).map(|upsert| &upsert.operation.contact_key).collect();
    let mut learned = HashMap::new();
    for (operation, result) in results {
        let found = |_: &EventId| match result {
            OperationResult::Done(Done { record_id: Some(record), key, .. }) => {
                Some(Found::There { record: *record, key, is_alone: alone.contains(&operation.contact_key) })
            }
            OperationResult::Found(record) => Some(Found::Elsewhere(*record)),
            _ => None,
        };
        learned.extend(operation.events.iter().filter_map(|event| Some((*event, found(event)?))));
    }
    learned
}

/// What a batch learned about a contact.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Learned {
    pub(super) link: LinkChange,
    pub(super) keyed: Option<bool>,
    pub(super) is_alone: bool,
}

impl Learned {
    pub(super) fn gone(record: Option<RecordId>) -> Self {
        Self { link: record.map_or(LinkChange::None, LinkChange::IsNot), ..Self::default() }
    }
}

/// Everybody who was leased, once, however many events there are. A record that is gone is gone for all who share it.
pub(super) fn releases<'a>(
    events: impl IntoIterator<Item = &'a ClaimedEvent>,
    learned: impl Fn(&ClaimedEvent) -> Learned,
) -> Vec<ContactRelease> {
    let mut releases: HashMap<_, ContactRelease> = HashMap::new();
    for event in events {
        let of_event = learned(event);
        let is_gone = matches!(of_event.link, LinkChange::IsNot(_));
        for key in &event.contact.leased {
            let release = releases
                .entry((event.portal_id, key.clone()))
                .or_insert_with(|| ContactRelease::unchanged(event.portal_id, key.clone()));
            if is_gone {
                release.link = of_event.link;
            } else if *key == event.contact.key && release.link == LinkChange::None {
                (release.link, release.keyed, release.alone) = (of_event.link, of_event.keyed, of_event.is_alone);
            }
        }
    }
    releases.into_values().collect()
}
