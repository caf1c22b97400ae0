//! Applies a plan: contacts, then statuses, then segments.
//!
//! Statuses are read beside the contacts' writing; segments need the record ids that the contacts' answers name.

use std::collections::HashMap;

use futures::{StreamExt as _, join, stream};

use crate::adapters::db::PortalSettings;
use crate::adapters::hubspot::{
    Call, Class, ConsentState, ContactUpsert, Membership as Member, Row, StatusWrite, SubscriptionStatus,
};
use crate::model::ids::{ContactKey, RecordId};
use crate::model::plan::{MEMBERS_PER_CALL, Membership, MembershipChange, Operation, Plan, ROWS_PER_CALL, StatusChange, Upsert, WriteMode};
use crate::model::subscription::{ClaimedEvent, DesiredState};

use super::Worker;
use super::calls::{Calls, NotCalled};
use super::lease::Lease;
use super::verdict::{Done, OperationResult};

/// Calls of one plan under way at once: enough to use the window, few enough to hold up nobody.
const CALLS_AT_ONCE: usize = 4;

/// What became of each operation, in the plan's order of operations.
pub(super) type Results = Vec<(Operation, OperationResult)>;

/// Statuses by business unit and address, or why they are not known.
pub(super) type Statuses = HashMap<(Option<i64>, String), Result<Vec<SubscriptionStatus>, OperationResult>>;

impl Worker {
    pub(super) async fn apply_operations(
        &self,
        portal: &PortalSettings,
        plan: &Plan,
        events: &[&ClaimedEvent],
        calls: &Calls<'_>,
        lease: &Lease,
    ) -> Results {
        let by_email = upsert_all(calls, "email", &plan.upserts_by_email, |upsert| &upsert.email);
        let by_key = upsert_all(calls, &portal.unique_property, &plan.upserts_by_key, |upsert| &upsert.operation.contact_key.0);
        let (mut results, by_key, statuses) = join!(by_email, by_key, read_all(calls, portal.write_mode, plan));
        results.extend(by_key);

        let (write, settled) = self.judge_consents(portal, plan, statuses, lease).await;
        results.extend(settled);
        results.extend(write_all(calls, portal.write_mode, write).await);

        let records = known_records(events, &results);
        let opted_out: Vec<ContactKey> = results
            .iter()
            .filter(|(_, result)| result.is_opt_out())
            .map(|(operation, _)| operation.contact_key.clone())
            .collect();
        results.extend(change_memberships(calls, plan, &records, &opted_out).await);
        results
    }
}

/// What a contact is found by: the value of the id property.
type IdOf = fn(&Upsert) -> &str;

async fn upsert_all(calls: &Calls<'_>, id_property: &str, upserts: &[Upsert], id: IdOf) -> Results {
    let chunks: Vec<_> = upserts.chunks(ROWS_PER_CALL).map(|chunk| upsert_chunk(calls, id_property, chunk, id)).collect();
    stream::iter(chunks).buffer_unordered(CALLS_AT_ONCE).concat().await
}

/// One chunk. When HubSpot refuses it as a whole without saying which row is to blame, it is halved until the row is found;
/// every further call is paid for.
async fn upsert_chunk(calls: &Calls<'_>, id_property: &str, chunk: &[Upsert], id: IdOf) -> Results {
    let mut results = Results::new();
    let mut waiting = vec![chunk.iter().filter(|upsert| is_ours(calls, &upsert.operation)).collect::<Vec<_>>()];
    results.extend(chunk.iter().filter(|upsert| !is_ours(calls, &upsert.operation)).map(|upsert| not_called(&upsert.operation, NotCalled::NotOurs)));
    let mut first = true;
    while let Some(rows) = waiting.pop() {
        if rows.is_empty() {
            continue;
        }
        if !std::mem::take(&mut first)
            && let Err(reason) = calls.extend(1).await
        {
            results.extend(rows.iter().map(|upsert| not_called(&upsert.operation, reason.clone())));
            continue;
        }
        let inputs: Vec<ContactUpsert> = rows.iter().map(|upsert| input(upsert, id)).collect();
        let call = match calls.make(calls.account.upsert_contacts(id_property, &inputs)).await {
            Ok(call) => call,
            Err(reason) => {
                results.extend(rows.iter().map(|upsert| not_called(&upsert.operation, reason.clone())));
                continue;
            }
        };
        match &call.result {
            Err(refusal) if rows.len() > 1 && matches!(refusal.class, Class::WholeBatchInvalid | Class::RowInvalid | Class::Conflict) => {
                waiting.extend(split(&rows, |upsert| refusal.named.ids.contains(&id(upsert).to_lowercase())));
            }
            _ => results.extend(rows.iter().zip(rows_of(call, rows.len())).map(|(upsert, row)| {
                (upsert.operation.clone(), row.map(|(contact, correlation_id)| Done {
                    record_id: contact.record_id.parse().ok().map(RecordId),
                    correlation_id,
                    remote_at: None,
                }).into())
            })),
        }
    }
    results
}

fn input(upsert: &Upsert, id: IdOf) -> ContactUpsert {
    ContactUpsert {
        trace_id: upsert.operation.contact_key.0.clone(),
        id: id(upsert).to_owned(),
        properties: upsert.properties.clone(),
    }
}

/// The rows that the error names, one each, and the others together; halves when it names none, or all.
fn split<'a, T>(rows: &[&'a T], is_named: impl Fn(&T) -> bool) -> Vec<Vec<&'a T>> {
    let (named, others): (Vec<&T>, Vec<&T>) = rows.iter().partition(|row| is_named(row));
    if named.is_empty() || others.is_empty() {
        let (first, second) = rows.split_at(rows.len() / 2);
        return vec![second.to_vec(), first.to_vec()];
    }
    let mut parts: Vec<Vec<&T>> = named.into_iter().map(|row| vec![row]).collect();
    parts.push(others);
    parts
}

async fn read_all(calls: &Calls<'_>, mode: WriteMode, plan: &Plan) -> Statuses {
    let per_call = per_call(mode);
    let mut chunks = Vec::new();
    for (unit, emails) in plan.addresses_to_read() {
        chunks.extend(emails.chunks(per_call).map(|chunk| read_chunk(calls, mode, unit, chunk.to_vec())));
    }
    let parts: Vec<Statuses> = stream::iter(chunks).buffer_unordered(CALLS_AT_ONCE).collect().await;
    parts.into_iter().flatten().collect()
}

async fn read_chunk(calls: &Calls<'_>, mode: WriteMode, unit: Option<i64>, emails: Vec<&str>) -> Statuses {
    let call = match mode {
        WriteMode::Batch => calls.make(calls.account.read_statuses(&emails, unit)).await,
        WriteMode::Single => calls
            .make(calls.account.read_status(emails[0], unit))
            .await
            .map(|call| call.map(|statuses| vec![Row::Done(statuses)])),
    };
    let key = |email: &str| (unit, email.to_owned());
    match call {
        Err(reason) => emails.iter().map(|email| (key(email), Err(OperationResult::NotCalled(reason.clone())))).collect(),
        Ok(call) => emails
            .iter()
            .zip(rows_of(call, emails.len()))
            .map(|(email, row)| {
                let statuses = match row {
                    Row::Done((statuses, _)) => Ok(statuses),
                    Row::Refused(refusal) => Err(OperationResult::Refused(refusal)),
                    Row::Unknown => Err(OperationResult::Unknown),
                };
                (key(email), statuses)
            })
            .collect(),
    }
}

async fn write_all(calls: &Calls<'_>, mode: WriteMode, changes: Vec<&StatusChange>) -> Results {
    let chunks: Vec<_> = changes.chunks(per_call(mode)).map(|chunk| write_chunk(calls, mode, chunk)).collect();
    stream::iter(chunks).buffer_unordered(CALLS_AT_ONCE).concat().await
}

async fn write_chunk(calls: &Calls<'_>, mode: WriteMode, chunk: &[&StatusChange]) -> Results {
    let mut results = Results::new();
    let mut waiting = vec![chunk.iter().copied().filter(|change| is_ours(calls, &change.operation)).collect::<Vec<_>>()];
    results.extend(chunk.iter().filter(|change| !is_ours(calls, &change.operation)).map(|change| not_called(&change.operation, NotCalled::NotOurs)));
    let mut first = true;
    while let Some(rows) = waiting.pop() {
        if rows.is_empty() {
            continue;
        }
        if !std::mem::take(&mut first)
            && let Err(reason) = calls.extend(1).await
        {
            results.extend(rows.iter().map(|change| not_called(&change.operation, reason.clone())));
            continue;
        }
        let writes: Vec<StatusWrite> = rows.iter().map(|change| status_write(change)).collect();
        let call = match mode {
            WriteMode::Batch => calls.make(calls.account.write_statuses(&writes)).await,
            WriteMode::Single => calls.make(calls.account.write_status(&writes[0])).await.map(|call| call.map(|status| vec![Row::Done(status)])),
        };
        match call {
            Err(reason) => results.extend(rows.iter().map(|change| not_called(&change.operation, reason.clone()))),
            Ok(Call { result: Err(refusal), .. })
                if rows.len() > 1 && matches!(refusal.class, Class::WholeBatchInvalid | Class::RowInvalid | Class::OptedOut) =>
            {
                waiting.extend(split(&rows, |change| refusal.named.ids.contains(&change.email.to_lowercase())));
            }
            Ok(call) => results.extend(rows.iter().zip(rows_of(call, rows.len())).map(|(change, row)| {
                let done = row.map(|(status, correlation_id)| Done { record_id: None, correlation_id, remote_at: status.timestamp });
                (change.operation.clone(), done.into())
            })),
        }
    }
    results
}

fn status_write(change: &StatusChange) -> StatusWrite {
    StatusWrite {
        email: change.email.clone(),
        subscription_id: change.subscription_type,
        state: match change.state {
            DesiredState::Subscribed => ConsentState::Subscribed,
            DesiredState::Unsubscribed => ConsentState::Unsubscribed,
        },
        legal_basis: change.consent.as_ref().map(|consent| consent.legal_basis.clone()),
        explanation: change.consent.as_ref().map(|consent| consent.explanation.clone()),
    }
}

/// A contact's record: as its upsert answered just now, or as an earlier batch learned it.
fn known_records(events: &[&ClaimedEvent], results: &Results) -> HashMap<ContactKey, RecordId> {
    let before = events.iter().filter_map(|event| Some((event.contact.key.clone(), event.contact.record_id?)));
    let now = results.iter().filter_map(|(operation, result)| Some((operation.contact_key.clone(), result.record_id()?)));
    before.chain(now).collect()
}

async fn change_memberships(
    calls: &Calls<'_>,
    plan: &Plan,
    records: &HashMap<ContactKey, RecordId>,
    opted_out: &[ContactKey],
) -> Results {
    let mut results = Results::new();
    for ((list, change), members) in &plan.memberships {
        let (mut ready, mut waiting) = (Vec::new(), Results::new());
        for member in members {
            match records.get(&member.operation.contact_key) {
                // Who opted out does not join; leaving is always right.
                Some(_) if *change == MembershipChange::Add && opted_out.contains(&member.operation.contact_key) => {
                    waiting.push((member.operation.clone(), OperationResult::Dropped));
                }
                Some(record) if is_ours(calls, &member.operation) => ready.push((member, record.to_string())),
                Some(_) => waiting.push(not_called(&member.operation, NotCalled::NotOurs)),
                // Its contact could not be written, which says more than this does.
                None => waiting.push((member.operation.clone(), OperationResult::Dropped)),
            }
        }
        results.extend(waiting);
        for chunk in ready.chunks(MEMBERS_PER_CALL) {
            results.extend(change_chunk(calls, list, *change, chunk).await);
        }
    }
    results
}

async fn change_chunk(calls: &Calls<'_>, list: &str, change: MembershipChange, chunk: &[(&Membership, String)]) -> Results {
    let ids: Vec<&str> = chunk.iter().map(|(_, record)| record.as_str()).collect();
    let call = match change {
        MembershipChange::Add => calls.make(calls.account.add_to_list(list, &ids)).await,
        MembershipChange::Remove => calls.make(calls.account.remove_from_list(list, &ids)).await,
    };
    match call {
        Err(reason) => chunk.iter().map(|(member, _)| not_called(&member.operation, reason.clone())).collect(),
        Ok(call) => chunk
            .iter()
            .zip(rows_of(call, chunk.len()))
            .map(|((member, _), row)| {
                let result = match row {
                    Row::Done((Member::Settled, correlation_id)) => {
                        OperationResult::Done(Done { record_id: None, correlation_id, remote_at: None })
                    }
                    Row::Done((Member::Missing, _)) => OperationResult::RecordMissing,
                    Row::Refused(refusal) => OperationResult::Refused(refusal),
                    Row::Unknown => OperationResult::Unknown,
                };
                (member.operation.clone(), result)
            })
            .collect(),
    }
}

const fn per_call(mode: WriteMode) -> usize {
    match mode {
        WriteMode::Batch => ROWS_PER_CALL,
        WriteMode::Single => 1,
    }
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
