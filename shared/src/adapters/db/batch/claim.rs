//! Claims a batch, and renews its leases.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::super::failure::DbFailure;
use super::super::outbox::millis;
use super::super::pool::{column, execute, query};
use super::{ClaimedBatch, PortalSettings, UnreadableEvent};
use crate::failpoint::{Guard, guarded};
use crate::model::crm_change::CONTACT;
use crate::model::event::{PlainContact, PlainEvent};
use crate::model::ids::{ContactKey, EventId, LeaseToken, PortalId, RecordId, StreamId};
use crate::model::plan::WriteMode;
use crate::model::subscription::{ClaimedEvent, Contact, EventLane, Owner};
use crate::model::suspects::{CRASHES_UNTIL_SUSPECT, Suspect};

/// Claims the events of a batch of messages and the contacts they concern, but for suspects: those are only named.
pub async fn claim_batch(
    client: &impl GenericClient,
    events: &[EventId],
    token: LeaseToken,
    lease: Duration,
    busy_snooze: (Duration, Duration),
) -> Result<ClaimedBatch, DbFailure> {
    claim(client, events, token, lease, busy_snooze, CRASHES_UNTIL_SUSPECT).await
}

/// The same, for suspects whose turn it is.
pub async fn claim_suspects(
    client: &impl GenericClient,
    events: &[EventId],
    token: LeaseToken,
    lease: Duration,
    busy_snooze: (Duration, Duration),
) -> Result<ClaimedBatch, DbFailure> {
    claim(client, events, token, lease, busy_snooze, i32::MAX).await
}

/// Lets published events come again after a while between these two, uncharged. They stay what they are if a worker has them.
pub async fn defer_suspects(
    client: &impl GenericClient,
    events: &[EventId],
    wait: (Duration, Duration),
) -> Result<u64, DbFailure> {
    let ids: Vec<Uuid> = events.iter().map(|event| event.0).collect();
    let params: [(&(dyn ToSql + Sync), Type); 3] =
        [(&ids, Type::UUID_ARRAY), (&millis(wait.0), Type::INT8), (&millis(wait.1), Type::INT8)];
    execute(client, "defer_suspects", include_str!("../sql/defer_suspects.sql"), &params).await
}

async fn claim(
    client: &impl GenericClient,
    events: &[EventId],
    token: LeaseToken,
    lease: Duration,
    busy_snooze: (Duration, Duration),
    crashes_below: i32,
) -> Result<ClaimedBatch, DbFailure> {
    let ids: Vec<Uuid> = events.iter().map(|event| event.0).collect();
    let rows = query(
        client,
        CLAIM,
        &guarded(Guard::Lease, include_str!("../sql/claim_batch.sql")),
        &[
            (&ids, Type::UUID_ARRAY),
            (&token.0, Type::UUID),
            (&millis(lease), Type::INT8),
            (&millis(busy_snooze.0), Type::INT8),
            (&millis(busy_snooze.1), Type::INT8),
            (&crashes_below, Type::INT4),
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
        "claimed" => sort_claimed(batch, row, event_id)?,
        "superseded" => batch.superseded += 1,
        "cancelled" => batch.cancelled += 1,
        "busy" => batch.busy += 1,
        "unknown" => batch.unknown.push(event_id),
        "suspect" => batch.suspects.push(Suspect { event_id, crashes: column(row, CLAIM, "crashes")? }),
        _ => batch.settled += 1,
    }
    Ok(())
}

fn sort_claimed(batch: &mut ClaimedBatch, row: &Row, event_id: EventId) -> Result<(), DbFailure> {
    let settings = settings(row)?;
    let portal_id = settings.portal_id;
    let unreadable = if let Some(stream) = column::<Option<i64>>(row, CLAIM, "stream_id")? {
        let event = claimed_event(row, event_id, StreamId(stream), portal_id)?;
        event.map(|event| batch.portals.entry(portal_id).or_insert((settings, Vec::new())).1.push(event)).err()
    } else {
        let event = plain_event(row, event_id, portal_id)?;
        event.map(|event| batch.without_stream.entry(portal_id).or_insert((settings, Vec::new())).1.push(event)).err()
    };
    if let Some(reason) = unreadable {
        let contacts = leased(row)?.into_iter().map(|key| (portal_id, key)).collect();
        batch.unreadable.push(UnreadableEvent { event_id, contacts, reason });
    }
    Ok(())
}

/// An event without a stream, or why this version can't read it. Its payload is for its kind to read.
fn plain_event(
    row: &Row,
    event_id: EventId,
    portal_id: PortalId,
) -> Result<Result<PlainEvent, &'static str>, DbFailure> {
    let Ok(created_at) = column(row, CLAIM, "created_at") else { return Ok(Err("unreadable_time")) };
    let Some(lane) = EventLane::parse(column(row, CLAIM, "lane")?) else { return Ok(Err("unknown_lane")) };
    let contact = match column::<Option<String>>(row, CLAIM, "contact_key")? {
        Some(key) => Some(PlainContact {
            key: ContactKey(key),
            record_id: column::<Option<i64>>(row, CLAIM, "own_record_id")?.map(RecordId),
            leased: leased(row)?,
        }),
        None => None,
    };
    Ok(Ok(PlainEvent {
        event_id,
        kind: column(row, CLAIM, "kind")?,
        portal_id,
        lane,
        process_attempts: column(row, CLAIM, "process_attempts")?,
        created_at,
        contact,
        payload: column(row, CLAIM, "payload")?,
    }))
}

/// The event, or why this version can't read it: then the event alone is dead, and its batch goes on.
fn claimed_event(
    row: &Row,
    event_id: EventId,
    stream_id: StreamId,
    portal_id: PortalId,
) -> Result<Result<ClaimedEvent, &'static str>, DbFailure> {
    let kind: String = column(row, CLAIM, "kind")?;
    if kind != crate::model::subscription::DESIRED_STATE_KIND {
        return Ok(Err("unknown_kind"));
    }
    let Ok(payload) = serde_json::from_value(column::<Value>(row, CLAIM, "payload")?) else {
        return Ok(Err("unreadable_payload"));
    };
    // An instant beyond what a timestamp here can say: nobody but a person at the database writes one.
    let Ok(accepted_at) = column(row, CLAIM, "created_at") else { return Ok(Err("unreadable_time")) };
    let Some(lane) = EventLane::parse(column(row, CLAIM, "lane")?) else { return Ok(Err("unknown_lane")) };
    let receipts: Option<Value> = column(row, CLAIM, "receipts")?;
    let later: Option<Value> = column(row, CLAIM, "decisions")?;
    let properties = serde_json::from_value(column::<Value>(row, CLAIM, "properties")?);
    Ok(Ok(ClaimedEvent {
        event_id,
        stream_id,
        sequence: column(row, CLAIM, "sequence")?,
        portal_id,
        lane,
        process_attempts: column(row, CLAIM, "process_attempts")?,
        accepted_at,
        contact: Contact {
            key: ContactKey(column(row, CLAIM, "contact_key")?),
            email: column(row, CLAIM, "email")?,
            properties: properties.unwrap_or_default(),
            record_id: column::<Option<i64>>(row, CLAIM, "record_id")?.map(RecordId),
            keyed: column(row, CLAIM, "keyed")?,
            owner: Owner {
                key: ContactKey(column(row, CLAIM, "owner_key")?),
                email: column(row, CLAIM, "owner_email")?,
            },
            shares: column(row, CLAIM, "is_shared")?,
            leased: leased(row)?,
        },
        payload,
        receipts: receipts.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default(),
        later: later.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default(),
    }))
}

fn leased(row: &Row) -> Result<Vec<ContactKey>, DbFailure> {
    Ok(column::<Vec<String>>(row, CLAIM, "members")?.into_iter().map(ContactKey).collect())
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
        api_version: column(row, CLAIM, "api_version")?,
        off: column::<&str>(row, CLAIM, "mode")? != "live",
        watched: watched(row)?,
        paused_for: paused_for.and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms > 0).map(Duration::from_millis),
    })
}

/// The contact properties that the portal's rules wait for.
fn watched(row: &Row) -> Result<HashSet<String>, DbFailure> {
    let watched: Option<Vec<String>> = column(row, CLAIM, "watched")?;
    let of_contacts = watched.iter().flatten().filter_map(|name| name.split_once(':'));
    Ok(of_contacts.filter(|(object, _)| *object == CONTACT).map(|(_, property)| property.to_owned()).collect())
}

/// What a renewal found to be still held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewed {
    /// The events.
    pub events: HashSet<EventId>,
    /// The contacts.
    pub contacts: HashSet<(PortalId, ContactKey)>,
}

/// Renews the leases of a running batch; returns what it still holds.
pub async fn renew_leases(
    client: &impl GenericClient,
    token: LeaseToken,
    lease: Duration,
    events: &[EventId],
    contacts: &[(PortalId, ContactKey)],
) -> Result<Renewed, DbFailure> {
    const STATEMENT: &str = "renew_leases";
    let ids: Vec<Uuid> = events.iter().map(|event| event.0).collect();
    let (portals, keys): (Vec<i64>, Vec<&str>) =
        contacts.iter().map(|(portal, key)| (portal.0, key.0.as_str())).unzip();
    let rows = query(
        client,
        STATEMENT,
        include_str!("../sql/renew_leases.sql"),
        &[
            (&token.0, Type::UUID),
            (&millis(lease), Type::INT8),
            (&ids, Type::UUID_ARRAY),
            (&portals, Type::INT8_ARRAY),
            (&keys, Type::TEXT_ARRAY),
        ],
    )
    .await?;
    let mut renewed = Renewed::default();
    for row in &rows {
        if let Some(event) = column::<Option<Uuid>>(row, STATEMENT, "event_id")? {
            renewed.events.insert(EventId(event));
        } else {
            let portal = PortalId(column(row, STATEMENT, "portal_id")?);
            renewed.contacts.insert((portal, ContactKey(column(row, STATEMENT, "contact_key")?)));
        }
    }
    Ok(renewed)
}
