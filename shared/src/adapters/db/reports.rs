//! What people and dashboards ask.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::GenericClient;

use super::failure::DbFailure;
use super::pool::{column, query};
use crate::model::ids::PortalId;

/// How a portal is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PortalStatus {
    /// The account.
    pub portal_id: PortalId,
    /// Its name, for people.
    pub name: String,
    /// `live` or `off`.
    pub mode: String,
    /// Until when it is paused, and why.
    pub paused_until: Option<Timestamp>,
    /// Why it is paused.
    pub paused_reason: Option<String>,
    /// Accepted, not published yet.
    pub pending: i64,
    /// Being published.
    pub publishing: i64,
    /// SQS has them.
    pub queued: i64,
    /// A worker has them.
    pub processing: i64,
    /// Waiting for their time.
    pub retry: i64,
    /// HubSpot agrees; in the last hour.
    pub synced_last_hour: i64,
    /// Ended by a newer state; in the last hour.
    pub superseded_last_hour: i64,
    /// Stopped by a person; in the last hour.
    pub cancelled_last_hour: i64,
    /// A person has to look.
    pub dead: i64,
    /// Age of the oldest event that is not finished, in milliseconds.
    pub oldest_age_ms: Option<i64>,
}

impl PortalStatus {
    /// Events that are not finished.
    pub const fn unfinished(&self) -> i64 {
        self.pending + self.publishing + self.queued + self.processing + self.retry
    }

    /// Age of the oldest event that is not finished.
    pub fn oldest_age(&self) -> Option<Duration> {
        self.oldest_age_ms.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
    }
}

/// What tells this database from every other: its name, and the moment its first migration was applied.
///
/// Work that is kept in a file and continued later asks for it, so that it never continues in another database.
pub async fn database_identity(client: &impl GenericClient) -> Result<String, DbFailure> {
    const STATEMENT: &str = "database_identity";
    let sql =
        "select current_database() || ' ' || coalesce(min(applied_on), '') as identity from hubferry.schema_history";
    let rows = query(client, STATEMENT, sql, &[]).await?;
    rows.first().map_or(Ok(String::new()), |row| column(row, STATEMENT, "identity"))
}

/// How every portal is doing.
pub async fn status_counts(client: &impl GenericClient) -> Result<Vec<PortalStatus>, DbFailure> {
    const STATEMENT: &str = "status_counts";
    let rows = query(client, STATEMENT, include_str!("sql/status_counts.sql"), &[]).await?;
    rows.iter()
        .map(|row| {
            let count = |name| column::<i64>(row, STATEMENT, name);
            Ok(PortalStatus {
                portal_id: PortalId(column(row, STATEMENT, "portal_id")?),
                name: column(row, STATEMENT, "name")?,
                mode: column(row, STATEMENT, "mode")?,
                paused_until: column(row, STATEMENT, "paused_until")?,
                paused_reason: column(row, STATEMENT, "paused_reason")?,
                pending: count("pending")?,
                publishing: count("publishing")?,
                queued: count("queued")?,
                processing: count("processing")?,
                retry: count("retry")?,
                synced_last_hour: count("synced")?,
                superseded_last_hour: count("superseded")?,
                cancelled_last_hour: count("cancelled")?,
                dead: count("dead")?,
                oldest_age_ms: column(row, STATEMENT, "oldest_age_ms")?,
            })
        })
        .collect()
}
