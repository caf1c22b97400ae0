//! Settles who is who when HubSpot says that an address or a key is taken.
//!
//! The record that has the address is the contact: it is the one that mail to this address is sent for. The contact's key
//! moves there, and is taken off the record where it was. That one is left as it is: nothing is merged, nothing deleted.
//! If the record belongs to another contact that still has an address of it, the two are one record from now on.

use std::collections::{HashMap, HashSet};

use crate::adapters::db::{self, FoundKey, Holder, PortalSettings};
use crate::adapters::hubspot::{Class, ContactRecord, Refusal, Row};
use crate::model::ids::{ContactKey, RecordId};
use crate::model::plan::{Plan, ROWS_PER_CALL, Upsert};

use super::super::Worker;
use super::super::calls::NotCalled;
use super::super::verdict::OperationResult;
use super::contacts::{By, Contacts, EMAIL};
use super::{Results, not_called, rows_of};

/// Two calls to read the records, one to take keys off, one to write: for up to [`ROWS_PER_CALL`] conflicts.
const CALLS_TO_RESOLVE: u32 = 4;

/// A contact whose write was refused because something of it belongs to another record.
struct Conflict<'a> {
    upsert: &'a Upsert,
    refusal: Refusal,
}

/// The record that is in the way.
struct Found {
    id: RecordId,
    key: Option<ContactKey>,
    addresses: Vec<String>,
}

/// A contact and the record that it turned out to be.
struct Settled {
    /// What to write there.
    upsert: Upsert,
    /// Whether the record was found by the key, and not by the address.
    has_key: bool,
    /// The record that held the key before.
    leaves: Option<RecordId>,
}

impl Worker {
    /// Tries again, now with the right records, what was refused as a conflict.
    pub(super) async fn resolve_conflicts(
        &self,
        portal: &PortalSettings,
        plan: &Plan,
        contacts: &Contacts<'_>,
        results: &mut Results,
    ) {
        let conflicts = take_conflicts(plan, results);
        if conflicts.is_empty() {
            return;
        }
        if let Err(reason) = contacts.calls.reserve_more(CALLS_TO_RESOLVE).await {
            results.extend(conflicts.iter().map(|conflict| not_called(&conflict.upsert.operation, reason.clone())));
            return;
        }
        let mut read = Vec::new();
        for (conflict, found) in read_records(contacts, conflicts).await {
            match found {
                Ok(found) => read.push((conflict, found)),
                Err(result) => results.push((conflict.upsert.operation.clone(), result)),
            }
        }
        let Ok(holders) = self.holders(portal, contacts, &read).await else {
            let unknown =
                |(conflict, _): &(Conflict<'_>, Found)| (conflict.upsert.operation.clone(), OperationResult::Unknown);
            results.extend(read.iter().map(unknown));
            return;
        };
        let mut settled: Vec<Settled> = Vec::new();
        for (conflict, found) in read {
            let operation = &conflict.upsert.operation;
            match settle(contacts, conflict.upsert, &found, &holders) {
                // HubSpot takes a record once in a call; who comes second finds the first one there next time.
                Some(one) if settled.iter().any(|other| other.upsert.record_id == one.upsert.record_id) => {
                    results.push(not_called(operation, NotCalled::NoTime));
                }
                Some(one) => settled.push(one),
                None => results.push((operation.clone(), OperationResult::Refused(conflict.refusal))),
            }
        }
        take_keys_off(contacts, &mut settled, results).await;
        write_settled(contacts, &settled, results).await;
    }

    /// Of the contacts whose keys are on these records, those that still belong there.
    async fn holders(
        &self,
        portal: &PortalSettings,
        contacts: &Contacts<'_>,
        read: &[(Conflict<'_>, Found)],
    ) -> Result<Vec<Holder>, db::DbFailure> {
        let mut keys = Vec::new();
        for (conflict, found) in read.iter().filter(|(conflict, _)| sets_key(contacts, conflict.upsert)) {
            let Some(key) = found.key.as_ref().filter(|key| **key != conflict.upsert.owner) else { continue };
            let at = |email: &String| FoundKey { key: key.clone(), record: Some((found.id, email.clone())) };
            keys.extend(found.addresses.iter().map(at));
            keys.push(FoundKey { key: conflict.upsert.owner.clone(), record: None });
        }
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let connection = self.db.connection().await?;
        db::meet_holders(&*connection, portal.portal_id, &keys).await
    }
}

/// Takes conflicts out of the results, as many as one call takes; the others wait.
fn take_conflicts<'a>(plan: &'a Plan, results: &mut Results) -> Vec<Conflict<'a>> {
    let upserts: HashMap<&ContactKey, &Upsert> =
        plan.upserts().map(|upsert| (&upsert.operation.contact_key, upsert)).collect();
    let mut conflicts = Vec::new();
    let mut others = Results::new();
    for (operation, result) in results.drain(..) {
        match (result, upserts.get(&operation.contact_key)) {
            (OperationResult::Refused(refusal), Some(upsert))
                if refusal.class == Class::Conflict && upsert.operation.key == operation.key =>
            {
                if conflicts.len() < ROWS_PER_CALL {
                    conflicts.push(Conflict { upsert, refusal });
                } else {
                    others.push(not_called(&operation, NotCalled::NoTime));
                }
            }
            (result, _) => others.push((operation, result)),
        }
    }
    *results = others;
    conflicts
}

/// Reads the records that are in the way: those that HubSpot named by their ids, the others by the address.
async fn read_records<'a>(
    contacts: &Contacts<'_>,
    conflicts: Vec<Conflict<'a>>,
) -> Vec<(Conflict<'a>, Result<Found, OperationResult>)> {
    let (named, unnamed): (Vec<_>, Vec<_>) =
        conflicts.into_iter().partition(|conflict| conflict.refusal.existing_id.is_some());
    let mut read =
        read_by(contacts, None, named, |conflict| conflict.refusal.existing_id.clone().unwrap_or_default()).await;
    read.extend(read_by(contacts, Some(EMAIL), unnamed, |conflict| conflict.upsert.email.clone()).await);
    read
}

async fn read_by<'a>(
    contacts: &Contacts<'_>,
    id_property: Option<&str>,
    conflicts: Vec<Conflict<'a>>,
    id: impl Fn(&Conflict<'a>) -> String,
) -> Vec<(Conflict<'a>, Result<Found, OperationResult>)> {
    if conflicts.is_empty() {
        return Vec::new();
    }
    let asked: Vec<String> = conflicts.iter().map(&id).collect::<HashSet<_>>().into_iter().collect();
    let ids: Vec<&str> = asked.iter().map(String::as_str).collect();
    let properties = [EMAIL, contacts.unique_property];
    let call = contacts.calls.make(contacts.calls.account.read_contacts(id_property, &ids, &properties)).await;
    let rows: HashMap<&str, Row<ContactRecord>> = match call {
        Ok(call) => {
            ids.iter().copied().zip(rows_of(call, ids.len()).into_iter().map(|row| row.map(|it| it.0))).collect()
        }
        Err(reason) => {
            let not_called = |conflict| (conflict, Err(OperationResult::NotCalled(reason.clone())));
            return conflicts.into_iter().map(not_called).collect();
        }
    };
    let found = |conflict: Conflict<'a>| {
        let found = match rows.get(id(&conflict).as_str()) {
            Some(Row::Done(record)) => found(record, contacts.unique_property).ok_or(OperationResult::Unknown),
            // What was in the way is so no longer.
            Some(Row::Refused(refusal)) if refusal.class == Class::Gone => {
                Err(OperationResult::Refused(conflict.refusal.clone()))
            }
            Some(Row::Refused(refusal)) => Err(OperationResult::Refused(refusal.clone())),
            Some(Row::Unknown) | None => Err(OperationResult::Unknown),
        };
        (conflict, found)
    };
    conflicts.into_iter().map(found).collect()
}

fn found(record: &ContactRecord, unique_property: &str) -> Option<Found> {
    Some(Found {
        id: record.record_id.parse().ok().map(RecordId)?,
        key: record.value(unique_property).map(|key| ContactKey(key.to_owned())),
        addresses: record.addresses(),
    })
}

fn sets_key(contacts: &Contacts<'_>, upsert: &Upsert) -> bool {
    upsert.properties.contains_key(contacts.unique_property)
}

/// Whether the contact is this record, and what it may write there. `None`: it is not.
fn settle(contacts: &Contacts<'_>, upsert: &Upsert, found: &Found, holders: &[Holder]) -> Option<Settled> {
    let has_key = found.key.as_ref() == Some(&upsert.owner);
    let has_address = sets_key(contacts, upsert) && found.addresses.contains(&upsert.email);
    if !has_key && !has_address {
        return None;
    }
    let mut upsert = upsert.clone();
    let leaves = upsert.record_id.replace(found.id).filter(|before| !has_key && *before != found.id);
    if !has_key && is_owned_by_another(&upsert.owner, found, holders) {
        upsert.properties.remove(contacts.unique_property);
        upsert.properties.remove(EMAIL);
    }
    Some(Settled { upsert, has_key, leaves })
}

/// Whether the contact whose key is on the record still belongs there, and comes before this one.
fn is_owned_by_another(key: &ContactKey, found: &Found, holders: &[Holder]) -> bool {
    let place = |key: &ContactKey, record: Option<RecordId>| {
        holders.iter().position(|holder| holder.key == *key && (record.is_none() || holder.record_id == record))
    };
    let Some(other) = found.key.as_ref().and_then(|holder| place(holder, Some(found.id))) else { return false };
    place(key, None).is_none_or(|own| other < own)
}

/// Takes keys off the records that their contacts leave. As long as that is not known to be done, they do not move.
async fn take_keys_off(contacts: &Contacts<'_>, settled: &mut Vec<Settled>, results: &mut Results) {
    let leaving = |one: &Settled| {
        let properties = [(contacts.unique_property.to_owned(), String::new())].into();
        Some(Upsert { record_id: Some(one.leaves?), properties, ..one.upsert.clone() })
    };
    let mut seen = HashSet::new();
    let clear: Vec<Upsert> =
        settled.iter().filter_map(leaving).filter(|upsert| seen.insert(upsert.record_id)).collect();
    if clear.is_empty() {
        return;
    }
    let rows: Vec<&Upsert> = clear.iter().collect();
    let answers = match contacts.write(By::Record, &rows).await {
        Ok(call) => rows_of(call, rows.len()).into_iter().map(cleared).collect(),
        Err(reason) => vec![Err(OperationResult::NotCalled(reason)); rows.len()],
    };
    let failed: HashMap<Option<RecordId>, OperationResult> =
        clear.iter().zip(answers).filter_map(|(upsert, answer)| Some((upsert.record_id, answer.err()?))).collect();
    settled.retain(|one| match one.leaves.and_then(|record| failed.get(&Some(record))) {
        Some(result) => {
            results.push((one.upsert.operation.clone(), result.clone()));
            false
        }
        None => true,
    });
}

/// A record that is gone holds no key.
fn cleared<T>(row: Row<T>) -> Result<(), OperationResult> {
    match row {
        Row::Done(_) => Ok(()),
        Row::Refused(refusal) if refusal.class == Class::Gone => Ok(()),
        Row::Refused(refusal) => Err(OperationResult::Refused(refusal)),
        Row::Unknown => Err(OperationResult::Unknown),
    }
}

async fn write_settled(contacts: &Contacts<'_>, settled: &[Settled], results: &mut Results) {
    if settled.is_empty() {
        return;
    }
    let rows: Vec<&Upsert> = settled.iter().map(|one| &one.upsert).collect();
    let call = match contacts.write(By::Record, &rows).await {
        Ok(call) => call,
        Err(reason) => {
            results.extend(rows.iter().map(|upsert| not_called(&upsert.operation, reason.clone())));
            return;
        }
    };
    let answers = settled.iter().zip(rows_of(call, rows.len()));
    results.extend(answers.map(|(one, row)| {
        let result = match row {
            Row::Refused(refusal) if refusal.class == Class::Conflict => still_taken(one, refusal),
            row => contacts.result(&one.upsert, row),
        };
        (one.upsert.operation.clone(), result)
    }));
}

/// One thing more is in the way. A contact has at most two: the record that has its key, and the one that has its address.
/// It is linked to the first; the next try starts from there and meets the other.
fn still_taken(one: &Settled, refusal: Refusal) -> OperationResult {
    let named = refusal.existing_id.as_deref().and_then(|id| id.parse().ok()).map(RecordId);
    let with_key = if one.has_key { one.upsert.record_id } else { named };
    with_key.map_or(OperationResult::Refused(refusal), OperationResult::Found)
}
