//! Finishes a batch.

use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::super::failure::DbFailure;
use super::super::outbox::millis;
use super::super::pool::{column, query};
use super::receipts::ReceiptColumns;
use super::{ContactRelease, FinishedEvent, LinkChange, Receipt, ReceiptStatus, Verdict, VerdictStatus};
use crate::failpoint::{Guard, guarded};
use crate::model::ids::{EventId, LeaseToken};
use crate::model::subscription::DesiredState;

/// Finishes a batch in one statement; returns the events that were still ours. The rest belong to another owner by now,
/// and nothing of them was changed.
pub async fn finish_batch(
    client: &impl GenericClient,
    token: LeaseToken,
    verdicts: &[Verdict],
    contacts: &[ContactRelease],
    receipts: &[Receipt],
) -> Result<Vec<FinishedEvent>, DbFailure> {
    const STATEMENT: &str = "finish_batch";
    let verdict = VerdictColumns::of(verdicts);
    let portals: Vec<i64> = contacts.iter().map(|contact| contact.portal_id.0).collect();
    let keys: Vec<&str> = contacts.iter().map(|contact| contact.contact_key.0.as_str()).collect();
    let records: Vec<Option<i64>> = contacts.iter().map(|contact| record_column(contact.link)).collect();
    let keyed: Vec<Option<bool>> = contacts.iter().map(|contact| contact.keyed).collect();
    let alone: Vec<bool> = contacts.iter().map(|contact| contact.alone).collect();
    let started = ReceiptColumns::of(receipts.iter().map(|receipt| &receipt.started));
    let statuses: Vec<&str> = receipts.iter().map(|receipt| receipt.status.as_str()).collect();
    let record_ids: Vec<Option<i64>> = receipts.iter().map(|receipt| receipt.record_id.map(|id| id.0)).collect();
    let correlation_ids: Vec<Option<&str>> = receipts.iter().map(|receipt| receipt.correlation_id.as_deref()).collect();
    let remote_at: Vec<Option<Timestamp>> = receipts.iter().map(|receipt| receipt.remote_at).collect();
    let rows = query(
        client,
        STATEMENT,
        &guarded(Guard::Fence, include_str!("../sql/finish_batch.sql")),
        &[
            (&token.0, Type::UUID),
            (&verdict.events, Type::UUID_ARRAY),
            (&verdict.statuses, Type::TEXT_ARRAY),
            (&verdict.due_in, Type::INT8_ARRAY),
            (&verdict.charged, Type::BOOL_ARRAY),
            (&verdict.codes, Type::TEXT_ARRAY),
            (&verdict.summaries, Type::TEXT_ARRAY),
            (&portals, Type::INT8_ARRAY),
            (&keys, Type::TEXT_ARRAY),
            (&records, Type::INT8_ARRAY),
            (&started.events, Type::UUID_ARRAY),
            (&started.keys, Type::TEXT_ARRAY),
            (&started.portals, Type::INT8_ARRAY),
            (&started.contacts, Type::TEXT_ARRAY),
            (&started.hashes, Type::BYTEA_ARRAY),
            (&statuses, Type::TEXT_ARRAY),
            (&record_ids, Type::INT8_ARRAY),
            (&correlation_ids, Type::TEXT_ARRAY),
            (&remote_at, Type::TIMESTAMPTZ_ARRAY),
            (&verdict.applied, Type::TEXT_ARRAY),
            (&keyed, Type::BOOL_ARRAY),
            (&alone, Type::BOOL_ARRAY),
            (&millis(SHARED_WAIT), Type::INT8),
        ],
    )
    .await?;
    rows.iter()
        .map(|row| {
            Ok(FinishedEvent {
                event_id: EventId(column(row, STATEMENT, "event_id")?),
                shares_record: column(row, STATEMENT, "shares")?,
            })
        })
        .collect()
}

/// An event whose contact was found to share a record comes round again after this long.
const SHARED_WAIT: Duration = Duration::from_secs(1);

/// A record that is gone goes by its negative id.
const fn record_column(link: LinkChange) -> Option<i64> {
    match link {
        LinkChange::None => None,
        LinkChange::Is(record) => Some(record.0),
        LinkChange::IsNot(record) => Some(-record.0),
    }
}

impl ReceiptStatus {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
        }
    }
}

/// Verdicts, a vector a column.
struct VerdictColumns<'a> {
    events: Vec<Uuid>,
    statuses: Vec<&'static str>,
    due_in: Vec<Option<i64>>,
    charged: Vec<bool>,
    codes: Vec<Option<&'a str>>,
    summaries: Vec<Option<&'a str>>,
    applied: Vec<Option<&'static str>>,
}

impl<'a> VerdictColumns<'a> {
    fn of(verdicts: &'a [Verdict]) -> Self {
        let (statuses, due_in): (Vec<_>, Vec<_>) = verdicts
            .iter()
            .map(|verdict| match verdict.status {
                VerdictStatus::Synced => ("synced", None),
                VerdictStatus::Superseded => ("superseded", None),
                VerdictStatus::Dead => ("dead", None),
                VerdictStatus::Retry { due_in, .. } => ("retry", Some(millis(due_in))),
            })
            .unzip();
        let reasons = || verdicts.iter().map(|verdict| verdict.reason.as_ref());
        Self {
            events: verdicts.iter().map(|verdict| verdict.event_id.0).collect(),
            statuses,
            due_in,
            charged: verdicts
                .iter()
                .map(|verdict| matches!(verdict.status, VerdictStatus::Retry { charged: true, .. }))
                .collect(),
            codes: reasons().map(|reason| reason.map(|(code, _)| code.as_str())).collect(),
            summaries: reasons().map(|reason| reason.map(|(_, summary)| summary.as_str())).collect(),
            applied: verdicts.iter().map(|verdict| verdict.applied.map(DesiredState::as_str)).collect(),
        }
    }
}
