//! Deletes records, or leaves those that are somebody else's too.

use std::collections::HashSet;

use crate::adapters::db::FoundRecord;
use crate::adapters::hubspot::{Class, ContactUpdate, Row};
use crate::model::ids::RecordId;

use super::super::super::calls::{Calls, NotCalled};
use super::{Erased, Erasure, Obstacle};

/// Deletes the contact's records; of one that somebody else is on, only the contact's key is taken off.
pub(super) async fn remove(
    calls: &Calls<'_>,
    unique_property: &str,
    erasure: &Erasure<'_>,
    records: &[FoundRecord],
    in_use: &HashSet<RecordId>,
) -> Result<Erased, Obstacle> {
    let mut end = Erased::Gone(records.iter().map(|record| record.record_id).collect());
    for record in records {
        if !calls.holds(erasure.event.event_id) {
            return Err(Obstacle::NotCalled(NotCalled::NotOurs));
        }
        let is_kept = in_use.contains(&record.record_id);
        let answer = if !is_kept {
            delete(calls, record.record_id).await
        } else if record.key.as_ref() == Some(&erasure.contact.key) {
            take_key_off(calls, unique_property, erasure, record.record_id).await
        } else {
            Ok(())
        };
        match answer {
            // Whoever was faster has done it.
            Err(Obstacle::Refused(refusal)) if refusal.class == Class::Gone => {}
            answer => answer?,
        }
        if is_kept {
            end = Erased::Kept;
        }
    }
    Ok(end)
}

async fn delete(calls: &Calls<'_>, record: RecordId) -> Result<(), Obstacle> {
    let call = calls.make(calls.account.gdpr_delete(record)).await.map_err(Obstacle::NotCalled)?;
    call.result.map_err(Obstacle::Refused)
}

async fn take_key_off(
    calls: &Calls<'_>,
    unique_property: &str,
    erasure: &Erasure<'_>,
    record: RecordId,
) -> Result<(), Obstacle> {
    let update = ContactUpdate {
        trace_id: erasure.contact.key.0.clone(),
        record_id: record.to_string(),
        properties: [(unique_property.to_owned(), String::new())].into(),
    };
    let call = calls.make(calls.account.update_contacts(&[update])).await.map_err(Obstacle::NotCalled)?;
    match call.result.map_err(Obstacle::Refused)?.into_iter().next() {
        Some(Row::Done(_)) => Ok(()),
        Some(Row::Refused(refusal)) => Err(Obstacle::Refused(refusal)),
        Some(Row::Unknown) | None => Err(Obstacle::Unknown),
    }
}
