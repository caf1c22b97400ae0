//! What HubSpot is known to hold: notifications applied, and what was read of what they left uncertain.

use std::collections::HashSet;
use std::fmt;

use jiff::Timestamp;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::failure::DbFailure;
use super::pool::{column, execute, query};
use crate::model::crm_change::CrmChange;
use crate::model::ids::{ContactKey, EventId, LeaseToken, PortalId, RecordId};

/// What came of applying deliveries.
#[derive(Debug, Default)]
pub struct Projected {
    /// Values that really changed, each with the event it belongs to, in the order in which they happened. They come again
    /// when the event is worked again.
    pub changes: Vec<(EventId, CrmChange)>,
    /// Records whose values are uncertain.
    pub reads: Vec<OwedRead>,
    /// Events that still have to wipe what is stored about somebody.
    pub erasing: HashSet<EventId>,
}

/// A record that has to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwedRead {
    /// The event that owes it.
    pub event_id: EventId,
    /// Object type by name, such as `contact`, or by HubSpot's type id, such as `2-1234`.
    pub object_type: String,
    /// The record.
    pub record_id: RecordId,
    /// The notification that asked for it.
    pub key: [u8; 32],
    /// What is uncertain.
    pub values: Vec<OwedValue>,
}

/// A value that is uncertain.
#[derive(Clone, PartialEq, Eq)]
pub struct OwedValue {
    /// Internal name of the property.
    pub property: String,
    /// The value taken to be right until it is read.
    pub value: Option<String>,
    /// Since when.
    pub occurred_at: Timestamp,
}

impl fmt::Debug for OwedValue {
    // Values are personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwedValue").field("property", &self.property).finish_non_exhaustive()
    }
}

/// A record that was read, or that is not there any more, or that HubSpot does not let us read.
#[derive(Clone, PartialEq, Eq)]
pub struct SettledRead<'a> {
    /// What was owed.
    pub owed: &'a OwedRead,
    /// What was found of its values, in their order. `None`: nothing is learned of them, and they stay uncertain.
    pub found: Option<Vec<Option<String>>>,
}

/// Applies all that was received of these deliveries of a portal, each notification once, in one statement. `deliveries`: the
/// events and their deliveries; what is not held under the lease any more is left out.
pub async fn apply_webhook_deliveries(
    client: &impl GenericClient,
    token: LeaseToken,
    portal: PortalId,
    deliveries: &[(EventId, Uuid)],
) -> Result<Projected, DbFailure> {
    let (events, deliveries): (Vec<Uuid>, Vec<Uuid>) = deliveries.iter().map(|(event, id)| (event.0, *id)).unzip();
    let sql = "select * from hubferry.apply_webhook_deliveries($1, $2, $3, $4)";
    let params: [(&(dyn ToSql + Sync), Type); 4] =
        [(&token.0, Type::UUID), (&portal.0, Type::INT8), (&events, Type::UUID_ARRAY), (&deliveries, Type::UUID_ARRAY)];
    let mut projected = Projected::default();
    for row in &query(client, APPLY, sql, &params).await? {
        sort_in(&mut projected, portal, row)?;
    }
    Ok(projected)
}

const APPLY: &str = "apply_webhook_deliveries";

fn sort_in(projected: &mut Projected, portal: PortalId, row: &Row) -> Result<(), DbFailure> {
    let event_id = EventId(column(row, APPLY, "event_id")?);
    match column::<&str>(row, APPLY, "what")? {
        "change" => projected.changes.push((event_id, change(portal, row)?)),
        "read" | "read_other" => {
            let record_id = RecordId(column(row, APPLY, "object_id")?);
            let object_type: String = column(row, APPLY, "object_type")?;
            let value = OwedValue {
                property: column(row, APPLY, "property")?,
                value: column(row, APPLY, "before")?,
                occurred_at: column(row, APPLY, "occurred_at")?,
            };
            let is_same = |read: &&mut OwedRead| (read.record_id, &read.object_type) == (record_id, &object_type);
            if let Some(read) = projected.reads.last_mut().filter(is_same) {
                read.values.push(value);
            } else {
                let (key, values) = (key(row)?, vec![value]);
                projected.reads.push(OwedRead { event_id, object_type, record_id, key, values });
            }
        }
        _ => {
            projected.erasing.insert(event_id);
        }
    }
    Ok(())
}

fn change(portal: PortalId, row: &Row) -> Result<CrmChange, DbFailure> {
    Ok(CrmChange {
        portal_id: portal,
        object_type: column(row, APPLY, "object_type")?,
        object_id: RecordId(column(row, APPLY, "object_id")?),
        property: column(row, APPLY, "property")?,
        before: column(row, APPLY, "before")?,
        after: column(row, APPLY, "after")?,
        occurred_at: column(row, APPLY, "occurred_at")?,
        notification_key: key(row)?,
        change_source: column(row, APPLY, "change_source")?,
    })
}

fn key(row: &Row) -> Result<[u8; 32], DbFailure> {
    let key: &[u8] = column(row, APPLY, "notification_key")?;
    let unreadable = |_| DbFailure::Unreadable { statement: APPLY, cause: "column notification_key".into() };
    key.try_into().map_err(unreadable)
}

/// Wipes what is stored elsewhere about contacts that were deleted for privacy in HubSpot, as far as these events owe it.
/// Errors: also when somebody holds one of the contacts for too long; then nothing was done.
pub async fn erase_crm_records(
    client: &impl GenericClient,
    token: LeaseToken,
    portal: PortalId,
    events: &[EventId],
) -> Result<(), DbFailure> {
    let events: Vec<Uuid> = events.iter().map(|event| event.0).collect();
    let sql = "select hubferry.erase_crm_records($1, $2, $3)";
    let params: [(&(dyn ToSql + Sync), Type); 3] =
        [(&token.0, Type::UUID), (&portal.0, Type::INT8), (&events, Type::UUID_ARRAY)];
    execute(client, "erase_crm_records", sql, &params).await.map(|_| ())
}

/// Writes what reads found, where nothing newer was applied meanwhile, in one statement.
pub async fn settle_crm_reads(
    client: &impl GenericClient,
    token: LeaseToken,
    portal: PortalId,
    reads: &[SettledRead<'_>],
) -> Result<(), DbFailure> {
    let events: Vec<Uuid> = reads.iter().map(|read| read.owed.event_id.0).collect();
    let types: Vec<&str> = reads.iter().map(|read| read.owed.object_type.as_str()).collect();
    let records: Vec<i64> = reads.iter().map(|read| read.owed.record_id.0).collect();
    let keys: Vec<&[u8]> = reads.iter().map(|read| &read.owed.key[..]).collect();
    let values = ValueColumns::of(reads);
    let sql = "select hubferry.settle_crm_reads($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    let params: [(&(dyn ToSql + Sync), Type); 11] = [
        (&token.0, Type::UUID),
        (&portal.0, Type::INT8),
        (&events, Type::UUID_ARRAY),
        (&types, Type::TEXT_ARRAY),
        (&records, Type::INT8_ARRAY),
        (&keys, Type::BYTEA_ARRAY),
        (&values.types, Type::TEXT_ARRAY),
        (&values.records, Type::INT8_ARRAY),
        (&values.properties, Type::TEXT_ARRAY),
        (&values.found, Type::TEXT_ARRAY),
        (&values.known_at, Type::TIMESTAMPTZ_ARRAY),
    ];
    execute(client, "settle_crm_reads", sql, &params).await.map(|_| ())
}

/// Values that were read, a vector a column.
#[derive(Default)]
struct ValueColumns<'a> {
    types: Vec<&'a str>,
    records: Vec<i64>,
    properties: Vec<&'a str>,
    found: Vec<Option<&'a str>>,
    known_at: Vec<Timestamp>,
}

impl<'a> ValueColumns<'a> {
    fn of(reads: &'a [SettledRead<'a>]) -> Self {
        let mut columns = Self::default();
        for read in reads {
            for (value, found) in read.owed.values.iter().zip(read.found.iter().flatten()) {
                columns.types.push(&read.owed.object_type);
                columns.records.push(read.owed.record_id.0);
                columns.properties.push(&value.property);
                columns.found.push(found.as_deref());
                columns.known_at.push(value.occurred_at);
            }
        }
        columns
    }
}

/// An opt-out that HubSpot reported about the record of a contact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedOptOut {
    /// The contact.
    pub contact_key: ContactKey,
    /// The subscription type that was asked for.
    pub subscription_type: i64,
    /// Since when, by HubSpot's clock.
    pub at: Timestamp,
}

/// Of these contacts and subscription types, those that have opted out by what HubSpot reported: of the type, or of all.
pub async fn reported_opt_outs(
    client: &impl GenericClient,
    portal: PortalId,
    asked: &[(&ContactKey, i64)],
) -> Result<Vec<ReportedOptOut>, DbFailure> {
    const STATEMENT: &str = "reported_opt_outs";
    let (keys, types): (Vec<&str>, Vec<i64>) = asked.iter().map(|(key, kind)| (key.0.as_str(), *kind)).unzip();
    let params: [(&(dyn ToSql + Sync), Type); 3] =
        [(&portal.0, Type::INT8), (&keys, Type::TEXT_ARRAY), (&types, Type::INT8_ARRAY)];
    let rows = query(client, STATEMENT, include_str!("sql/reported_opt_outs.sql"), &params).await?;
    rows.iter()
        .map(|row| {
            Ok(ReportedOptOut {
                contact_key: ContactKey(column(row, STATEMENT, "contact_key")?),
                subscription_type: column(row, STATEMENT, "subscription_type")?,
                at: column(row, STATEMENT, "opted_out_at")?,
            })
        })
        .collect()
}
