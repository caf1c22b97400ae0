//! Builds a plan out of the events of contacts.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Membership, MembershipChange, Operation, Plan, StatusChange, Upsert};
use crate::model::ids::{ContactKey, EventId};
use crate::model::mapping::{PropertySource, Targets};
use crate::model::subscription::{ClaimedEvent, Contact, DesiredState};

/// Key of the operation that writes a contact's properties.
const CONTACT_OPERATION: &str = "contact";

/// One contact with its events, oldest first.
pub(super) type Group<'a> = Vec<&'a ClaimedEvent>;

/// Contacts in the order of their first event, each with its events, oldest first.
pub(super) fn groups(events: &[ClaimedEvent]) -> Vec<Group<'_>> {
    let mut oldest_first: Vec<&ClaimedEvent> = events.iter().collect();
    // Of decisions of one instant an opt-out counts as the newest.
    let opts_out = |event: &ClaimedEvent| event.payload.desired_state == DesiredState::Unsubscribed;
    oldest_first.sort_by_key(|event| (event.accepted_at, opts_out(event), event.event_id));
    let mut places: HashMap<&ContactKey, usize> = HashMap::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for event in oldest_first {
        let place = *places.entry(&event.contact.key).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(event);
    }
    groups
}

pub(super) fn plan_of(groups: &[Group<'_>], unique_property: &str) -> Plan {
    let mut plan = Plan::default();
    let mut addresses = HashSet::new();
    for group in groups {
        let contact = &group[0].contact;
        if !addresses.insert(contact.email.as_str()) && contact.record_id.is_none() {
            plan.address_shared.extend(group.iter().map(|event| event.event_id));
            continue;
        }
        plan.events.extend(group.iter().map(|event| event.event_id));
        add_upsert(&mut plan, group, unique_property);
        add_statuses(&mut plan, group);
        add_memberships(&mut plan, group);
    }
    plan
}

fn add_upsert(plan: &mut Plan, group: &Group<'_>, unique_property: &str) {
    let contact = &group[0].contact;
    let mut properties = BTreeMap::from([
        ("email".to_owned(), contact.email.clone()),
        (unique_property.to_owned(), contact.key.0.clone()),
    ]);
    for event in group {
        properties.extend(mapped_properties(&event.payload.mapping.targets, contact));
    }
    let hash = fingerprint(&json!(properties));
    if let Some(operation) = operation(CONTACT_OPERATION.to_owned(), hash, contact, group) {
        let upsert = Upsert { operation, email: contact.email.clone(), properties };
        match contact.record_id {
            None => plan.upserts_by_email.push(upsert),
            Some(_) => plan.upserts_by_key.push(upsert),
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
    let mut newest: BTreeMap<&str, (MembershipChange, Group<'_>)> = BTreeMap::new();
    for event in group {
        let change = event.payload.mapping.targets.segment_change(event.payload.desired_state);
        let wanted = change.add.iter().map(|list| (list, MembershipChange::Add));
        for (list, change) in wanted.chain(change.remove.iter().map(|list| (list, MembershipChange::Remove))) {
            let entry = newest.entry(list).or_insert_with(|| (change, Vec::new()));
            entry.0 = change;
            entry.1.push(event);
        }
    }
    let contact = &group[0].contact;
    for (list, (change, waiting)) in newest {
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

fn mapped_properties<'a>(
    targets: &'a Targets,
    contact: &'a Contact,
) -> impl Iterator<Item = (String, String)> + use<'a> {
    targets.contact_properties.iter().filter_map(|(name, source)| {
        let text = match source {
            PropertySource::Constant { value } => value.clone(),
            PropertySource::Property(property) => text_of(contact.properties.get(property)?),
        };
        Some((name.clone(), text))
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
