//! Reads events: lists, counts, and everything about one.

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::super::failure::DbFailure;
use super::super::pool::{column, query};
use super::{EventCount, EventFilter, ListedEvent};
use crate::model::ids::{EventId, PortalId};

/// Events that ended are looked through this far back: a filter that matches few of millions does not read them all.
const FINISHED_LOOKED_AT: i64 = 100_000;

/// Newer events that are shown beside one; whoever has more of them looks at the last one.
const NEWER_SHOWN: i64 = 20;

/// Events that are not finished or dead, the oldest first, behind this one. `statuses` are words of the table.
pub async fn list_open_events(
    client: &impl GenericClient,
    statuses: &[&str],
    filter: &EventFilter,
    after: Option<&ListedEvent>,
    most: usize,
) -> Result<Vec<ListedEvent>, DbFailure> {
    const STATEMENT: &str = "list_open_events";
    let place: (Option<Timestamp>, Option<Uuid>) = after.map(|event| (event.accepted_at, event.event_id.0)).unzip();
    let rows = query(
        client,
        STATEMENT,
        include_str!("../sql/list_open_events.sql"),
        &[
            (&statuses, Type::TEXT_ARRAY),
            (&filter.to_json(), Type::JSONB),
            (&place.0, Type::TIMESTAMPTZ),
            (&place.1, Type::UUID),
            (&rows_of(most), Type::INT8),
        ],
    )
    .await?;
    rows.iter().map(|row| listed(row, STATEMENT)).collect()
}

/// Events that ended, the newest first. `statuses` are words of the table. Looks at the last hundred thousand and no further.
pub async fn list_finished_events(
    client: &impl GenericClient,
    statuses: &[&str],
    filter: &EventFilter,
    most: usize,
) -> Result<Vec<ListedEvent>, DbFailure> {
    const STATEMENT: &str = "list_finished_events";
    let rows = query(
        client,
        STATEMENT,
        include_str!("../sql/list_finished_events.sql"),
        &[
            (&statuses, Type::TEXT_ARRAY),
            (&filter.to_json(), Type::JSONB),
            (&FINISHED_LOOKED_AT, Type::INT8),
            (&rows_of(most), Type::INT8),
        ],
    )
    .await?;
    rows.iter().map(|row| listed(row, STATEMENT)).collect()
}

/// Counts events that are not finished or dead, the largest number first.
pub async fn count_open_events(
    client: &impl GenericClient,
    statuses: &[&str],
    filter: &EventFilter,
) -> Result<Vec<EventCount>, DbFailure> {
    const STATEMENT: &str = "count_open_events";
    let sql = include_str!("../sql/count_open_events.sql");
    let rows =
        query(client, STATEMENT, sql, &[(&statuses, Type::TEXT_ARRAY), (&filter.to_json(), Type::JSONB)]).await?;
    rows.iter()
        .map(|row| {
            Ok(EventCount {
                status: column(row, STATEMENT, "status")?,
                brand: column(row, STATEMENT, "brand")?,
                code: column(row, STATEMENT, "last_error_code")?,
                events: column(row, STATEMENT, "events")?,
            })
        })
        .collect()
}

/// Everything that is stored about an event, by its own id or its request's, as a document; `None` when there is none.
/// Address, properties and the wording of the consent are in it only if `personal`.
pub async fn show_event(client: &impl GenericClient, id: Uuid, personal: bool) -> Result<Option<Value>, DbFailure> {
    const STATEMENT: &str = "show_event";
    let sql = include_str!("../sql/show_event.sql");
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&id, Type::UUID), (&personal, Type::BOOL), (&NEWER_SHOWN, Type::INT8)];
    let rows = query(client, STATEMENT, sql, &params).await?;
    rows.first().map(|row| column(row, STATEMENT, "document")).transpose()
}

fn listed(row: &Row, statement: &'static str) -> Result<ListedEvent, DbFailure> {
    let status: String = column(row, statement, "status")?;
    let waits = matches!(status.as_str(), "pending" | "retry");
    let due_at: Timestamp = column(row, statement, "next_attempt_at")?;
    Ok(ListedEvent {
        event_id: EventId(column(row, statement, "event_id")?),
        kind: column(row, statement, "kind")?,
        portal_id: PortalId(column(row, statement, "portal_id")?),
        brand: column(row, statement, "brand")?,
        product: column(row, statement, "product")?,
        lane: column(row, statement, "lane")?,
        sequence: column(row, statement, "sequence")?,
        status,
        publish_attempts: column(row, statement, "publish_attempts")?,
        process_attempts: column(row, statement, "process_attempts")?,
        code: column(row, statement, "last_error_code")?,
        summary: column(row, statement, "last_error_summary")?,
        accepted_at: column(row, statement, "created_at")?,
        due_at: waits.then_some(due_at),
        finished_at: column(row, statement, "finished_at")?,
        replays: column::<Option<Uuid>>(row, statement, "replays")?.map(EventId),
        replayed_as: column::<Option<Uuid>>(row, statement, "replayed_as")?.map(EventId),
    })
}

fn rows_of(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}
