//! Claims, applies and finishes events: all others first, then those that workers may have died of.

use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::adapters::db::{self, ClaimedBatch};
use crate::failpoint::{failpoint, scaled};
use crate::model::ids::{EventId, LeaseToken};
use crate::model::pacing::WORK_LEASE;
use crate::model::suspects::take_turns;

use super::lease::Lease;
use super::{Worker, WorkerSummary};

/// Kept free at the end of an invocation for finishing.
const FINISH_TIME: Duration = Duration::from_secs(5);

/// An event whose contact another worker holds waits this long, at least and at most.
const BUSY_SNOOZE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(4));

/// A suspect that came with others waits this long for its next turn, at least and at most: spread, so that they do not all
/// come together again.
const SUSPECT_SNOOZE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(4));

/// The lease under which a claim is made, and since when it lasts at the earliest.
struct Claim {
    token: LeaseToken,
    at: Instant,
}

impl Claim {
    fn now() -> Self {
        Self { token: LeaseToken(Uuid::new_v4()), at: Instant::now() }
    }
}

impl Worker {
    /// Claims, applies and finishes these events. Returns what came of it, and the ids that no row belongs to.
    ///
    /// Suspects come when all others are finished, so that a worker that dies of one takes few with it.
    pub async fn work(&self, events: &[EventId], deadline: Instant) -> anyhow::Result<(WorkerSummary, Vec<EventId>)> {
        if events.is_empty() {
            return Ok((WorkerSummary::default(), Vec::new()));
        }
        let claim = Claim::now();
        let mut batch = {
            let connection = self.db.connection().await?;
            db::claim_batch(&*connection, events, claim.token, scaled(WORK_LEASE), BUSY_SNOOZE).await?
        };
        let unknown = batch.unknown.clone();
        let (suspects, later) = take_turns(std::mem::take(&mut batch.suspects));
        self.defer(&later).await;
        let mut summary = self.work_claimed(batch, claim, deadline).await?;
        summary.deferred = later.len() as u64;
        if !suspects.is_empty() {
            summary.add(&self.work_suspects(&suspects, deadline).await?);
        }
        Ok((summary, unknown))
    }

    async fn work_suspects(&self, suspects: &[EventId], deadline: Instant) -> anyhow::Result<WorkerSummary> {
        tracing::warn!(
            events.suspects = suspects.len(),
            "Workers did not come back that held these events; they are worked apart from all others."
        );
        let claim = Claim::now();
        let batch = {
            let connection = self.db.connection().await?;
            db::claim_suspects(&*connection, suspects, claim.token, scaled(WORK_LEASE), BUSY_SNOOZE).await?
        };
        self.work_claimed(batch, claim, deadline).await
    }

    async fn work_claimed(
        &self,
        batch: ClaimedBatch,
        claim: Claim,
        deadline: Instant,
    ) -> anyhow::Result<WorkerSummary> {
        failpoint!("worker.after_claim", batch.event_ids());
        let mut summary = WorkerSummary::of(&batch);
        let lease = Lease::new(claim.token, claim.at, &batch);
        let deadline = deadline.checked_sub(FINISH_TIME).unwrap_or(claim.at);
        lease.renewed_during(&self.db, self.apply(batch, &lease, deadline, &mut summary)).await?;
        Ok(summary)
    }

    /// Before anything is worked: a worker that dies charges only what it holds. Those that can't be put off are published
    /// again when they have been queued for too long.
    async fn defer(&self, later: &[EventId]) {
        if later.is_empty() {
            return;
        }
        let deferring = async {
            let connection = self.db.connection().await?;
            db::defer_suspects(&*connection, later, SUSPECT_SNOOZE).await
        };
        if let Err(error) = deferring.await {
            tracing::warn!(error = %error, events.deferred = later.len(), "Events could not be put off.");
        }
    }
}
