//! Builds a plan out of the events of contacts.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Flaw, Membership, MembershipChange, Operation, Plan, StatusChange, Upsert};
use crate::model::ids::{EventId, RecordId};
use crate::model::mapping::{Origin, Targets};
use crate::model::subscription::{ClaimedEvent, Contact, DesiredState, LaterDecision};

/// Key of the operation that writes a contact's properties.
const CONTACT_OPERATION: &str = "contact";

/// One address, and the record it is known to be, with its events, oldest first. Nearly always that is one contact.
pub(super) type Group<'a> = Vec<&'a ClaimedEvent>;

/// Groups in the order of their first event, each with its events, oldest first.
pub(super) fn groups(events: &[ClaimedEvent]) -> Vec<Group<'_>> {
    let mut oldest_first: Vec<&ClaimedEvent> = events.iter().collect();
    oldest_first.sort_by_key(|event| (age(event), event.event_id));
    let mut places: HashMap<(&str, Option<RecordId>), usize> = HashMap::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for event in oldest_first {
        let place = *places.entry((&event.contact.email, event.contact.record_id)).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(event);
    }
    groups
}

/// How new a decision is: of decisions of one instant an opt-out counts as the newest.
fn age(event: &ClaimedEvent) -> (Timestamp, bool) {
    (event.accepted_at, event.payload.desired_state == DesiredState::Unsubscribed)
}

/// Whether another stream has decided since, about what `concerns` says; its own event sees to that.
fn is_overruled(event: &ClaimedEvent, concerns: impl Fn(&LaterDecision) -> bool) -> bool {
    let since =
        |later: &LaterDecision| (later.accepted_at, later.desired_state == DesiredState::Unsubscribed) > age(event);
    event.later.iter().any(|later| since(later) && concerns(later))
}

pub(super) fn plan_of(groups: &[Group<'_>], unique_property: &str) -> Plan {
    let mut plan = Plan::default();
    for group in groups {
        plan.events.extend(group.iter().map(|event| event.event_id));
        add_upsert(&mut plan, group, unique_property);
        add_statuses(&mut plan, group);
        add_memberships(&mut plan, group);
    }
    plan
}

fn add_upsert(plan: &mut Plan, group: &Group<'_>, unique_property: &str) {
    let contact = &group[0].contact;
    // Its record is another contact's, whose key and address stay on it. As long as its own key is there, that is put right.
    let is_guest = contact.record_id.is_some() && contact.email != contact.owner.email && !contact.keyed;
    let mut properties = BTreeMap::new();
    if !is_guest {
        properties.insert("email".to_owned(), contact.owner.email.clone());
        properties.insert(unique_property.to_owned(), contact.owner.key.0.clone());
    }
    let mut kinds = BTreeMap::new();
    for event in group {
        let targets = &event.payload.mapping.targets;
        for (name, text) in mapped_properties(targets, &event.contact) {
            match text {
                Ok(text) => {
                    properties.insert(name.clone(), text);
                }
                Err(flaw) => plan.left_out.push((event.event_id, flaw)),
            }
        }
        kinds.extend(targets.contact_properties.iter().filter_map(|(name, source)| Some((name.clone(), source.kind?))));
    }
    let hash = fingerprint(&json!(properties));
    if let Some(operation) = operation(CONTACT_OPERATION.to_owned(), hash, contact, group) {
        let (record_id, owner) = (contact.record_id, contact.owner.key.clone());
        let is_alone = !contact.shares;
        let email = contact.email.clone();
        let upsert = Upsert { operation, email, properties, kinds, record_id, owner, is_alone };
        match record_id {
            Some(_) if is_alone && contact.keyed => plan.upserts_by_key.push(upsert),
            Some(_) if !is_guest => plan.updates_by_record.push(upsert),
            _ => plan.upserts_by_email.push(upsert),
        }
    }
}

/// One change a subscription type: of several products that share one, the newest decision counts, and serves them all.
fn add_statuses(plan: &mut Plan, group: &Group<'_>) {
    let mut newest: BTreeMap<i64, (&ClaimedEvent, Group<'_>)> = BTreeMap::new();
    for event in group {
        if let Some(subscription_type) = event.payload.mapping.targets.subscription_type {
            let entry = newest.entry(subscription_type).or_insert_with(|| (event, Vec::new()));
            entry.0 = event;
            entry.1.push(event);
        }
    }
    for (subscription_type, (event, waiting)) in newest {
        if is_overruled(event, |later| later.targets.subscription_type == Some(subscription_type)) {
            continue;
        }
        let (contact, payload) = (&event.contact, &event.payload);
        let state = payload.desired_state;
        let hash = fingerprint(&json!({
            "email": contact.email, "subscription_type": subscription_type, "state": state,
            "given_at": payload.consent.as_ref().map(|consent| consent.given_at),
        }));
        let key = format!("status:{subscription_type}:{}", state.as_str());
        if let Some(operation) = operation(key, hash, contact, &waiting) {
            plan.statuses.push(StatusChange {
                operation,
                email: contact.email.clone(),
                subscription_type,
                business_unit: payload.mapping.targets.business_unit,
                state,
                consent: payload.consent.clone(),
                accepted_at: event.accepted_at,
            });
        }
    }
}

/// One change a segment: of several products that share one, the newest decision counts.
fn add_memberships(plan: &mut Plan, group: &Group<'_>) {
    let mut newest: BTreeMap<&str, (MembershipChange, &ClaimedEvent, Group<'_>)> = BTreeMap::new();
    for event in group {
        let change = event.payload.mapping.targets.segment_change(event.payload.desired_state);
        let wanted = change.add.iter().map(|list| (list, MembershipChange::Add));
        for (list, change) in wanted.chain(change.remove.iter().map(|list| (list, MembershipChange::Remove))) {
            let entry = newest.entry(list).or_insert_with(|| (change, event, Vec::new()));
            (entry.0, entry.1) = (change, event);
            entry.2.push(event);
        }
    }
    let contact = &group[0].contact;
    for (list, (change, event, waiting)) in newest {
        let touches = |later: &LaterDecision| {
            let change = later.targets.segment_change(later.desired_state);
            change.add.iter().chain(&change.remove).any(|touched| touched == list)
        };
        if is_overruled(event, touches) {
            continue;
        }
        let verb = match change {
            MembershipChange::Add => "add",
            MembershipChange::Remove => "remove",
        };
        let hash = fingerprint(&json!([list, verb, contact.key.0]));
        if let Some(operation) = operation(format!("segment:{list}:{verb}"), hash, contact, &waiting) {
            let member = Membership { operation, record_id: contact.record_id };
            plan.memberships.entry((list.to_owned(), change)).or_default().push(member);
        }
    }
}

/// The operation, or nothing when every waiting event has a receipt that says it is done. A contact whose record is not
/// known is written again in any case: its answer names the record.
fn operation(key: String, desired_hash: [u8; 32], contact: &Contact, waiting: &Group<'_>) -> Option<Operation> {
    let hex = hex(&desired_hash);
    let names_the_record = key == CONTACT_OPERATION && contact.record_id.is_none();
    let events: Vec<EventId> = waiting
        .iter()
        .filter(|event| names_the_record || event.receipts.get(&key) != Some(&hex))
        .map(|event| event.event_id)
        .collect();
    (!events.is_empty()).then(|| Operation { key, desired_hash, contact_key: contact.key.clone(), events })
}

/// HubSpot's properties with their texts, and the reason where the value can't be one of its type.
fn mapped_properties<'a>(
    targets: &'a Targets,
    contact: &'a Contact,
) -> impl Iterator<Item = (&'a String, Result<String, Flaw>)> {
    targets.contact_properties.iter().filter_map(|(name, source)| {
        let text = match &source.origin {
            Origin::Constant(value) => value.clone(),
            Origin::Property(property) => text_of(contact.properties.get(property)?),
        };
        Some((name, source.encode(&text).map_err(|error| Flaw::unsendable(name, source, error))))
    })
}

/// HubSpot takes every value as text; an empty one clears the property.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn fingerprint(desired: &Value) -> [u8; 32] {
    Sha256::digest(desired.to_string()).into()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
