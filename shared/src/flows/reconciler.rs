//! Rescues what expired and republishes what was orphaned.
//!
//! Runs every five minutes. Takes no input and repairs what it finds; two runs at once skip each other's rows. Bounded by
//! rows a statement and by time.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::adapters::db::{self, Db};
use crate::failpoint::failpoint;

use super::dispatcher::report_dead;

/// Rows of one statement: short enough to hold no lock for long.
const ROWS_PER_STATEMENT: u32 = 1000;

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
    /// The run ended by time, and not because nothing was left.
    pub ran_out_of_time: bool,
}

impl Reconciler {
    /// Repairs until nothing is left or the deadline is near.
    pub async fn run(&self, deadline: Instant) -> anyhow::Result<ReconcileSummary> {
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
            summary.republished += republished;
            let full = u64::from(ROWS_PER_STATEMENT);
            if rescued.publishing + rescued.processing < full && republished < full {
                return Ok(summary);
            }
        }
    }
}
