//! Portals that are paused: nothing is published for them, and what is claimed all the same waits.

use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::failure::DbFailure;
use super::outbox::millis;
use super::pool::{column, execute, query};
use crate::model::ids::PortalId;

/// What a resume came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumed {
    /// The portal was paused until now.
    pub was_paused: bool,
    /// Events that waited for their time, and are due now.
    pub events: i64,
    /// Calls in any rolling window.
    pub call_limit: u32,
    /// Length of that window.
    pub call_window: Duration,
}

/// Pauses a portal for at least this long: nothing is published for it, and claimed events are snoozed. A longer pause
/// that is there already stays.
pub async fn pause_portal(
    client: &impl GenericClient,
    portal: PortalId,
    pause: Duration,
    reason: &str,
) -> Result<(), DbFailure> {
    let sql = include_str!("sql/pause_portal.sql");
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&portal.0, Type::INT8), (&millis(pause), Type::INT8), (&reason, Type::TEXT)];
    execute(client, "pause_portal", sql, &params).await.map(drop)
}

/// Pauses a portal until this instant, whether it is paused already or not: a person decides. Returns whether there is such
/// a portal.
pub async fn pause_portal_until(
    client: &impl GenericClient,
    portal: PortalId,
    until: Timestamp,
    reason: &str,
) -> Result<bool, DbFailure> {
    let sql = "update hubferry.portals set paused_until = $2, paused_reason = $3, updated_at = clock_timestamp()
               where portal_id = $1";
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&portal.0, Type::INT8), (&until, Type::TIMESTAMPTZ), (&reason, Type::TEXT)];
    Ok(execute(client, "pause_portal_until", sql, &params).await? == 1)
}

/// Ends a portal's pause now, and makes due what waits for its time. The portal comes back step by step, as after a pause that
/// ended by itself. `None`: there is no such portal.
pub async fn resume_portal(client: &impl GenericClient, portal: PortalId) -> Result<Option<Resumed>, DbFailure> {
    const STATEMENT: &str = "resume_portal";
    let rows = query(client, STATEMENT, include_str!("sql/resume_portal.sql"), &[(&portal.0, Type::INT8)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Resumed {
        was_paused: column(row, STATEMENT, "was_paused")?,
        events: column(row, STATEMENT, "events")?,
        call_limit: column::<i32>(row, STATEMENT, "call_limit")?.unsigned_abs(),
        call_window: Duration::from_millis(column::<i32>(row, STATEMENT, "call_window_ms")?.unsigned_abs().into()),
    }))
}
