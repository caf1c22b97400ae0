//! Compares what HubSpot holds with the newest accepted state of every stream.

use std::collections::HashMap;

use hubspot_simulator::{AccountHandle, ContactView, RecordId, SubscriptionState};
use jiff::Timestamp;
use uuid::Uuid;

use crate::people::{Accepted, PRODUCTS, Person, State};
use crate::place::Place;
use crate::setting::UNIQUE_PROPERTY;

/// What is wrong about a person.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) person: usize,
    pub(crate) what: String,
}

/// How an event ended, and when it was accepted.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) accepted_at: Timestamp,
    pub(crate) status: String,
    pub(crate) code: Option<String>,
}

/// Every difference between HubSpot and what the clients know.
pub(crate) fn differences(place: &Place, people: &[Person], ended: &HashMap<Uuid, Ended>) -> Vec<Difference> {
    let account = place.simulator.account(place.portal.0.unsigned_abs());
    let contacts = account.contacts();
    let mut differences = Vec::new();
    for person in people.iter().filter(|person| !person.newest.is_empty()) {
        let mut note = |what: String| differences.push(Difference { person: person.number, what });
        let own: Vec<&ContactView> = contacts.iter().filter(|contact| belongs(contact, person)).collect();
        match own.as_slice() {
            [] if person.erased.is_some() => {}
            others if person.erased.is_some() => note(format!("was erased and is in HubSpot: {:?}", ids(others))),
            [contact] => {
                compare_values(contact, person).into_iter().for_each(&mut note);
                compare_states(&account, contact.id, person, ended).into_iter().for_each(&mut note);
            }
            others => note(format!("is in HubSpot {} times: {:?}", others.len(), ids(others))),
        }
    }
    let known = people.iter().filter(|person| person.is_known()).count();
    if contacts.len() != known {
        differences.push(Difference {
            person: 0,
            what: format!("HubSpot holds {} contacts for {known} people", contacts.len()),
        });
    }
    differences
}

fn ids(contacts: &[&ContactView]) -> Vec<RecordId> {
    contacts.iter().map(|contact| contact.id).collect()
}

/// By key if the application gave one, and by any address that only this person ever had.
fn belongs(contact: &ContactView, person: &Person) -> bool {
    let by_key = person.key.is_some() && contact.get(UNIQUE_PROPERTY) == person.key.as_deref();
    let addresses = [contact.get("email"), contact.get("hs_additional_emails")].into_iter().flatten();
    let prefix = format!("person{}.", person.number);
    by_key || addresses.flat_map(|text| text.split(';')).any(|address| address.starts_with(&prefix))
}

fn compare_values(contact: &ContactView, person: &Person) -> Vec<String> {
    let wanted = person.properties.iter().map(|(name, value)| (*name, value.as_str()));
    wanted
        .chain([("email", person.email.as_str())])
        .filter(|(name, value)| contact.get(name) != Some(value))
        .map(|(name, value)| format!("{name} is {:?} and was accepted as {value:?}", contact.get(name)))
        .collect()
}

fn compare_states(
    account: &AccountHandle<'_>,
    record: RecordId,
    person: &Person,
    ended: &HashMap<Uuid, Ended>,
) -> Vec<String> {
    let mut offences = Vec::new();
    for (index, last) in &person.newest {
        let product = &PRODUCTS[*index];
        let status = account.status_of(&person.email, product.subscription_type);
        let rivals: Vec<&Accepted> = person
            .newest
            .values()
            .filter(|other| PRODUCTS[other.product].subscription_type == product.subscription_type)
            .collect();
        let allowed = allowed_states(&rivals, ended);
        if !allowed.contains(&status) {
            offences.push(format!(
                "{}: subscription type {} is {status:?}, accepted as {:?} with sequence {}",
                product.name, product.subscription_type, last.state, last.sequence
            ));
        }
        let is_open = last.state == State::Subscribed && status == SubscriptionState::Unsubscribed && rivals.len() > 1;
        let is_member = |segment: u64| account.list_members(segment).contains(&record);
        let wants = last.state == State::Subscribed;
        if !is_open && is_member(product.joined) != wants {
            offences.push(format!("{}: segment {} should be {wants}", product.name, product.joined));
        }
        if let Some(left) = product.left
            && is_member(left) == wants
        {
            offences.push(format!("{}: segment {left} should be {}", product.name, !wants));
        }
        if let Some(end) = ended.get(&last.event_id)
            && end.status != "synced"
            && !(end.status == "superseded" && end.code.as_deref() == Some("remote_opt_out") && is_open)
        {
            offences.push(format!("{}: its newest event ended {} ({:?})", product.name, end.status, end.code));
        }
    }
    offences
}

/// What a subscription type may be when several products decide about it: an opt-out that was accepted last stands, whatever
/// the order in which the products were carried over. An older one may have been written after the newer consent of the
/// other product, since an opt-out is written without asking.
fn allowed_states(rivals: &[&Accepted], ended: &HashMap<Uuid, Ended>) -> Vec<SubscriptionState> {
    let accepted_at = |accepted: &Accepted| ended.get(&accepted.event_id).map(|end| end.accepted_at);
    let last = rivals.iter().max_by_key(|accepted| accepted_at(accepted));
    let some_left = rivals.iter().any(|accepted| accepted.state == State::Unsubscribed);
    match last.map(|accepted| accepted.state) {
        Some(State::Unsubscribed) | None => vec![SubscriptionState::Unsubscribed],
        Some(State::Subscribed) if some_left => vec![SubscriptionState::Subscribed, SubscriptionState::Unsubscribed],
        Some(State::Subscribed) => vec![SubscriptionState::Subscribed],
    }
}
