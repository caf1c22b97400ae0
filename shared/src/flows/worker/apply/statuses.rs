//! Reads and writes subscription statuses.

use std::collections::HashMap;

use futures::{StreamExt as _, stream};

use crate::adapters::hubspot::{ConsentState, Row, StatusWrite, SubscriptionStatus};
use crate::model::plan::{Plan, ROWS_PER_CALL, StatusChange, WriteMode};
use crate::model::subscription::DesiredState;

use super::super::calls::Calls;
use super::super::verdict::{Done, OperationResult};
use super::isolation::Parts;
use super::{CALLS_AT_ONCE, Results, not_called, rows_of};

/// Statuses by business unit and address, or why they are not known.
pub(in super::super) type Statuses = HashMap<(Option<i64>, String), Result<Vec<SubscriptionStatus>, OperationResult>>;

pub(super) async fn read_all(calls: &Calls<'_>, mode: WriteMode, plan: &Plan) -> Statuses {
    let mut chunks = Vec::new();
    for (unit, emails) in plan.addresses_to_read() {
        chunks.extend(emails.chunks(per_call(mode)).map(|chunk| read_chunk(calls, mode, unit, chunk.to_vec())));
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
        Err(reason) => {
            emails.iter().map(|email| (key(email), Err(OperationResult::NotCalled(reason.clone())))).collect()
        }
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
        if let Err(refusal) = &call.result
            && parts.split(
                &rows,
                refusal,
                |change| refusal.named.ids.contains(&change.email.to_lowercase()),
                &mut results,
            )
        {
            continue;
        }
        results.extend(rows.iter().zip(rows_of(call, rows.len())).map(|(change, row)| {
            let done = row.map(|(status, correlation_id)| Done {
                record_id: None,
                correlation_id,
                remote_at: status.timestamp,
            });
            (change.operation.clone(), done.into())
        }));
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

const fn per_call(mode: WriteMode) -> usize {
    match mode {
        WriteMode::Batch => ROWS_PER_CALL,
        WriteMode::Single => 1,
    }
}
