//! Reads and writes subscription statuses.

use std::collections::HashMap;

use futures::{StreamExt as _, stream};

use crate::adapters::hubspot::{ConsentState, Refusal, Row, StatusWrite, SubscriptionState, SubscriptionStatus};
use crate::model::plan::{Plan, ROWS_PER_CALL, StatusChange, WriteMode};
use crate::model::subscription::DesiredState;

use super::super::calls::Calls;
use super::super::verdict::{Done, OperationResult};
use super::isolation::Parts;
use super::{CALLS_AT_ONCE, Results, not_called, rows_of};

/// Code of the refusal that is about a subscription type, whoever it was to be written for.
const TYPE_UNKNOWN: &str = "subscription_type_unknown";

/// Statuses by business unit and address, or why they are not known.
pub(in super::super) type Statuses = HashMap<(Option<i64>, String), Result<Vec<SubscriptionStatus>, OperationResult>>;

pub(super) async fn read_all(calls: &Calls<'_>, mode: WriteMode, plan: &Plan) -> Statuses {
    let of_address: HashMap<_, _> =
        plan.statuses.iter().map(|change| ((change.business_unit, change.email.as_str()), change)).collect();
    let mut chunks = Vec::new();
    for (unit, emails) in plan.addresses_to_read() {
        let changes: Vec<&StatusChange> =
            emails.into_iter().filter_map(|email| of_address.get(&(unit, email)).copied()).collect();
        chunks.extend(changes.chunks(per_call(mode)).map(|chunk| read_chunk(calls, mode, unit, chunk.to_vec())));
    }
    let parts: Vec<Statuses> = stream::iter(chunks).buffer_unordered(CALLS_AT_ONCE).collect().await;
    parts.into_iter().flatten().collect()
}

/// Reads the statuses of the addresses of these changes, each address once.
async fn read_chunk(calls: &Calls<'_>, mode: WriteMode, unit: Option<i64>, chunk: Vec<&StatusChange>) -> Statuses {
    let mut statuses = Statuses::new();
    let mut given_up = Results::new();
    let mut parts = Parts::of(calls, chunk.iter().copied(), &mut given_up);
    while let Some(rows) = parts.next(calls, &mut given_up).await {
        let emails: Vec<&str> = rows.iter().map(|change| change.email.as_str()).collect();
        let call = match mode {
            WriteMode::Batch => calls.make(calls.account.read_statuses(&emails, unit)).await,
            WriteMode::Single => calls
                .make(calls.account.read_status(emails[0], unit))
                .await
                .map(|call| call.map(|statuses| vec![Row::Done(statuses)])),
        };
        let call = match call {
            Ok(call) => call,
            Err(reason) => {
                given_up.extend(rows.iter().map(|change| not_called(&change.operation, reason.clone())));
                continue;
            }
        };
        match &call.result {
            Ok(_) => parts.accepted(),
            Err(refusal) if parts.split(&rows, refusal, |change| is_named(change, refusal), &mut given_up) => continue,
            Err(_) => {}
        }
        statuses.extend(emails.iter().zip(rows_of(call, rows.len())).map(|(email, row)| {
            let read = match row {
                Row::Done((statuses, _)) => Ok(statuses),
                Row::Refused(refusal) => Err(OperationResult::Refused(refusal)),
                Row::Unknown => Err(OperationResult::Unknown),
            };
            ((unit, (*email).to_owned()), read)
        }));
    }
    for (operation, result) in given_up {
        let change = chunk.iter().find(|change| change.operation == operation);
        statuses.extend(change.map(|change| ((unit, change.email.clone()), Err(result))));
    }
    statuses
}

pub(super) async fn write_all(calls: &Calls<'_>, mode: WriteMode, changes: Vec<&StatusChange>) -> Results {
    let chunks: Vec<_> = changes.chunks(per_call(mode)).map(|chunk| write_chunk(calls, mode, chunk)).collect();
    stream::iter(chunks).buffer_unordered(CALLS_AT_ONCE).concat().await
}

async fn write_chunk(calls: &Calls<'_>, mode: WriteMode, chunk: &[&StatusChange]) -> Results {
    let mut results = Results::new();
    let mut parts = Parts::of(calls, chunk.iter().copied(), &mut results);
    while let Some(rows) = parts.next(calls, &mut results).await {
        let writes: Vec<StatusWrite> = rows.iter().map(|change| status_write(change)).collect();
        let call = match mode {
            WriteMode::Batch => calls.make(calls.account.write_statuses(&writes)).await,
            WriteMode::Single => calls
                .make(calls.account.write_status(&writes[0]))
                .await
                .map(|call| call.map(|status| vec![Row::Done(status)])),
        };
        let call = match call {
            Ok(call) => call,
            Err(reason) => {
                results.extend(rows.iter().map(|change| not_called(&change.operation, reason.clone())));
                continue;
            }
        };
        let is_split = match &call.result {
            Ok(_) => {
                parts.accepted();
                false
            }
            Err(refusal) if refusal.code == TYPE_UNKNOWN => parts.split_by(&rows, |change| change.subscription_type),
            Err(refusal) => parts.split(&rows, refusal, |change| is_named(change, refusal), &mut results),
        };
        if is_split {
            continue;
        }
        let written = rows.iter().zip(rows_of(call, rows.len()));
        results.extend(written.map(|(change, row)| (change.operation.clone(), result_of(change, row))));
    }
    results
}

/// What HubSpot says that it holds now counts, and not that it answered.
fn result_of(change: &StatusChange, row: Row<(SubscriptionStatus, Option<String>)>) -> OperationResult {
    match (row, change.state) {
        (
            Row::Done((SubscriptionStatus { status: SubscriptionState::Unsubscribed, .. }, _)),
            DesiredState::Subscribed,
        ) => OperationResult::RemoteOptOut,
        (
            Row::Done((SubscriptionStatus { status: SubscriptionState::Subscribed, .. }, _)),
            DesiredState::Unsubscribed,
        ) => OperationResult::Unknown,
        (row, _) => row
            .map(|(status, correlation_id)| Done { correlation_id, remote_at: status.timestamp, ..Done::default() })
            .into(),
    }
}

fn is_named(change: &StatusChange, refusal: &Refusal) -> bool {
    refusal.named.ids.contains(&change.email.to_lowercase())
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

const fn per_call(mode: WriteMode) -> usize {
    match mode {
        WriteMode::Batch => ROWS_PER_CALL,
        WriteMode::Single => 1,
    }
}
