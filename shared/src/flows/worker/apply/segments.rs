//! Lets contacts join and leave segments, a list at a time.

use std::collections::{HashMap, HashSet};

use crate::adapters::hubspot::{Membership as Member, Row};
use crate::model::ids::{ContactKey, EventId, RecordId};
use crate::model::plan::{MEMBERS_PER_CALL, Membership, MembershipChange, Plan};

use super::super::calls::{Calls, NotCalled};
use super::super::verdict::{Done, OperationResult};
use super::{Results, is_ours, not_called, rows_of};

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
                Some(record) if is_ours(calls, operation) => ready.push((member, record.to_string())),
                Some(_) => results.push(not_called(operation, NotCalled::NotOurs)),
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

async fn change_chunk(
    calls: &Calls<'_>,
    list: &str,
    change: MembershipChange,
    chunk: &[(&Membership, String)],
) -> Results {
    let ids: Vec<&str> = chunk.iter().map(|(_, record)| record.as_str()).collect();
    let call = match change {
        MembershipChange::Add => calls.make(calls.account.add_to_list(list, &ids)).await,
        MembershipChange::Remove => calls.make(calls.account.remove_from_list(list, &ids)).await,
    };
    let call = match call {
        Ok(call) => call,
        Err(reason) => {
            return chunk.iter().map(|(member, _)| not_called(&member.operation, reason.clone())).collect();
        }
    };
    chunk
        .iter()
        .zip(rows_of(call, chunk.len()))
        .map(|((member, _), row)| {
            let result = match row {
                Row::Done((Member::Settled, correlation_id)) => {
                    OperationResult::Done(Done { correlation_id, ..Done::default() })
                }
                Row::Done((Member::Missing, _)) => OperationResult::RecordMissing,
                Row::Refused(refusal) => OperationResult::Refused(refusal),
                Row::Unknown => OperationResult::Unknown,
            };
            (member.operation.clone(), result)
        })
        .collect()
}
