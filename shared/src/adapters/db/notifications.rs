//! What people ask about deliveries and their notifications, and taking them up again.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use tokio_postgres::GenericClient;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::failure::DbFailure;
use super::pool::{column, execute, query};
use crate::model::notification::Notification;

/// Deliveries looked through by a list: whoever looks for something rarer names a narrower time.
const MOST_LOOKED_AT: i64 = 100_000;

/// Notifications that are shown of one delivery; HubSpot sends no more.
const MOST_SHOWN: i64 = 100;

/// Which notifications are meant.
#[derive(Debug, Clone)]
pub struct NotificationFilter {
    /// Received from then on.
    pub since: Timestamp,
    /// Received before.
    pub until: Timestamp,
    /// Only in these states, words of the table.
    pub states: Option<Vec<String>>,
    /// Only of this portal.
    pub portal: Option<i64>,
    /// Only of this type.
    pub subscription_type: Option<String>,
}

/// A notification in a list; no value.
#[derive(Debug, Clone, Serialize)]
pub struct ListedNotification {
    /// Its key in hexadecimal digits.
    pub notification: String,
    /// Delivery that brought it first.
    pub delivery_id: Uuid,
    /// Place in that delivery, from 1.
    pub position: i32,
    /// When that delivery came.
    pub received_at: Timestamp,
    /// When it happened, by HubSpot's clock.
    pub occurred_at: Option<Timestamp>,
    /// Portal.
    pub portal_id: Option<i64>,
    /// Type, as sent.
    pub subscription_type: Option<String>,
    /// Object type.
    pub object_type: Option<String>,
    /// Record.
    pub object_id: Option<i64>,
    /// Property.
    pub property_name: Option<String>,
    /// What became of it.
    pub state: String,
    /// Why.
    pub reason: Option<String>,
}

/// How many notifications came to the same end.
#[derive(Debug, Clone, Serialize)]
pub struct NotificationCount {
    /// What became of them.
    pub state: String,
    /// Why.
    pub reason: Option<String>,
    /// Their type.
    pub subscription_type: Option<String>,
    /// How many.
    pub notifications: i64,
    /// In how many deliveries.
    pub deliveries: i64,
}

/// Where a replay is: behind this delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayPlace {
    /// When it came.
    pub received_at: Timestamp,
    /// The delivery.
    pub delivery_id: Uuid,
}

/// A page of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayedPage {
    /// Deliveries looked at.
    pub deliveries: i64,
    /// Notifications taken up again.
    pub notifications: i64,
    /// Events made.
    pub events: i64,
    /// Where it ends; `None`: nothing was left.
    pub end: Option<ReplayPlace>,
}

/// A notification that could not be read when it came.
#[derive(Clone)]
pub struct UnreadableNotification {
    /// Its key.
    pub key: Vec<u8>,
    /// Its JSON.
    pub raw: String,
    /// The app whose secret signed it.
    pub app_id: Option<i64>,
    /// When it came.
    pub received_at: Timestamp,
}

/// Notifications that match, those of the newest delivery first. Looks at the last hundred thousand deliveries of the time.
pub async fn list_notifications(
    client: &impl GenericClient,
    filter: &NotificationFilter,
    most: i64,
) -> Result<Vec<ListedNotification>, DbFailure> {
    const STATEMENT: &str = "list_notifications";
    let mut params = params(filter).to_vec();
    params.extend([(&MOST_LOOKED_AT as &(dyn ToSql + Sync), Type::INT8), (&most, Type::INT8)]);
    let rows = query(client, STATEMENT, include_str!("sql/list_notifications.sql"), &params).await?;
    rows.iter()
        .map(|row| {
            Ok(ListedNotification {
                notification: column(row, STATEMENT, "notification")?,
                delivery_id: column(row, STATEMENT, "delivery_id")?,
                position: column(row, STATEMENT, "position")?,
                received_at: column(row, STATEMENT, "received_at")?,
                occurred_at: column(row, STATEMENT, "occurred_at")?,
                portal_id: column(row, STATEMENT, "portal_id")?,
                subscription_type: column(row, STATEMENT, "subscription_type")?,
                object_type: column(row, STATEMENT, "object_type")?,
                object_id: column(row, STATEMENT, "object_id")?,
                property_name: column(row, STATEMENT, "property_name")?,
                state: column(row, STATEMENT, "state")?,
                reason: column(row, STATEMENT, "reason")?,
            })
        })
        .collect()
}

/// Counts notifications that match, the largest number first.
pub async fn count_notifications(
    client: &impl GenericClient,
    filter: &NotificationFilter,
) -> Result<Vec<NotificationCount>, DbFailure> {
    const STATEMENT: &str = "count_notifications";
    let rows = query(client, STATEMENT, include_str!("sql/count_notifications.sql"), &params(filter)).await?;
    rows.iter()
        .map(|row| {
            Ok(NotificationCount {
                state: column(row, STATEMENT, "state")?,
                reason: column(row, STATEMENT, "reason")?,
                subscription_type: column(row, STATEMENT, "subscription_type")?,
                notifications: column(row, STATEMENT, "notifications")?,
                deliveries: column(row, STATEMENT, "deliveries")?,
            })
        })
        .collect()
}

/// What is stored about a delivery; `None` when there is none, or none any more.
pub async fn show_delivery(
    client: &impl GenericClient,
    delivery: Uuid,
    values: bool,
) -> Result<Option<Value>, DbFailure> {
    const STATEMENT: &str = "show_delivery";
    let params: [(&(dyn ToSql + Sync), Type); 3] =
        [(&delivery, Type::UUID), (&values, Type::BOOL), (&MOST_SHOWN, Type::INT8)];
    let rows = query(client, STATEMENT, include_str!("sql/show_delivery.sql"), &params).await?;
    rows.first().map(|row| column(row, STATEMENT, "document")).transpose()
}

/// What is stored about a notification; `None` when there is none, or none any more.
pub async fn show_notification(
    client: &impl GenericClient,
    key: [u8; 32],
    values: bool,
) -> Result<Option<Value>, DbFailure> {
    const STATEMENT: &str = "show_notification";
    let params: [(&(dyn ToSql + Sync), Type); 2] = [(&&key[..], Type::BYTEA), (&values, Type::BOOL)];
    let rows = query(client, STATEMENT, include_str!("sql/show_notification.sql"), &params).await?;
    rows.first().map(|row| column(row, STATEMENT, "document")).transpose()
}

/// What could not be read when it came, of the next page of deliveries. The filter names states.
pub async fn unreadable_notifications(
    client: &impl GenericClient,
    filter: &NotificationFilter,
    after: Option<ReplayPlace>,
    deliveries: i64,
) -> Result<Vec<UnreadableNotification>, DbFailure> {
    const STATEMENT: &str = "unreadable_notifications";
    let (at, id) = after.map(|place| (place.received_at, place.delivery_id)).unzip();
    let mut params = params(filter).to_vec();
    let place: [(&(dyn ToSql + Sync), Type); 3] =
        [(&at, Type::TIMESTAMPTZ), (&id, Type::UUID), (&deliveries, Type::INT8)];
    params.extend(place);
    let rows = query(client, STATEMENT, include_str!("sql/unreadable_notifications.sql"), &params).await?;
    rows.iter()
        .map(|row| {
            Ok(UnreadableNotification {
                key: column(row, STATEMENT, "notification_key")?,
                raw: column(row, STATEMENT, "raw")?,
                app_id: column(row, STATEMENT, "app_id")?,
                received_at: column(row, STATEMENT, "received_at")?,
            })
        })
        .collect()
}

/// Puts what can be read by now in the place of what could not. It stays quarantined until it is replayed.
pub async fn take_up_parsed(client: &impl GenericClient, parsed: &[(Vec<u8>, Notification)]) -> Result<u64, DbFailure> {
    let rows: Vec<Value> = parsed
        .iter()
        .map(|(replaces, it)| {
            json!({
                "replaces": hex(replaces), "notification_key": hex(&it.key.0), "portal_id": it.portal_id, "app_id": it.app_id,
                "subscription_type": it.subscription_type, "object_type": it.object_type, "object_id": it.object_id,
                "property_name": it.property_name, "property_value": it.property_value, "occurred_at": it.occurred_at,
                "event_id": it.event_id, "change_source": it.change_source, "details": it.details,
            })
        })
        .collect();
    let sql = include_str!("sql/take_up_parsed.sql");
    execute(client, "take_up_parsed", sql, &[(&json!(rows), Type::JSONB)]).await
}

/// Takes up the notifications of the next page of deliveries once more, in one statement. The filter names states; `replay` tells
/// the events of one replay from those of another.
pub async fn replay_notifications(
    client: &impl GenericClient,
    filter: &NotificationFilter,
    after: Option<ReplayPlace>,
    deliveries: i64,
    replay: Uuid,
) -> Result<ReplayedPage, DbFailure> {
    const STATEMENT: &str = "replay_notifications";
    let (at, id) = after.map(|place| (place.received_at, place.delivery_id)).unzip();
    let mut params = params(filter).to_vec();
    let place: [(&(dyn ToSql + Sync), Type); 4] =
        [(&at, Type::TIMESTAMPTZ), (&id, Type::UUID), (&deliveries, Type::INT8), (&replay, Type::UUID)];
    params.extend(place);
    let rows = query(client, STATEMENT, include_str!("sql/replay_notifications.sql"), &params).await?;
    let row = rows.first().ok_or(DbFailure::Unreadable { statement: STATEMENT, cause: "no row".into() })?;
    let end: (Option<Timestamp>, Option<Uuid>) =
        (column(row, STATEMENT, "received_at")?, column(row, STATEMENT, "delivery_id")?);
    Ok(ReplayedPage {
        deliveries: column(row, STATEMENT, "deliveries")?,
        notifications: column(row, STATEMENT, "notifications")?,
        events: column(row, STATEMENT, "events")?,
        end: end.0.zip(end.1).map(|(received_at, delivery_id)| ReplayPlace { received_at, delivery_id }),
    })
}

fn params(filter: &NotificationFilter) -> [(&(dyn ToSql + Sync), Type); 5] {
    [
        (&filter.since, Type::TIMESTAMPTZ),
        (&filter.until, Type::TIMESTAMPTZ),
        (&filter.states, Type::TEXT_ARRAY),
        (&filter.portal, Type::INT8),
        (&filter.subscription_type, Type::TEXT),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
