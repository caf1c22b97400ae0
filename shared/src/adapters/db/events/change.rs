//! Cancels and replays events, and says beforehand what would become of them. At most [`MOST_CHANGED`](super::MOST_CHANGED)
//! events a call, each for itself.

use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::super::failure::DbFailure;
use super::super::pool::{column, query};
use super::{ChangedEvent, Refused};
use crate::model::ids::EventId;
use crate::model::subscription::EventLane;

/// Under which mapping a decision is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayedMapping {
    /// The one that the dead event carries.
    Same,
    /// The one that is active now.
    Current,
}

impl ReplayedMapping {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Current => "current",
        }
    }
}

/// What a replay of these events would come to. Changes nothing, and holds for this moment.
pub async fn judge_replays(
    client: &impl GenericClient,
    events: &[EventId],
    mapping: ReplayedMapping,
) -> Result<Vec<ChangedEvent>, DbFailure> {
    const STATEMENT: &str = "judge_replays";
    let sql = "select event_id, status, refusal, other_event_id, null::uuid as replay_id, null::bigint as sequence
               from hubferry.judge_replays($1, $2) order by event_id";
    let rows =
        query(client, STATEMENT, sql, &[(&ids(events), Type::UUID_ARRAY), (&mapping.as_str(), Type::TEXT)]).await?;
    rows.iter().map(|row| changed(row, STATEMENT)).collect()
}

/// Replays dead events: one answer an event, in the order of their ids. `lane` is where the new events go; `None` keeps each
/// one's own.
pub async fn replay_events(
    client: &impl GenericClient,
    events: &[EventId],
    mapping: ReplayedMapping,
    lane: Option<EventLane>,
) -> Result<Vec<ChangedEvent>, DbFailure> {
    const STATEMENT: &str = "replay_events";
    let sql = "select * from hubferry.replay_events($1, $2, $3)";
    let rows = query(
        client,
        STATEMENT,
        sql,
        &[
            (&ids(events), Type::UUID_ARRAY),
            (&mapping.as_str(), Type::TEXT),
            (&lane.map(EventLane::as_str), Type::TEXT),
        ],
    )
    .await?;
    rows.iter().map(|row| changed(row, STATEMENT)).collect()
}

/// What cancelling these events would come to. Changes nothing, and holds for this moment.
pub async fn judge_cancels(client: &impl GenericClient, events: &[EventId]) -> Result<Vec<ChangedEvent>, DbFailure> {
    let sql = "select event_id, status, refusal, other_event_id, null::uuid as replay_id, null::bigint as sequence
               from hubferry.judge_cancels($1) order by event_id";
    cancel(client, "judge_cancels", sql, events).await
}

/// Stops events for good: one answer an event, in the order of their ids. A worker that holds one can't finish it any more.
pub async fn cancel_events(client: &impl GenericClient, events: &[EventId]) -> Result<Vec<ChangedEvent>, DbFailure> {
    let sql = "select event_id, status, refusal, other_event_id, null::uuid as replay_id, null::bigint as sequence
               from hubferry.cancel_events($1)";
    cancel(client, "cancel_events", sql, events).await
}

async fn cancel(
    client: &impl GenericClient,
    statement: &'static str,
    sql: &str,
    events: &[EventId],
) -> Result<Vec<ChangedEvent>, DbFailure> {
    let rows = query(client, statement, sql, &[(&ids(events), Type::UUID_ARRAY)]).await?;
    rows.iter().map(|row| changed(row, statement)).collect()
}

fn ids(events: &[EventId]) -> Vec<Uuid> {
    events.iter().map(|event| event.0).collect()
}

fn changed(row: &Row, statement: &'static str) -> Result<ChangedEvent, DbFailure> {
    let refusal = column::<Option<&str>>(row, statement, "refusal")?;
    let unreadable = || DbFailure::Unreadable { statement, cause: "column refusal".into() };
    Ok(ChangedEvent {
        event_id: EventId(column(row, statement, "event_id")?),
        status: column(row, statement, "status")?,
        refusal: refusal.map(|word| Refused::parse(word).ok_or_else(unreadable)).transpose()?,
        other_event_id: column::<Option<Uuid>>(row, statement, "other_event_id")?.map(EventId),
        replay_id: column::<Option<Uuid>>(row, statement, "replay_id")?.map(EventId),
        sequence: column(row, statement, "sequence")?,
    })
}
