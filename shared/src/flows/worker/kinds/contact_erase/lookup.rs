//! Looks for the records of contacts that are to be erased: by link, by key and by address.

use std::collections::{BTreeMap, HashMap};

use futures::join;

use crate::adapters::db::FoundRecord;
use crate::adapters::hubspot::{Class, ContactRecord, Row};
use crate::model::ids::{ContactKey, RecordId};

use super::super::super::calls::Calls;
use super::{EMAIL, Erasure, Obstacle};

/// Calls of a look-up: by record id, by the unique property, by address.
pub(super) const LOOKUPS: u32 = 3;

/// By what was asked for: the record, or that there is none.
type Rows = HashMap<String, Result<Option<FoundRecord>, Obstacle>>;

/// The records of each contact, none of them twice, in the order of the erasures.
///
/// They are read before anything is deleted: HubSpot refuses an address for ever once it was asked to delete it, known or not.
/// A merged record answers under its old ids.
pub(super) async fn find_records(
    calls: &Calls<'_>,
    unique_property: &str,
    erasures: &[Erasure<'_>],
) -> Vec<Result<Vec<FoundRecord>, Obstacle>> {
    let (by_record, by_key, by_email) = join!(
        read(calls, unique_property, None, erasures.iter().filter_map(linked).collect()),
        read(calls, unique_property, Some(unique_property), erasures.iter().map(keyed).collect()),
        read(calls, unique_property, Some(EMAIL), erasures.iter().filter_map(addressed).collect()),
    );
    let found = |erasure| {
        let rows = [(&by_record, linked(erasure)), (&by_key, Some(keyed(erasure))), (&by_email, addressed(erasure))];
        let mut records = BTreeMap::new();
        for (rows, id) in rows {
            let Some(id) = id else { continue };
            if let Some(record) = rows.get(&id).cloned().unwrap_or(Err(Obstacle::Unknown))? {
                records.insert(record.record_id, record);
            }
        }
        Ok(records.into_values().collect())
    };
    erasures.iter().map(found).collect()
}

fn linked(erasure: &Erasure<'_>) -> Option<String> {
    erasure.contact.record_id.map(|record| record.to_string())
}

fn keyed(erasure: &Erasure<'_>) -> String {
    erasure.contact.key.0.clone()
}

fn addressed(erasure: &Erasure<'_>) -> Option<String> {
    erasure.email.map(str::to_owned)
}

async fn read(calls: &Calls<'_>, unique_property: &str, id_property: Option<&str>, mut ids: Vec<String>) -> Rows {
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Rows::new();
    }
    let asked: Vec<&str> = ids.iter().map(String::as_str).collect();
    let call = calls.make(calls.account.read_contacts(id_property, &asked, &[EMAIL, unique_property])).await;
    let all = |obstacle: Obstacle| ids.iter().map(|id| (id.clone(), Err(obstacle.clone()))).collect();
    match call.map(|call| call.result) {
        Ok(Ok(rows)) => ids.iter().cloned().zip(rows.into_iter().map(|row| record(row, unique_property))).collect(),
        // Nobody has an address that HubSpot takes for none.
        Ok(Err(refusal)) if refusal.class == Class::RowInvalid && id_property == Some(EMAIL) => {
            ids.into_iter().map(|id| (id, Ok(None))).collect()
        }
        Ok(Err(refusal)) if refusal.class == Class::Gone => ids.into_iter().map(|id| (id, Ok(None))).collect(),
        Ok(Err(refusal)) => all(Obstacle::Refused(refusal)),
        Err(reason) => all(Obstacle::NotCalled(reason)),
    }
}

fn record(row: Row<ContactRecord>, unique_property: &str) -> Result<Option<FoundRecord>, Obstacle> {
    match row {
        Row::Done(record) => Ok(Some(FoundRecord {
            record_id: record.record_id.parse().map(RecordId).map_err(|_| Obstacle::Unknown)?,
            key: record.value(unique_property).map(|key| ContactKey(key.to_owned())),
            addresses: record.addresses(),
        })),
        Row::Refused(refusal) if refusal.class == Class::Gone => Ok(None),
        Row::Refused(refusal) => Err(Obstacle::Refused(refusal)),
        Row::Unknown => Err(Obstacle::Unknown),
    }
}
