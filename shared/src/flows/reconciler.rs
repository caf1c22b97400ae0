//! Rescues what expired and republishes what was orphaned.
//!
//! Runs every five minutes. Takes no input and repairs what it finds; two runs at once skip each other's rows. Bounded by
//! rows a statement and by time.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::adapters::db::{self, Db};
use crate::adapters::sqs::Sqs;
use crate::failpoint::failpoint;

use super::dispatcher::report_dead;

/// Rows of one statement: short enough to hold no lock for long.
const ROWS_PER_STATEMENT: u32 = 1000;

/// Deliveries of one statement: with up to a hundred notifications each.
const DELIVERIES_PER_STATEMENT: u32 = 100;

/// How long the bytes of a delivery are kept, to see what HubSpot sent. They hold what contacts typed.
pub const BODIES_KEPT_FOR: Duration = Duration::from_hours(7 * 24);

/// How long a delivery and its notifications are kept, to be listed and worked again. Far longer than the day for which
/// HubSpot may send one again.
pub const DELIVERIES_KEPT_FOR: Duration = Duration::from_hours(30 * 24);

/// A statement is not begun later than this before the deadline.
const STATEMENT_TIME: Duration = Duration::from_secs(10);

/// Queued for longer than this, an event's message is lost: bulk work is published half a minute ahead, so nothing waits
/// in SQS for minutes unless no worker runs, and then another message does no harm.
pub const QUEUED_TOO_LONG: Duration = Duration::from_mins(5);

/// What the reconciler works with. Built once.
#[derive(Debug, Clone)]
pub struct Reconciler {
    /// The outbox.
    pub db: Db,
    /// The queues, to see what lies in their dead-letter queues. `None`: nobody looks.
    pub queues: Option<Sqs>,
    /// After how long a queued event counts as orphaned.
    pub queued_too_long: Duration,
}

/// What a run repaired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ReconcileSummary {
    /// Events whose dispatcher did not come back.
    pub rescued_publishing: u64,
    /// Events whose worker did not come back.
    pub rescued_processing: u64,
    /// Those among them that have had their last attempt.
    pub died: u64,
    /// Events whose message was lost.
    pub republished: u64,
    /// Notes of own writes whose echo does not come any more.
    pub forgotten_writes: u64,
    /// Deliveries of webhooks whose bytes were taken away.
    pub forgotten_bodies: u64,
    /// Deliveries of webhooks that were deleted with their notifications.
    pub deleted_deliveries: u64,
    /// Messages in the dead-letter queues, as far as SQS said so.
    pub dead_letters: u64,
    /// The run ended by time, and not because nothing was left.
    pub ran_out_of_time: bool,
}

impl Reconciler {
    /// Repairs until nothing is left or the deadline is near.
    pub async fn run(&self, deadline: Instant) -> anyhow::Result<ReconcileSummary> {
        let (repaired, dead_letters) = tokio::join!(self.repair(deadline), self.report_dead_letters());
        Ok(ReconcileSummary { dead_letters, ..repaired? })
    }

    async fn repair(&self, deadline: Instant) -> anyhow::Result<ReconcileSummary> {
        let connection = self.db.connection().await?;
        let mut summary = ReconcileSummary::default();
        loop {
            if Instant::now() + STATEMENT_TIME > deadline {
                summary.ran_out_of_time = true;
                return Ok(summary);
            }
            let rescued = db::rescue_expired(&*connection, ROWS_PER_STATEMENT).await?;
            report_dead(&rescued);
            failpoint!("reconciler.while_rescuing");
            let republished = db::republish_orphans(&*connection, self.queued_too_long, ROWS_PER_STATEMENT).await?;
            summary.rescued_publishing += rescued.publishing;
            summary.rescued_processing += rescued.processing;
            summary.died += rescued.dead.len() as u64;
            let forgotten = db::forget_written_values(&*connection, ROWS_PER_STATEMENT.into()).await?;
            summary.republished += republished;
            summary.forgotten_writes += forgotten;
            let has_old_deliveries = prune_deliveries(&connection, &mut summary).await?;
            let full = u64::from(ROWS_PER_STATEMENT);
            let is_done = rescued.publishing + rescued.processing < full && republished < full && forgotten < full;
            if is_done && !has_old_deliveries {
                return Ok(summary);
            }
        }
    }
}

impl Reconciler {
    /// Nothing takes a message out of a dead-letter queue by itself, so a person has to hear of it.
    async fn report_dead_letters(&self) -> u64 {
        let Some(queues) = &self.queues else { return 0 };
        let found = queues.dead_letters().await;
        for queue in &found {
            let (name, messages) = (queue.queue.as_deref().unwrap_or_default(), queue.messages.unwrap_or_default());
            if messages > 0 {
                tracing::warn!(queue = name, messages, "Messages lie in a dead-letter queue.");
            }
        }
        found.iter().filter_map(|queue| queue.messages).sum()
    }
}

/// Prunes what webhooks left. Returns whether there may be more.
async fn prune_deliveries(connection: &db::Connection, summary: &mut ReconcileSummary) -> anyhow::Result<bool> {
    let most = DELIVERIES_PER_STATEMENT.into();
    let forgotten = db::forget_webhook_bodies(&**connection, BODIES_KEPT_FOR, most).await?;
    let deleted = db::delete_webhook_deliveries(&**connection, DELIVERIES_KEPT_FOR, most).await?;
    summary.forgotten_bodies += forgotten;
    summary.deleted_deliveries += deleted;
    let full = u64::from(DELIVERIES_PER_STATEMENT);
    Ok(forgotten == full || deleted == full)
}
