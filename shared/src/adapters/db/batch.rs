//! The outbox as the worker sees it: a batch is claimed, renewed and finished in one statement each.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::failure::DbFailure;
use super::outbox::millis;
use super::pool::{column, execute, query};
use crate::model::ids::{ContactKey, EventId, LeaseToken, PortalId, RecordId, StreamId};
use crate::model::plan::WriteMode;
use crate::model::subscription::{ClaimedEvent, Contact, DesiredState, EventLane};

/// What became of the events of a batch of messages.
#[derive(Debug, Default)]
pub struct ClaimedBatch {
    /// Held by us now, by portal.
    pub portals: BTreeMap<PortalId, (PortalSettings, Vec<ClaimedEvent>)>,
    /// Held by us, but of a kind or form that this version does not understand.
    pub unreadable: Vec<UnreadableEvent>,
    /// A newer state was accepted: ended without a call.
    pub superseded: usize,
    /// Another worker holds the contact: snoozed.
    pub busy: usize,
    /// Waiting for their time, or finished: nothing to do.
    pub settled: usize,
    /// No such event: not committed yet, pruned, or not of this database.
    pub unknown: Vec<EventId>,
}

/// An event that a later version may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableEvent {
    /// The event.
    pub event_id: EventId,
    /// The contact that was claimed with it.
    pub contact: (PortalId, ContactKey),
    /// Why, as a stable word.
    pub reason: &'static str,
}

/// A portal as it is configured now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortalSettings {
    /// The account.
    pub portal_id: PortalId,
    /// Calls in any rolling window.
    pub call_limit: u32,
    /// Length of that window.
    pub call_window: Duration,
    /// Search requests a second.
    pub search_limit_per_second: u32,
    /// How consent is read and written.
    pub write_mode: WriteMode,
    /// The contact property with unique values that holds our key.
    pub unique_property: String,
    /// Switched off by an operator.
    pub off: bool,
    /// Paused for this much longer.
    pub paused_for: Option<Duration>,
}

/// What an event's row is to say from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The event.
    pub event_id: EventId,
    /// Where it goes.
    pub status: VerdictStatus,
    /// Why, as a stable word and as a sentence without personal data.
    pub reason: Option<(String, String)>,
    /// What HubSpot holds now for the stream, as far as this event settled it.
    pub applied: Option<DesiredState>,
}

/// Where an event goes when its batch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictStatus {
    /// HubSpot agrees.
    Synced,
    /// HubSpot knew better.
    Superseded,
    /// A person has to look.
    Dead,
    /// It waits for its time. A snooze does not count as an attempt.
    Retry {
        /// How long.
        due_in: Duration,
        /// Whether it counts as an attempt.
        charged: bool,
    },
}

/// A contact that is given back, with what was learned about its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContactRelease {
    /// The portal.
    pub portal_id: PortalId,
    /// The contact.
    pub contact_key: ContactKey,
    /// The record HubSpot named; `Some(None)` forgets the one we had.
    pub record: Option<Option<RecordId>>,
}

/// What is about to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedReceipt {
    /// The event.
    pub event_id: EventId,
    /// The operation.
    pub operation_key: String,
    /// The portal.
    pub portal_id: PortalId,
    /// The contact.
    pub contact_key: ContactKey,
    /// Fingerprint of what is written.
    pub desired_hash: [u8; 32],
}

/// What became of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Identity and fingerprint.
    pub started: StartedReceipt,
    /// How it ended.
    pub status: ReceiptStatus,
    /// The record HubSpot named.
    pub record_id: Option<RecordId>,
    /// HubSpot's id of the call.
    pub correlation_id: Option<String>,
    /// When the change happened, by HubSpot's clock.
    pub remote_at: Option<Timestamp>,
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiptStatus {
    /// HubSpot holds what was wanted.
    Done,
    /// HubSpot refused it.
    Refused,
}

/// Asks for our own opt-outs of a contact and subscription type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OptOutQuery {
    /// The portal.
    pub portal_id: PortalId,
    /// The contact.
    pub contact_key: ContactKey,
    /// Such as `status:1001:unsubscribed`.
    pub operation_key: String,
}

/// An opt-out that we wrote, or may have written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptOut {
    /// Which.
    pub query: OptOutQuery,
    /// The call began after this.
    pub started_at: Timestamp,
    /// HubSpot's instant of the change, if its answer arrived.
    pub remote_at: Option<Timestamp>,
}

/// Claims the events of a batch of messages and the contacts they concern.
pub async fn claim_batch(
    client: &impl GenericClient,
    events: &[EventId],
    token: LeaseToken,
    lease: Duration,
    busy_snooze: (Duration, Duration),
) -> Result<ClaimedBatch, DbFailure> {
    let ids: Vec<Uuid> = events.iter().map(|event| event.0).collect();
    let rows = query(
        client,
        CLAIM,
        include_str!("sql/claim_batch.sql"),
        &[
            (&ids, Type::UUID_ARRAY),
            (&token.0, Type::UUID),
            (&millis(lease), Type::INT8),
            (&millis(busy_snooze.0), Type::INT8),
            (&millis(busy_snooze.1), Type::INT8),
        ],
    )
    .await?;
    let mut batch = ClaimedBatch::default();
    for row in &rows {
        sort_in(&mut batch, row)?;
    }
    Ok(batch)
}

const CLAIM: &str = "claim_batch";

fn sort_in(batch: &mut ClaimedBatch, row: &Row) -> Result<(), DbFailure> {
    let event_id = EventId(column(row, CLAIM, "event_id")?);
    match column::<&str>(row, CLAIM, "outcome")? {
        "claimed" => {
            let settings = settings(row)?;
            match claimed_event(row, event_id, settings.portal_id)? {
                Ok(event) => batch.portals.entry(settings.portal_id).or_insert((settings, Vec::new())).1.push(event),
                Err(reason) => batch.unreadable.push(UnreadableEvent {
                    event_id,
                    contact: (settings.portal_id, ContactKey(column(row, CLAIM, "contact_key")?)),
                    reason,
                }),
            }
        }
        "superseded" => batch.superseded += 1,
        "busy" => batch.busy += 1,
        "unknown" => batch.unknown.push(event_id),
        _ => batch.settled += 1,
    }
    Ok(())
}

/// The event, or why this version can't read it: then the event alone is dead, and its batch goes on.
fn claimed_event(row: &Row, event_id: EventId, portal_id: PortalId) -> Result<Result<ClaimedEvent, &'static str>, DbFailure> {
    let kind: String = column(row, CLAIM, "kind")?;
    if kind != crate::model::subscription::DESIRED_STATE_KIND {
        return Ok(Err("unknown_kind"));
    }
    let Ok(payload) = serde_json::from_value(column::<Value>(row, CLAIM, "payload")?) else {
        return Ok(Err("unreadable_payload"));
    };
    let Some(lane) = EventLane::parse(column(row, CLAIM, "lane")?) else { return Ok(Err("unknown_lane")) };
    let receipts: Option<Value> = column(row, CLAIM, "receipts")?;
    let properties = serde_json::from_value(column::<Value>(row, CLAIM, "properties")?);
    Ok(Ok(ClaimedEvent {
        event_id,
        stream_id: StreamId(column(row, CLAIM, "stream_id")?),
        sequence: column(row, CLAIM, "sequence")?,
        portal_id,
        lane,
        process_attempts: column(row, CLAIM, "process_attempts")?,
        accepted_at: column(row, CLAIM, "created_at")?,
        contact: Contact {
            key: ContactKey(column(row, CLAIM, "contact_key")?),
            email: column(row, CLAIM, "email")?,
            properties: properties.unwrap_or_default(),
            record_id: column::<Option<i64>>(row, CLAIM, "record_id")?.map(RecordId),
        },
        payload,
        receipts: receipts.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default(),
    }))
}

fn settings(row: &Row) -> Result<PortalSettings, DbFailure> {
    let number = |name| column::<i32>(row, CLAIM, name).map(i32::unsigned_abs);
    let paused_for: Option<i64> = column(row, CLAIM, "paused_for_ms")?;
    Ok(PortalSettings {
        portal_id: PortalId(column(row, CLAIM, "portal_id")?),
        call_limit: number("call_limit")?,
        call_window: Duration::from_millis(number("call_window_ms")?.into()),
        search_limit_per_second: number("search_limit_per_second")?,
        write_mode: match column(row, CLAIM, "subscription_write_mode")? {
            "single" => WriteMode::Single,
            _ => WriteMode::Batch,
        },
        unique_property: column(row, CLAIM, "unique_property")?,
        off: column::<&str>(row, CLAIM, "mode")? != "live",
        paused_for: paused_for.and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms > 0).map(Duration::from_millis),
    })
}

/// Renews the leases of a running batch; returns the events it still holds.
pub async fn renew_leases(
    client: &impl GenericClient,
    token: LeaseToken,
    lease: Duration,
    events: &[EventId],
    contacts: &[(PortalId, ContactKey)],
) -> Result<Vec<EventId>, DbFailure> {
    const STATEMENT: &str = "renew_leases";
    let ids: Vec<Uuid> = events.iter().map(|event| event.0).collect();
    let (portals, keys): (Vec<i64>, Vec<&str>) = contacts.iter().map(|(portal, key)| (portal.0, key.0.as_str())).unzip();
    let rows = query(
        client,
        STATEMENT,
        include_str!("sql/renew_leases.sql"),
        &[
            (&token.0, Type::UUID),
            (&millis(lease), Type::INT8),
            (&ids, Type::UUID_ARRAY),
            (&portals, Type::INT8_ARRAY),
            (&keys, Type::TEXT_ARRAY),
        ],
    )
    .await?;
    rows.iter().map(|row| column(row, STATEMENT, "event_id").map(EventId)).collect()
}

/// Notes what is about to be written, as far as the events are still ours.
pub async fn start_receipts(
    client: &impl GenericClient,
    token: LeaseToken,
    receipts: &[StartedReceipt],
) -> Result<u64, DbFailure> {
    let columns = ReceiptColumns::of(receipts.iter());
    execute(
        client,
        "start_receipts",
        include_str!("sql/start_receipts.sql"),
        &[
            (&columns.events, Type::UUID_ARRAY),
            (&columns.keys, Type::TEXT_ARRAY),
            (&columns.portals, Type::INT8_ARRAY),
            (&columns.contacts, Type::TEXT_ARRAY),
            (&columns.hashes, Type::BYTEA_ARRAY),
            (&token.0, Type::UUID),
        ],
    )
    .await
}

/// Our own opt-outs of these contacts and subscription types.
pub async fn own_opt_outs(client: &impl GenericClient, queries: &[OptOutQuery]) -> Result<Vec<OptOut>, DbFailure> {
    const STATEMENT: &str = "own_opt_outs";
    let portals: Vec<i64> = queries.iter().map(|query| query.portal_id.0).collect();
    let contacts: Vec<&str> = queries.iter().map(|query| query.contact_key.0.as_str()).collect();
    let keys: Vec<&str> = queries.iter().map(|query| query.operation_key.as_str()).collect();
    let rows = query(
        client,
        STATEMENT,
        include_str!("sql/own_opt_outs.sql"),
        &[(&portals, Type::INT8_ARRAY), (&contacts, Type::TEXT_ARRAY), (&keys, Type::TEXT_ARRAY)],
    )
    .await?;
    rows.iter()
        .map(|row| {
            Ok(OptOut {
                query: OptOutQuery {
                    portal_id: PortalId(column(row, STATEMENT, "portal_id")?),
                    contact_key: ContactKey(column(row, STATEMENT, "contact_key")?),
                    operation_key: column(row, STATEMENT, "operation_key")?,
                },
                started_at: column(row, STATEMENT, "started_at")?,
                remote_at: column(row, STATEMENT, "remote_at")?,
            })
        })
        .collect()
}

/// Finishes a batch in one statement; returns the events that were still ours. The rest belong to another owner by now,
/// and nothing of them was changed.
pub async fn finish_batch(
    client: &impl GenericClient,
    token: LeaseToken,
    verdicts: &[Verdict],
    contacts: &[ContactRelease],
    receipts: &[Receipt],
) -> Result<Vec<EventId>, DbFailure> {
    const STATEMENT: &str = "finish_batch";
    let verdict = VerdictColumns::of(verdicts);
    let portals: Vec<i64> = contacts.iter().map(|contact| contact.portal_id.0).collect();
    let keys: Vec<&str> = contacts.iter().map(|contact| contact.contact_key.0.as_str()).collect();
    let records: Vec<Option<i64>> =
        contacts.iter().map(|contact| contact.record.map(|record| record.map_or(FORGET, |id| id.0))).collect();
    let started = ReceiptColumns::of(receipts.iter().map(|receipt| &receipt.started));
    let statuses: Vec<&str> = receipts.iter().map(|receipt| receipt.status.as_str()).collect();
    let record_ids: Vec<Option<i64>> = receipts.iter().map(|receipt| receipt.record_id.map(|id| id.0)).collect();
    let correlation_ids: Vec<Option<&str>> = receipts.iter().map(|receipt| receipt.correlation_id.as_deref()).collect();
    let remote_at: Vec<Option<Timestamp>> = receipts.iter().map(|receipt| receipt.remote_at).collect();
    let rows = query(
        client,
        STATEMENT,
        include_str!("sql/finish_batch.sql"),
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
        ],
    )
    .await?;
    rows.iter().map(|row| column(row, STATEMENT, "event_id").map(EventId)).collect()
}

/// In the array of record ids: forget the record we had.
const FORGET: i64 = 0;

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
            charged: verdicts.iter().map(|verdict| matches!(verdict.status, VerdictStatus::Retry { charged: true, .. })).collect(),
            codes: reasons().map(|reason| reason.map(|(code, _)| code.as_str())).collect(),
            summaries: reasons().map(|reason| reason.map(|(_, summary)| summary.as_str())).collect(),
            applied: verdicts.iter().map(|verdict| verdict.applied.map(DesiredState::as_str)).collect(),
        }
    }
}

/// Receipts, a vector a column.
struct ReceiptColumns<'a> {
    events: Vec<Uuid>,
    keys: Vec<&'a str>,
    portals: Vec<i64>,
    contacts: Vec<&'a str>,
    hashes: Vec<&'a [u8]>,
}

impl<'a> ReceiptColumns<'a> {
    fn of(receipts: impl Iterator<Item = &'a StartedReceipt> + Clone) -> Self {
        Self {
            events: receipts.clone().map(|receipt| receipt.event_id.0).collect(),
            keys: receipts.clone().map(|receipt| receipt.operation_key.as_str()).collect(),
            portals: receipts.clone().map(|receipt| receipt.portal_id.0).collect(),
            contacts: receipts.clone().map(|receipt| receipt.contact_key.0.as_str()).collect(),
            hashes: receipts.map(|receipt| receipt.desired_hash.as_slice()).collect(),
        }
    }
}
