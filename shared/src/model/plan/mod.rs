//! What a batch of events means in calls: merged per contact, counted exactly, and cut to what the budget can grant.

mod build;
mod flaw;

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;

use super::ids::{ContactKey, EventId, RecordId};
use super::property_value::PropertyType;
use super::subscription::{ClaimedEvent, Consent, DesiredState};

use build::{groups, plan_of};

pub use flaw::{Flaw, FlawKind, NOT_APPLIED};

/// Rows that one call to a batch endpoint takes: HubSpot's limit for contacts, which answers 400 to 101; the same is assumed for
/// statuses, where none is documented.
pub const ROWS_PER_CALL: usize = 100;

/// Record ids that one membership call takes. HubSpot documents no limit; this keeps a request below 20 KB and
/// one lost call cheap.
pub const MEMBERS_PER_CALL: usize = 1000;

/// How consent is read and written in a portal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// Up to [`ROWS_PER_CALL`] addresses a call; needs Marketing Hub Enterprise.
    Batch,
    /// One address a call.
    Single,
}

/// What every operation has: an identity, a fingerprint of what it wants, and the events that wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Stable within its event, such as `status:1001:subscribed`.
    pub key: String,
    /// SHA-256 of what is to be written.
    pub desired_hash: [u8; 32],
    /// The contact it concerns.
    pub contact_key: ContactKey,
    /// The events that are not done before it is.
    pub events: Vec<EventId>,
}

/// Writes a record's properties.
#[derive(Clone, PartialEq, Eq)]
pub struct Upsert {
    /// Identity and waiting events.
    pub operation: Operation,
    /// The contact's address.
    pub email: String,
    /// HubSpot properties and their texts. The address and the unique property are among them, unless these are another
    /// contact's to write.
    pub properties: BTreeMap<String, String>,
    /// The types of those properties, as far as a mapping names them.
    pub kinds: BTreeMap<String, PropertyType>,
    /// The record, if it was known before this batch.
    pub record_id: Option<RecordId>,
    /// Whose key belongs into the record's unique property.
    pub owner: ContactKey,
    /// Whether no other contact is known to be the same record.
    pub is_alone: bool,
}

/// Writes one subscription status.
#[derive(Clone, PartialEq, Eq)]
pub struct StatusChange {
    /// Identity and waiting events.
    pub operation: Operation,
    /// The contact's address.
    pub email: String,
    /// The subscription type.
    pub subscription_type: i64,
    /// The business unit it belongs to.
    pub business_unit: Option<i64>,
    /// The status to write.
    pub state: DesiredState,
    /// How the contact agreed.
    pub consent: Option<Consent>,
    /// When the decision was accepted.
    pub accepted_at: Timestamp,
}

/// Joins or leaves one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Identity and waiting events.
    pub operation: Operation,
    /// The record, if it was known before this batch; otherwise the upsert's answer names it.
    pub record_id: Option<RecordId>,
}

/// Something of a plan, with its identity.
pub trait Planned {
    /// Identity and waiting events.
    fn operation(&self) -> &Operation;

    /// What it writes into this property of a contact.
    fn value(&self, _property: &str) -> Option<&str> {
        None
    }
}

impl Planned for Upsert {
    fn operation(&self) -> &Operation {
        &self.operation
    }

    fn value(&self, property: &str) -> Option<&str> {
        self.properties.get(property).map(String::as_str)
    }
}

impl Planned for StatusChange {
    fn operation(&self) -> &Operation {
        &self.operation
    }
}

impl Planned for Membership {
    fn operation(&self) -> &Operation {
        &self.operation
    }
}

/// Joining or leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MembershipChange {
    /// The contact becomes a member.
    Add,
    /// The contact stops being one.
    Remove,
}

/// All operations of some events of one portal.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The events this plan serves.
    pub events: Vec<EventId>,
    /// Contacts that no record is known for: found, or made, by their address. And those that were found on the record of
    /// another contact with another address: whether they are still there, the address tells.
    pub upserts_by_email: Vec<Upsert>,
    /// Contacts with a record of their own: found by the unique property, so that a changed address changes them.
    pub upserts_by_key: Vec<Upsert>,
    /// Records that several contacts with one address share, or whose unique property does not hold the key yet.
    pub updates_by_record: Vec<Upsert>,
    /// Statuses to write; those that subscribe are read first.
    pub statuses: Vec<StatusChange>,
    /// Segment changes, grouped the way they are sent.
    pub memberships: BTreeMap<(String, MembershipChange), Vec<Membership>>,
    /// Properties that are not written, because their values do not go with their types. Everything else of these events is.
    pub left_out: Vec<(EventId, Flaw)>,
}

/// Builds plans of at most `most_calls` calls each. Together they serve every event once; the events of a contact stay
/// together. A single contact that needs more calls than that gets a plan of its own that is larger.
pub fn plans(events: &[ClaimedEvent], unique_property: &str, mode: WriteMode, most_calls: u32) -> Vec<Plan> {
    let mut finished = Vec::new();
    let mut waiting = vec![groups(events)];
    while let Some(groups) = waiting.pop() {
        let plan = plan_of(&groups, unique_property);
        if plan.calls(mode) <= most_calls || groups.len() <= 1 {
            finished.push(plan);
        } else {
            let (first, second) = groups.split_at(groups.len() / 2);
            waiting.extend([second.to_vec(), first.to_vec()]);
        }
    }
    finished
}

impl Plan {
    /// The calls this plan needs at the most. Statuses that turn out to be right already cost less.
    pub fn calls(&self, mode: WriteMode) -> u32 {
        let rows = |count: usize| count.div_ceil(ROWS_PER_CALL);
        let statuses = |count: usize| match mode {
            WriteMode::Batch => rows(count),
            WriteMode::Single => count,
        };
        let reads: usize = self.addresses_to_read().values().map(|emails| statuses(emails.len())).sum();
        let memberships: usize =
            self.memberships.values().map(|members| members.len().div_ceil(MEMBERS_PER_CALL)).sum();
        let total = rows(self.upserts_by_email.len())
            + rows(self.upserts_by_key.len())
            + rows(self.updates_by_record.len())
            + reads
            + statuses(self.statuses.len())
            + memberships;
        u32::try_from(total).unwrap_or(u32::MAX)
    }

    /// The addresses whose statuses must be known before anything is written, by business unit: a subscription is not
    /// written over an opt-out.
    pub fn addresses_to_read(&self) -> BTreeMap<Option<i64>, Vec<&str>> {
        let mut addresses: BTreeMap<Option<i64>, Vec<&str>> = BTreeMap::new();
        let mut seen = HashSet::new();
        for change in self.statuses.iter().filter(|change| change.state == DesiredState::Subscribed) {
            if seen.insert((change.business_unit, change.email.as_str())) {
                addresses.entry(change.business_unit).or_default().push(&change.email);
            }
        }
        addresses
    }

    /// Every record to write, however it is found.
    pub fn upserts(&self) -> impl Iterator<Item = &Upsert> {
        self.upserts_by_email.iter().chain(&self.upserts_by_key).chain(&self.updates_by_record)
    }

    /// Every operation, whatever its kind.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        let upserts = self.upserts().map(|upsert| &upsert.operation);
        let statuses = self.statuses.iter().map(|change| &change.operation);
        let memberships = self.memberships.values().flatten().map(|member| &member.operation);
        upserts.chain(statuses).chain(memberships)
    }
}

#[cfg(test)]
mod tests {
    use super::build::{hex, text_of};
    use super::*;
    use crate::model::ids::{PortalId, StreamId};
    use crate::model::subscription::{Contact, LaterDecision, Owner};
    use crate::model::subscription::{EventLane, MappingSnapshot, Payload};
    use jiff::Timestamp;
    use serde_json::json;
    use uuid::Uuid;

    const UNIQUE: &str = "hubferry_contact_key";

    fn event(number: u128, contact: &str, email: &str, state: DesiredState) -> ClaimedEvent {
        let targets = serde_json::from_value(json!({
            "contact_properties": {"firstname": "first_name", "lead_source": {"value": "web"}},
            "subscription_type": 1001,
            "segments": {"subscribed": {"add": ["101"]}, "unsubscribed": {"remove": ["101"]}},
        }))
        .unwrap();
        ClaimedEvent {
            event_id: EventId(Uuid::from_u128(number)),
            stream_id: StreamId(1),
            sequence: 1,
            portal_id: PortalId(4711),
            lane: EventLane::Bulk,
            process_attempts: 0,
            accepted_at: Timestamp::from_second(i64::try_from(number).unwrap()).unwrap(),
            contact: Contact {
                key: ContactKey(contact.into()),
                email: email.into(),
                properties: BTreeMap::from([("first_name".into(), json!("Ada"))]),
                record_id: None,
                keyed: true,
                owner: Owner { key: ContactKey(contact.into()), email: email.into() },
                shares: false,
                leased: vec![ContactKey(contact.into())],
            },
            payload: Payload { desired_state: state, consent: None, mapping: MappingSnapshot { version: 1, targets } },
            receipts: BTreeMap::new(),
            later: Vec::new(),
        }
    }

    fn subscribers(count: u128) -> Vec<ClaimedEvent> {
        (0..count)
            .map(|n| event(n, &format!("c{n}"), &format!("c{n}@example.test"), DesiredState::Subscribed))
            .collect()
    }

    fn only_plan(events: &[ClaimedEvent]) -> Plan {
        let mut plans = plans(events, UNIQUE, WriteMode::Batch, u32::MAX);
        assert_eq!(plans.len(), 1);
        plans.remove(0)
    }

    #[test]
    fn a_hundred_new_subscribers_cost_four_calls() {
        assert_eq!(only_plan(&subscribers(100)).calls(WriteMode::Batch), 4);
        assert_eq!(only_plan(&subscribers(101)).calls(WriteMode::Batch), 7);
        assert_eq!(only_plan(&subscribers(100)).calls(WriteMode::Single), 1 + 100 + 100 + 1);
        assert_eq!(only_plan(&[]).calls(WriteMode::Batch), 0);
    }

    #[test]
    fn who_leaves_is_written_without_asking() {
        let plan = only_plan(&[event(1, "a", "a@example.test", DesiredState::Unsubscribed)]);
        assert!(plan.addresses_to_read().is_empty());
        assert_eq!(plan.calls(WriteMode::Batch), 3);
    }

    #[test]
    fn events_of_one_contact_become_one_upsert_and_the_newest_status_serves_them_all() {
        let events = [
            event(2, "a", "a@example.test", DesiredState::Subscribed),
            event(1, "a", "a@example.test", DesiredState::Unsubscribed),
        ];
        let plan = only_plan(&events);
        assert_eq!(plan.upserts_by_email.len(), 1);
        assert_eq!(plan.statuses.len(), 1);
        assert_eq!(plan.statuses[0].state, DesiredState::Subscribed);
        assert_eq!(plan.statuses[0].operation.events.len(), 2);
        assert_eq!(plan.memberships.keys().collect::<Vec<_>>(), [&("101".to_owned(), MembershipChange::Add)]);
    }

    #[test]
    fn the_first_write_goes_by_address_and_sets_the_unique_property() {
        let mut linked = event(2, "b", "b@example.test", DesiredState::Subscribed);
        linked.contact.record_id = Some(RecordId(7));
        let plan = only_plan(&[event(1, "a", "a@example.test", DesiredState::Subscribed), linked]);
        assert_eq!(plan.upserts_by_email[0].properties[UNIQUE], "a");
        assert_eq!(plan.upserts_by_email[0].properties["firstname"], "Ada");
        assert_eq!(plan.upserts_by_email[0].properties["lead_source"], "web");
        assert_eq!(plan.upserts_by_key[0].properties["email"], "b@example.test");
    }

    #[test]
    fn an_operation_with_a_receipt_is_skipped_unless_it_would_write_something_else() {
        let mut again = event(1, "a", "a@example.test", DesiredState::Subscribed);
        again.contact.record_id = Some(RecordId(7));
        let first = only_plan(std::slice::from_ref(&again));
        again.receipts = first.operations().map(|op| (op.key.clone(), hex(&op.desired_hash))).collect();
        assert_eq!(only_plan(std::slice::from_ref(&again)).calls(WriteMode::Batch), 0);
        again.contact.properties.insert("first_name".into(), json!("Grace"));
        let changed = only_plan(std::slice::from_ref(&again));
        assert_eq!(changed.upserts_by_key.len(), 1);
        assert!(changed.statuses.is_empty());
    }

    #[test]
    fn a_contact_whose_record_is_not_known_is_written_again_despite_its_receipt() {
        let mut again = event(1, "a", "a@example.test", DesiredState::Subscribed);
        let first = only_plan(std::slice::from_ref(&again));
        again.receipts = first.operations().map(|op| (op.key.clone(), hex(&op.desired_hash))).collect();
        assert_eq!(only_plan(&[again]).upserts_by_email.len(), 1);
    }

    #[test]
    fn plans_are_cut_to_the_calls_that_can_be_granted_and_lose_nobody() {
        let events = subscribers(250);
        let cut = plans(&events, UNIQUE, WriteMode::Single, 50);
        assert!(cut.iter().all(|plan| plan.calls(WriteMode::Single) <= 50));
        let mut served: Vec<EventId> = cut.iter().flat_map(|plan| plan.events.clone()).collect();
        served.sort();
        assert_eq!(served, events.iter().map(|event| event.event_id).collect::<Vec<_>>());
    }

    #[test]
    fn contacts_with_one_address_are_written_as_one_record_under_the_owners_key() {
        let mut events = [
            event(1, "b", "a@example.test", DesiredState::Unsubscribed),
            event(2, "a", "a@example.test", DesiredState::Subscribed),
        ];
        for event in &mut events {
            event.contact.shares = true;
            event.contact.owner.key = ContactKey("a".into());
        }
        let plan = only_plan(&events);
        assert_eq!(plan.upserts_by_email.len(), 1);
        assert_eq!(plan.upserts_by_email[0].properties[UNIQUE], "a");
        assert_eq!(plan.upserts_by_email[0].operation.events.len(), 2);
        assert_eq!((plan.statuses.len(), plan.statuses[0].state), (1, DesiredState::Subscribed));
        for event in &mut events {
            event.contact.record_id = Some(RecordId(7));
        }
        assert_eq!(only_plan(&events).updates_by_record[0].record_id, Some(RecordId(7)));
    }

    #[test]
    fn who_was_found_under_a_second_address_writes_neither_key_nor_address() {
        let mut second = event(1, "b", "b@example.test", DesiredState::Subscribed);
        second.contact.record_id = Some(RecordId(7));
        second.contact.shares = true;
        second.contact.owner = Owner { key: ContactKey("a".into()), email: "a@example.test".into() };
        let plan = only_plan(std::slice::from_ref(&second));
        assert_eq!(plan.updates_by_record[0].properties["email"], "a@example.test", "its own key is taken off again");
        assert_eq!(plan.updates_by_record[0].properties[UNIQUE], "a");
        second.contact.keyed = false;
        let plan = only_plan(&[second]);
        assert_eq!(plan.upserts_by_email[0].properties.keys().collect::<Vec<_>>(), ["firstname", "lead_source"]);
    }

    #[test]
    fn an_older_decision_does_not_undo_what_another_stream_decided_since() {
        let mut older = event(1, "a", "a@example.test", DesiredState::Unsubscribed);
        let later = |second, state| LaterDecision {
            accepted_at: Timestamp::from_second(second).unwrap(),
            desired_state: state,
            targets: older.payload.mapping.targets.clone(),
        };
        let (same, after) = (later(1, DesiredState::Subscribed), later(2, DesiredState::Subscribed));
        older.later = vec![same];
        assert_eq!(only_plan(std::slice::from_ref(&older)).statuses.len(), 1, "of one instant the opt-out counts");
        older.later = vec![after];
        let plan = only_plan(&[older]);
        assert!(plan.statuses.is_empty() && plan.memberships.is_empty());
        assert_eq!(plan.upserts_by_email.len(), 1);
    }

    #[test]
    fn a_value_that_does_not_go_with_its_type_is_left_out_and_the_rest_is_written() {
        let mut typed = event(1, "a", "a@example.test", DesiredState::Subscribed);
        typed.payload.mapping.targets.contact_properties = serde_json::from_value(json!({
            "firstname": "first_name",
            "birthday": {"property": "born", "type": "date", "zone": "Europe/Amsterdam"},
            "seats": {"property": "seats", "type": "number"},
            "tier": {"property": "tier", "type": "enumeration"},
        }))
        .unwrap();
        typed.contact.properties.extend([
            ("born".to_owned(), json!(954_025_200_000_i64)),
            ("seats".to_owned(), json!("a dozen")),
            ("tier".to_owned(), json!("Gold\u{a0}")),
        ]);
        let plan = only_plan(&[typed]);
        let written = &plan.upserts_by_email[0];
        assert_eq!(written.properties["birthday"], "2000-03-26");
        assert_eq!(written.properties["tier"], "Gold");
        assert!(!written.properties.contains_key("seats"));
        let [(_, flaw)] = &plan.left_out[..] else { panic!("{:?}", plan.left_out) };
        assert_eq!((flaw.property.as_str(), flaw.code.as_str()), ("seats", "invalid_number"));
        assert_eq!(flaw.summary, "row_invalid: invalid_number (property `seats` of type number); the rest was written");
    }

    #[test]
    fn values_become_the_texts_that_hubspot_takes() {
        assert_eq!(text_of(&json!(null)), "");
        assert_eq!(text_of(&json!("x")), "x");
        assert_eq!(text_of(&json!(1.5)), "1.5");
        assert_eq!(text_of(&json!(true)), "true");
    }
}
