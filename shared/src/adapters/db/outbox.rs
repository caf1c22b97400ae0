//! The outbox as dispatcher and reconciler see it: a verb a statement.

use std::time::Duration;

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::failure::DbFailure;
use super::pool::{column, execute, query};
use crate::model::ids::{EventId, LeaseToken};
use crate::model::outcome::DEFAULT_MAX_ATTEMPTS;
use crate::model::pacing::{CRASH_WAIT, LONGEST_CRASH_WAIT, Pace};
use crate::model::subscription::EventLane;
use crate::model::suspects::CRASHES_UNTIL_ALONE;

/// An event that is to be published now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueEvent {
    /// The event.
    pub event_id: EventId,
    /// Which queue it goes to.
    pub lane: EventLane,
    /// Message group, so that brands share the workers fairly.
    pub brand: String,
    /// W3C trace context from acceptance.
    pub traceparent: Option<String>,
    /// Publishing attempts that SQS refused so far.
    pub publish_attempts: i32,
}

/// An event that SQS did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpublished {
    /// The event.
    pub event_id: EventId,
    /// When to try again; `None` when it never will be.
    pub due_in: Option<Duration>,
    /// Whether it counts as a publishing attempt.
    pub charged: bool,
    /// Why, as a stable word.
    pub code: &'static str,
}

/// Events whose owner did not come back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rescued {
    /// How many a dispatcher had.
    pub publishing: u64,
    /// How many a worker had.
    pub processing: u64,
    /// Those among them that have had their last attempt.
    pub dead: Vec<EventId>,
}

/// Claims what is due, portal by portal and lane by lane, bulk work only as far as its portal's budget reaches.
pub async fn claim_due(
    client: &impl GenericClient,
    token: LeaseToken,
    lease: Duration,
    pace: &Pace,
) -> Result<Vec<DueEvent>, DbFailure> {
    const STATEMENT: &str = "claim_due";
    let rows = query(
        client,
        STATEMENT,
        include_str!("sql/claim_due.sql"),
        &[
            (&token.0, Type::UUID),
            (&millis(lease), Type::INT8),
            (&i64::from(pace.events_per_portal_and_lane), Type::INT8),
            (&millis(pace.bulk_ahead), Type::INT8),
            (&i64::from(pace.bulk_events_per_100_calls), Type::INT8),
            (&i64::from(pace.single_events_per_100_calls), Type::INT8),
            (&millis(pace.back_from_pause), Type::INT8),
            (&i64::from(pace.first_after_pause), Type::INT8),
        ],
    )
    .await?;
    rows.iter()
        .map(|row| {
            let lane: String = column(row, STATEMENT, "lane")?;
            Ok(DueEvent {
                event_id: EventId(column(row, STATEMENT, "event_id")?),
                lane: EventLane::parse(&lane)
                    .ok_or_else(|| DbFailure::Unreadable { statement: STATEMENT, cause: "column lane".into() })?,
                brand: column(row, STATEMENT, "brand")?,
                traceparent: column(row, STATEMENT, "traceparent")?,
                publish_attempts: column(row, STATEMENT, "publish_attempts")?,
            })
        })
        .collect()
}

/// Marks what SQS took, in one statement. Returns how many were still ours to mark: a worker may have been faster.
pub async fn mark_queued(
    client: &impl GenericClient,
    token: LeaseToken,
    sent: &[(EventId, String)],
) -> Result<u64, DbFailure> {
    let (event_ids, message_ids): (Vec<Uuid>, Vec<&str>) =
        sent.iter().map(|(event, message)| (event.0, message.as_str())).unzip();
    execute(
        client,
        "mark_queued",
        include_str!("sql/mark_queued.sql"),
        &[(&token.0, Type::UUID), (&event_ids, Type::UUID_ARRAY), (&message_ids, Type::TEXT_ARRAY)],
    )
    .await
}

/// Returns what SQS did not take to the waiting line, or ends it. Returns how many were still ours.
pub async fn return_unpublished(
    client: &impl GenericClient,
    token: LeaseToken,
    refused: &[Unpublished],
) -> Result<u64, DbFailure> {
    let event_ids: Vec<Uuid> = refused.iter().map(|event| event.event_id.0).collect();
    let due_in: Vec<Option<i64>> = refused.iter().map(|event| event.due_in.map(millis)).collect();
    let charged: Vec<bool> = refused.iter().map(|event| event.charged).collect();
    let codes: Vec<&str> = refused.iter().map(|event| event.code).collect();
    execute(
        client,
        "return_unpublished",
        include_str!("sql/return_unpublished.sql"),
        &[
            (&token.0, Type::UUID),
            (&event_ids, Type::UUID_ARRAY),
            (&due_in, Type::INT8_ARRAY),
            (&charged, Type::BOOL_ARRAY),
            (&codes, Type::TEXT_ARRAY),
        ],
    )
    .await
}

/// Rescues events whose lease expired.
pub async fn rescue_expired(client: &impl GenericClient, most: u32) -> Result<Rescued, DbFailure> {
    const STATEMENT: &str = "rescue_expired";
    let rows = query(
        client,
        STATEMENT,
        include_str!("sql/rescue_expired.sql"),
        &[
            (&i64::from(most), Type::INT8),
            (&i32::try_from(DEFAULT_MAX_ATTEMPTS).unwrap_or(i32::MAX), Type::INT4),
            (&CRASHES_UNTIL_ALONE, Type::INT4),
            (&millis(CRASH_WAIT), Type::INT8),
            (&millis(LONGEST_CRASH_WAIT), Type::INT8),
        ],
    )
    .await?;
    let mut rescued = Rescued::default();
    for row in &rows {
        match column::<&str>(row, STATEMENT, "status")? {
            "publishing" => rescued.publishing += 1,
            _ => rescued.processing += 1,
        }
        if column::<&str>(row, STATEMENT, "now_is")? == "dead" {
            rescued.dead.push(EventId(column(row, STATEMENT, "event_id")?));
        }
    }
    Ok(rescued)
}

/// Republishes events that stayed queued for longer than `too_long`; returns how many.
pub async fn republish_orphans(client: &impl GenericClient, too_long: Duration, most: u32) -> Result<u64, DbFailure> {
    execute(
        client,
        "republish_orphans",
        include_str!("sql/republish_orphans.sql"),
        &[(&millis(too_long), Type::INT8), (&i64::from(most), Type::INT8)],
    )
    .await
}

/// A duration as the statements take it. Saturates, which no configured duration comes near.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
