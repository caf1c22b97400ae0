//! Deliveries of HubSpot's webhooks, as they are received.

use std::time::Duration;

use serde_json::Value;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::failure::DbFailure;
use super::pool::{column, execute, query};
use crate::model::hubspot_signature::{SecretUsed, SignatureVersion};
use crate::model::notification::{Notification, Quarantined, UnreadableBody};

/// A delivery whose signature is genuine.
#[derive(Debug, Clone)]
pub struct NewDelivery<'a> {
    /// Its id.
    pub delivery_id: Uuid,
    /// The headers that matter, an object of texts.
    pub headers: &'a Value,
    /// The bytes, as they came.
    pub body: &'a [u8],
    /// The app whose secret signed it.
    pub app_id: Option<i64>,
    /// Which of its secrets.
    pub secret: SecretUsed,
    /// Which signature.
    pub version: SignatureVersion,
    /// Why nothing of it can be read.
    pub unreadable: Option<UnreadableBody>,
}

/// What became of the notifications of a delivery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredDelivery {
    /// New, and for the worker.
    pub received: i32,
    /// New, and kept with a reason.
    pub quarantined: i32,
    /// Known already.
    pub repeated: i32,
    /// Events made, one a portal.
    pub events: i32,
}

/// Stores a delivery, its notifications and the events for the worker, in one statement. What is known already is left as
/// it is; without anything new there is no event.
pub async fn store_webhook_delivery(
    client: &impl GenericClient,
    delivery: &NewDelivery<'_>,
    notifications: &[Result<Notification, Quarantined>],
) -> Result<StoredDelivery, DbFailure> {
    const STATEMENT: &str = "store_webhook_delivery";
    let sql = include_str!("sql/store_webhook_delivery.sql");
    let rows = Columns::of(notifications);
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 21] = [
        (&delivery.delivery_id, Type::UUID),
        (delivery.headers, Type::JSONB),
        (&delivery.body, Type::BYTEA),
        (&delivery.app_id, Type::INT8),
        (&secret_word(delivery.secret), Type::TEXT),
        (&version_word(delivery.version), Type::TEXT),
        (&delivery.unreadable.map(UnreadableBody::code), Type::TEXT),
        (&rows.keys, Type::BYTEA_ARRAY),
        (&rows.portal_ids, Type::INT8_ARRAY),
        (&rows.app_ids, Type::INT8_ARRAY),
        (&rows.subscription_types, Type::TEXT_ARRAY),
        (&rows.object_types, Type::TEXT_ARRAY),
        (&rows.object_ids, Type::INT8_ARRAY),
        (&rows.property_names, Type::TEXT_ARRAY),
        (&rows.property_values, Type::TEXT_ARRAY),
        (&rows.occurred_at, Type::TIMESTAMPTZ_ARRAY),
        (&rows.event_ids, Type::TEXT_ARRAY),
        (&rows.change_sources, Type::TEXT_ARRAY),
        (&rows.details, Type::JSONB_ARRAY),
        (&rows.raw, Type::TEXT_ARRAY),
        (&rows.reasons, Type::TEXT_ARRAY),
    ];
    let found = query(client, STATEMENT, sql, &params).await?;
    let row = found.first().ok_or(DbFailure::Unreadable { statement: STATEMENT, cause: "no row".into() })?;
    Ok(StoredDelivery {
        received: column(row, STATEMENT, "received")?,
        quarantined: column(row, STATEMENT, "quarantined")?,
        repeated: column(row, STATEMENT, "repeated")?,
        events: column(row, STATEMENT, "events")?,
    })
}

/// Takes the bytes from at most `most` deliveries that are older than this. Returns how many had theirs taken.
pub async fn forget_webhook_bodies(
    client: &impl GenericClient,
    older_than: Duration,
    most: i64,
) -> Result<u64, DbFailure> {
    let sql = include_str!("sql/forget_webhook_bodies.sql");
    execute(client, "forget_webhook_bodies", sql, &[(&milliseconds(older_than), Type::INT8), (&most, Type::INT8)]).await
}

/// Deletes at most `most` deliveries that are older than this, with their notifications. Returns how many it deleted.
///
/// HubSpot sends a notification again for up to a day: what is deleted sooner than that is received once more.
pub async fn delete_webhook_deliveries(
    client: &impl GenericClient,
    older_than: Duration,
    most: i64,
) -> Result<u64, DbFailure> {
    let sql = include_str!("sql/delete_webhook_deliveries.sql");
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&milliseconds(older_than), Type::INT8), (&most, Type::INT8)];
    execute(client, "delete_webhook_deliveries", sql, &params).await
}

/// One array a column; the same place in each is one notification.
#[derive(Default)]
struct Columns<'a> {
    keys: Vec<&'a [u8]>,
    portal_ids: Vec<Option<i64>>,
    app_ids: Vec<Option<i64>>,
    subscription_types: Vec<Option<&'a str>>,
    object_types: Vec<Option<&'a str>>,
    object_ids: Vec<Option<i64>>,
    property_names: Vec<Option<&'a str>>,
    property_values: Vec<Option<&'a str>>,
    occurred_at: Vec<Option<jiff::Timestamp>>,
    event_ids: Vec<Option<&'a str>>,
    change_sources: Vec<Option<&'a str>>,
    details: Vec<Option<&'a Value>>,
    raw: Vec<Option<&'a str>>,
    reasons: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn of(notifications: &'a [Result<Notification, Quarantined>]) -> Self {
        let mut columns = Self::default();
        for notification in notifications {
            let (good, bad) = (notification.as_ref().ok(), notification.as_ref().err());
            columns.keys.push(notification.as_ref().map_or_else(|bad| &bad.key.0[..], |good| &good.key.0[..]));
            columns.portal_ids.push(good.map(|good| good.portal_id).or(bad.and_then(|bad| bad.portal_id)));
            columns.app_ids.push(good.and_then(|good| good.app_id));
            let bad_type = || bad.and_then(|bad| bad.subscription_type.as_deref());
            columns.subscription_types.push(good.map(|good| &*good.subscription_type).or_else(bad_type));
            columns.object_types.push(good.and_then(|good| good.object_type.as_deref()));
            columns.object_ids.push(good.and_then(|good| good.object_id));
            columns.property_names.push(good.and_then(|good| good.property_name.as_deref()));
            columns.property_values.push(good.and_then(|good| good.property_value.as_deref()));
            columns.occurred_at.push(good.map(|good| good.occurred_at));
            columns.event_ids.push(good.and_then(|good| good.event_id.as_deref()));
            columns.change_sources.push(good.and_then(|good| good.change_source.as_deref()));
            columns.details.push(good.map(|good| &good.details));
            columns.raw.push(bad.map(|bad| &*bad.raw));
            columns.reasons.push(bad.map(|bad| bad.reason.code()));
        }
        columns
    }
}

fn secret_word(secret: SecretUsed) -> &'static str {
    match secret {
        SecretUsed::Current => "current",
        SecretUsed::Next => "next",
    }
}

fn version_word(version: SignatureVersion) -> &'static str {
    match version {
        SignatureVersion::V1 => "v1",
        SignatureVersion::V2 => "v2",
        SignatureVersion::V3 => "v3",
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
