//! Applies a plan: contacts, then statuses, then segments.
//!
//! Statuses are read beside the contacts' writing; segments need the record ids that the contacts' answers name.

mod conflicts;
mod contacts;
mod isolation;
mod segments;
mod statuses;

use std::collections::{HashMap, HashSet};

use futures::join;

use crate::adapters::db::PortalSettings;
use crate::adapters::hubspot::{Call, Row};
use crate::model::ids::{ContactKey, EventId, RecordId};
use crate::model::plan::{Operation, Plan};
use crate::model::subscription::ClaimedEvent;

use super::Worker;
use super::calls::{Calls, NotCalled};
use super::lease::Lease;
use super::verdict::OperationResult;

use contacts::By;
pub(super) use statuses::Statuses;

/// Calls of one plan under way at once: enough to use the window, few enough to hold up nobody.
const CALLS_AT_ONCE: usize = 4;

/// What became of operations.
pub(super) type Results = Vec<(Operation, OperationResult)>;

impl Worker {
    pub(super) async fn apply_operations(
        &self,
        portal: &PortalSettings,
        plan: &Plan,
        events: &[&ClaimedEvent],
        calls: &Calls<'_>,
        lease: &Lease,
    ) -> Results {
        let contacts = contacts::Contacts { calls, unique_property: &portal.unique_property };
        let by_email = contacts.write_all(By::Email, &plan.upserts_by_email);
        let by_key = contacts.write_all(By::Key, &plan.upserts_by_key);
        let by_record = contacts.write_all(By::Record, &plan.updates_by_record);
        let read = statuses::read_all(calls, portal.write_mode, plan);
        let (mut results, by_key, by_record, statuses) = join!(by_email, by_key, by_record, read);
        results.extend(by_key.into_iter().chain(by_record));
        self.resolve_conflicts(portal, plan, &contacts, &mut results).await;

        let consents = self.judge_consents(portal, plan, statuses, lease);
        let ((write, settled), ()) = join!(consents, self.note_written(portal, &results));
        results.extend(settled);
        results.extend(statuses::write_all(calls, portal.write_mode, write).await);

        let records = known_records(events, &results);
        let opted_out: HashSet<EventId> = results
            .iter()
            .filter(|(_, result)| result.is_opt_out())
            .flat_map(|(operation, _)| operation.events.iter().copied())
            .collect();
        results.extend(segments::change_all(calls, plan, &records, &opted_out).await);
        results
    }
}

/// A contact's record: as its upsert answered just now, or as an earlier batch learned it.
fn known_records(events: &[&ClaimedEvent], results: &Results) -> HashMap<ContactKey, RecordId> {
    let before = events.iter().filter_map(|event| Some((event.contact.key.clone(), event.contact.record_id?)));
    let now =
        results.iter().filter_map(|(operation, result)| Some((operation.contact_key.clone(), result.record_id()?)));
    before.chain(now).collect()
}

/// A row an input, each with the correlation id of its call; a refusal of the whole call is everybody's.
fn rows_of<T>(call: Call<Vec<Row<T>>>, inputs: usize) -> Vec<Row<(T, Option<String>)>> {
    let correlation_id = call.correlation_id;
    match call.result {
        Ok(rows) => rows.into_iter().map(|row| row.map(|value| (value, correlation_id.clone()))).collect(),
        Err(refusal) => (0..inputs).map(|_| Row::Refused(refusal.clone())).collect(),
    }
}

fn is_ours(calls: &Calls<'_>, operation: &Operation) -> bool {
    operation.events.iter().any(|event| calls.holds(*event))
}

fn not_called(operation: &Operation, reason: NotCalled) -> (Operation, OperationResult) {
    (operation.clone(), OperationResult::NotCalled(reason))
}
