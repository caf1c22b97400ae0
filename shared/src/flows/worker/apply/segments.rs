//! Lets contacts join and leave segments, a list at a time.

use std::collections::{HashMap, HashSet};

use crate::adapters::hubspot::{Membership as Member, Row};
use crate::model::ids::{ContactKey, EventId, RecordId};
use crate::model::plan::{MEMBERS_PER_CALL, Membership, MembershipChange, Operation, Plan, Planned};

use super::super::calls::Calls;
use super::super::verdict::{Done, OperationResult};
use super::isolation::Parts;
use super::{Results, not_called, rows_of};

pub(super) async fn change_all(
    calls: &Calls<'_>,
    plan: &Plan,
    records: &HashMap<ContactKey, RecordId>,
    opted_out: &HashSet<EventId>,
) -> Results {
    let mut results = Results::new();
    for ((list, change), members) in &plan.memberships {
        let mut ready = Vec::new();
        for member in members {
            let operation = &member.operation;
            match records.get(&operation.contact_key) {
                // Who opted out of a product does not join its segments; leaving is always right.
                Some(_)
                    if *change == MembershipChange::Add
                        && operation.events.iter().all(|event| opted_out.contains(event)) =>
                {
                    results.push((operation.clone(), OperationResult::Dropped));
                }
                Some(record) => ready.push(Ready { member, record: record.to_string() }),
                // Its contact could not be written, which says more than this does.
                None => results.push((operation.clone(), OperationResult::Dropped)),
            }
        }
        for chunk in ready.chunks(MEMBERS_PER_CALL) {
            results.extend(change_chunk(calls, list, *change, chunk).await);
        }
    }
    results
}

/// A member whose record is known.
struct Ready<'a> {
    member: &'a Membership,
    record: String,
}

impl Planned for Ready<'_> {
    fn operation(&self) -> &Operation {
        &self.member.operation
    }
}

/// A refusal that is about the list is everybody's; any other is looked for, so that a bad record keeps nobody out.
async fn change_chunk(calls: &Calls<'_>, list: &str, change: MembershipChange, chunk: &[Ready<'_>]) -> Results {
    let mut results = Results::new();
    let mut parts = Parts::of(calls, chunk, &mut results);
    while let Some(rows) = parts.next(calls, &mut results).await {
        let ids: Vec<&str> = rows.iter().map(|ready| ready.record.as_str()).collect();
        let call = match change {
            MembershipChange::Add => calls.make(calls.account.add_to_list(list, &ids)).await,
            MembershipChange::Remove => calls.make(calls.account.remove_from_list(list, &ids)).await,
        };
        let call = match call {
            Ok(call) => call,
            Err(reason) => {
                results.extend(rows.iter().map(|ready| not_called(ready.operation(), reason.clone())));
                continue;
            }
        };
        match &call.result {
            Ok(_) => parts.accepted(),
            Err(refusal) => {
                let is_named = |ready: &Ready<'_>| refusal.named.ids.contains(&ready.record);
                if parts.split(&rows, refusal, is_named, &mut results) {
                    continue;
                }
            }
        }
        let answers = rows.iter().zip(rows_of(call, rows.len()));
        results.extend(answers.map(|(ready, row)| (ready.operation().clone(), result_of(row))));
    }
    results
}

fn result_of(row: Row<(Member, Option<String>)>) -> OperationResult {
    match row {
        Row::Done((Member::Settled, correlation_id)) => {
            OperationResult::Done(Done { correlation_id, ..Done::default() })
        }
        Row::Done((Member::Missing, _)) => OperationResult::RecordMissing,
        Row::Refused(refusal) => OperationResult::Refused(refusal),
        Row::Unknown => OperationResult::Unknown,
    }
}
