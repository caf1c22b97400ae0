//! Carries decisions to HubSpot: open, claim, plan, reserve, apply, finish.
//!
//! A batch is one unit. It costs a constant number of database round trips whatever its size: one to claim, at most two
//! about opt-outs and one to finish for each portal; and one every few seconds to renew its leases. Messages are acknowledged as soon as the
//! rows say what happens next.

mod apply;
mod calls;
mod consent;
mod lease;
mod links;
mod portal;
mod verdict;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use futures::future::join_all;
use serde::Serialize;
use uuid::Uuid;

use crate::adapters::budget::Budget;
use crate::adapters::db::{
    self, ClaimedBatch, ContactRelease, Db, DbFailure, FinishedEvent, Receipt, Verdict, VerdictStatus,
};
use crate::adapters::hubspot::HubSpot;
use crate::config::HubSpotTokens;
use crate::failpoint::{failpoint, scaled};
use crate::model::envelope::{OpenError, SigningKeys, open};
use crate::model::ids::{EventId, LeaseToken};
use crate::model::pacing::WORK_LEASE;

use lease::Lease;
use portal::PortalOutcome;

/// Kept free at the end of an invocation for finishing.
const FINISH_TIME: Duration = Duration::from_secs(5);

/// An event whose contact another worker holds waits this long, at least and at most.
const BUSY_SNOOZE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(4));

/// A message may arrive before its transaction is visible; after this many deliveries there is no such event.
const MOST_UNKNOWN_DELIVERIES: u32 = 3;

/// Tries to finish: what HubSpot did should not be lost to a blink of the database.
const FINISH_TRIES: u32 = 3;

/// Between two tries to finish.
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

/// What a worker works with. Built once.
#[derive(Debug, Clone)]
pub struct Worker {
    /// The outbox.
    pub db: Db,
    /// Calls that may be made.
    pub budget: Budget,
    /// The client.
    pub hubspot: HubSpot,
    /// Access tokens.
    pub tokens: HubSpotTokens,
    /// Keys that open envelopes.
    pub keys: SigningKeys,
}

/// What a batch came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WorkerSummary {
    /// Messages received.
    pub messages: u64,
    /// Messages that were no envelopes of ours. They are acknowledged and touch no event.
    pub quarantined: u64,
    /// Events claimed.
    pub claimed: u64,
    /// HubSpot agrees.
    pub synced: u64,
    /// A newer state took over, or HubSpot knew better.
    pub superseded: u64,
    /// They wait, and it counted.
    pub retried: u64,
    /// They wait, and it did not count.
    pub snoozed: u64,
    /// A person has to look.
    pub dead: u64,
    /// Held by another worker; snoozed.
    pub busy: u64,
    /// Nothing to do: waiting for their time, or finished.
    pub settled: u64,
    /// No such event.
    pub unknown: u64,
    /// Another owner had them by the time of finishing.
    pub lost: u64,
    /// Calls made.
    pub calls: u64,
}

/// A message that holds an envelope of ours.
struct Opened {
    message_id: String,
    deliveries: u32,
    event_id: EventId,
}

impl Worker {
    /// Handles a batch of messages before the deadline; names those that are to be delivered again.
    ///
    /// Errors: the database is away. Then the whole batch is delivered again.
    pub async fn handle(
        &self,
        event: SqsEvent,
        deadline: Instant,
    ) -> anyhow::Result<(SqsBatchResponse, WorkerSummary)> {
        let messages = event.records.len() as u64;
        let opened = self.open_all(event.records);
        let events: Vec<EventId> = opened.iter().map(|message| message.event_id).collect();
        let (mut summary, unknown) = self.work(&events, deadline).await?;
        summary.messages = messages;
        summary.quarantined = messages - opened.len() as u64;

        let mut response = SqsBatchResponse::default();
        for message in opened.iter().filter(|message| unknown.contains(&message.event_id)) {
            if message.deliveries < MOST_UNKNOWN_DELIVERIES {
                response.add_failure(message.message_id.clone());
            } else {
                tracing::warn!(event.id = %message.event_id, "A message names no event of this outbox; acknowledged.");
            }
        }
        Ok((response, summary))
    }

    /// Claims, applies and finishes these events. Returns what came of it, and the ids that no row belongs to.
    pub async fn work(&self, events: &[EventId], deadline: Instant) -> anyhow::Result<(WorkerSummary, Vec<EventId>)> {
        if events.is_empty() {
            return Ok((WorkerSummary::default(), Vec::new()));
        }
        let token = LeaseToken(Uuid::new_v4());
        let claimed_at = Instant::now();
        let batch = {
            let connection = self.db.connection().await?;
            db::claim_batch(&*connection, events, token, scaled(WORK_LEASE), BUSY_SNOOZE).await?
        };
        failpoint!("worker.after_claim");
        let unknown = batch.unknown.clone();
        let mut summary = WorkerSummary::of(&batch);
        let lease = Lease::new(token, claimed_at, &batch);
        let deadline = deadline.checked_sub(FINISH_TIME).unwrap_or(claimed_at);
        lease.renewed_during(&self.db, self.apply(batch, &lease, deadline, &mut summary)).await?;
        Ok((summary, unknown))
    }

    /// Opens every message. What is no envelope of ours is counted and left out; its batch mates are not touched.
    fn open_all(&self, records: Vec<SqsMessage>) -> Vec<Opened> {
        records
            .into_iter()
            .filter_map(|record| match self.open(&record) {
                Ok(event_id) => Some(Opened {
                    deliveries: receive_count(&record),
                    message_id: record.message_id.unwrap_or_default(),
                    event_id,
                }),
                Err(error) => {
                    let id = record.message_id.unwrap_or_default();
                    tracing::error!(message.id = id, error = %error, "A message is not an envelope of ours; it is quarantined.");
                    None
                }
            })
            .collect()
    }

    fn open(&self, record: &SqsMessage) -> Result<EventId, OpenError> {
        let attribute =
            |name: &str| record.message_attributes.get(name).and_then(|value| value.string_value.as_deref());
        open(
            record.body.as_deref().unwrap_or_default(),
            attribute("webhook-id"),
            attribute("webhook-timestamp"),
            attribute("webhook-signature"),
            &self.keys,
        )
    }

    /// Portals side by side, each finished as soon as it is applied, so that a slow or paused one holds up nobody else.
    async fn apply(
        &self,
        batch: ClaimedBatch,
        lease: &Lease,
        deadline: Instant,
        summary: &mut WorkerSummary,
    ) -> anyhow::Result<()> {
        let portals = batch.portals.into_values().map(async |(settings, events)| {
            let outcome = self.apply_portal(settings, events, lease, deadline).await;
            self.finish(lease.token, outcome).await
        });
        let mut parts = join_all(portals).await;
        // Last, since their contacts may be those of other events.
        parts.push(self.finish(lease.token, PortalOutcome::given_up(batch.unreadable)).await);
        for part in parts {
            summary.add(&part?);
        }
        Ok(())
    }

    async fn finish(&self, token: LeaseToken, outcome: PortalOutcome) -> anyhow::Result<WorkerSummary> {
        let PortalOutcome { verdicts, releases, receipts, calls } = outcome;
        let mut summary = WorkerSummary { calls, ..WorkerSummary::default() };
        if verdicts.is_empty() {
            return Ok(summary);
        }
        failpoint!("worker.before_finish");
        let finished = self.finish_with_patience(token, &verdicts, &releases, &receipts).await?;
        failpoint!("worker.after_finish");
        summary.lost = (verdicts.len() - finished.len()) as u64;
        if summary.lost > 0 {
            tracing::warn!(lease.token = %token.0, events.lost = summary.lost, "Events had another owner by the time of finishing.");
        }
        let shares: HashMap<EventId, bool> =
            finished.iter().map(|event| (event.event_id, event.shares_record)).collect();
        for verdict in &verdicts {
            match shares.get(&verdict.event_id) {
                Some(false) => summary.count(verdict),
                Some(true) => summary.snoozed += 1,
                None => {}
            }
        }
        Ok(summary)
    }

    async fn finish_with_patience(
        &self,
        token: LeaseToken,
        verdicts: &[Verdict],
        releases: &[ContactRelease],
        receipts: &[Receipt],
    ) -> Result<Vec<FinishedEvent>, DbFailure> {
        let mut tries = 0;
        loop {
            tries += 1;
            let result = match self.db.connection().await {
                Ok(connection) => db::finish_batch(&*connection, token, verdicts, releases, receipts).await,
                Err(error) => Err(error),
            };
            match result {
                Err(error) if tries < FINISH_TRIES => {
                    tracing::warn!(error = %error, attempt.number = tries, "A batch could not be finished yet.");
                    tokio::time::sleep(BETWEEN_TRIES).await;
                }
                other => return other,
            }
        }
    }
}

/// How often SQS has delivered a message.
fn receive_count(record: &SqsMessage) -> u32 {
    record.attributes.get("ApproximateReceiveCount").and_then(|count| count.parse().ok()).unwrap_or(1)
}

impl WorkerSummary {
    fn of(batch: &ClaimedBatch) -> Self {
        let claimed = batch.portals.values().map(|(_, events)| events.len()).sum::<usize>() + batch.unreadable.len();
        Self {
            claimed: claimed as u64,
            superseded: batch.superseded as u64,
            busy: batch.busy as u64,
            settled: batch.settled as u64,
            unknown: batch.unknown.len() as u64,
            ..Self::default()
        }
    }

    /// Adds what a part of the batch came to.
    fn add(&mut self, part: &Self) {
        self.synced += part.synced;
        self.superseded += part.superseded;
        self.retried += part.retried;
        self.snoozed += part.snoozed;
        self.dead += part.dead;
        self.lost += part.lost;
        self.calls += part.calls;
    }

    fn count(&mut self, verdict: &Verdict) {
        match verdict.status {
            VerdictStatus::Synced => self.synced += 1,
            VerdictStatus::Superseded => self.superseded += 1,
            VerdictStatus::Dead => self.dead += 1,
            VerdictStatus::Retry { charged: true, .. } => self.retried += 1,
            VerdictStatus::Retry { charged: false, .. } => self.snoozed += 1,
        }
    }
}
