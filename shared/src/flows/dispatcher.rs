//! Publishes what is due: claim, seal, send, mark.
//!
//! Runs every minute and polls until its deadline. Takes no input: whatever is due is in the outbox, and whatever an
//! earlier run left halfway has a lease that ends. Only this flow sends to SQS.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use uuid::Uuid;

use crate::adapters::db::{self, Db, DueEvent, Rescued, Unpublished};
use crate::adapters::sqs::{OutgoingEnvelope, SendOutcome, Sqs};
use crate::clock;
use crate::failpoint::{failpoint, scaled};
use crate::model::envelope::{SigningKeys, seal};
use crate::model::ids::{EventId, LeaseToken};
use crate::model::pacing::{MOST_PUBLISH_ATTEMPTS, PUBLISH_LEASE, Pace, publish_backoff};

/// How often the outbox is asked for due events.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// A round is not begun later than this before the deadline: a claim, a send with its repeats, a mark.
const ROUND_TIME: Duration = Duration::from_secs(10);

/// Expired leases rescued in one round.
const MOST_RESCUED: u32 = 1000;

/// Rounds that may fail in a row before the run ends as failed: a blink of the database should not cost a minute.
const MOST_FAILED_ROUNDS: u32 = 5;

/// How long an event waits after a send that may or may not have arrived, or while SQS is away.
const AFTER_UNKNOWN: Duration = Duration::from_secs(5);

/// What the dispatcher works with. Built once.
#[derive(Debug, Clone)]
pub struct Dispatcher {
    /// The outbox.
    pub db: Db,
    /// The queues.
    pub sqs: Sqs,
    /// Keys that seal envelopes.
    pub keys: SigningKeys,
    /// How much is published at once.
    pub pace: Pace,
}

/// What a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DispatchSummary {
    /// Rounds of polling.
    pub rounds: u64,
    /// Events whose dispatcher did not come back.
    pub rescued_publishing: u64,
    /// Events whose worker did not come back.
    pub rescued_processing: u64,
    /// Events claimed.
    pub claimed: u64,
    /// Events that SQS took.
    pub queued: u64,
    /// Events that SQS refused; they wait.
    pub refused: u64,
    /// Events of which nobody knows whether SQS took them; they wait.
    pub unknown: u64,
    /// Events that SQS will never take.
    pub dead: u64,
    /// Events that had their last attempt in the hands of a worker that did not come back.
    pub died: u64,
}

impl Dispatcher {
    /// Polls until shortly before the deadline.
    pub async fn run(&self, deadline: Instant) -> anyhow::Result<DispatchSummary> {
        let mut summary = DispatchSummary::default();
        let mut failed_in_a_row = 0;
        loop {
            let round_began = Instant::now();
            match self.run_once().await {
                Ok(round) => {
                    failed_in_a_row = 0;
                    summary += round;
                }
                Err(error) if failed_in_a_row + 1 >= MOST_FAILED_ROUNDS => return Err(error),
                Err(error) => {
                    failed_in_a_row += 1;
                    tracing::warn!(
                        error = format!("{error:#}"),
                        attempt.number = failed_in_a_row,
                        "A round of publishing failed."
                    );
                }
            }
            let next_round = round_began + POLL_EVERY;
            if next_round.max(Instant::now()) + ROUND_TIME > deadline {
                return Ok(summary);
            }
            tokio::time::sleep_until(next_round.into()).await;
        }
    }

    /// One round: rescue what expired, then claim, seal, send and mark.
    pub async fn run_once(&self) -> anyhow::Result<DispatchSummary> {
        let connection = self.db.connection().await?;
        let rescued = db::rescue_expired(&*connection, MOST_RESCUED).await?;
        report_dead(&rescued);
        let token = LeaseToken(Uuid::new_v4());
        let due = db::claim_due(&*connection, token, scaled(PUBLISH_LEASE), &self.pace).await?;
        failpoint!("dispatcher.after_claim");
        // Nothing is held across the network: neither a transaction nor a connection.
        drop(connection);

        let mut summary = DispatchSummary {
            rounds: 1,
            rescued_publishing: rescued.publishing,
            rescued_processing: rescued.processing,
            died: rescued.dead.len() as u64,
            claimed: due.len() as u64,
            ..DispatchSummary::default()
        };
        if due.is_empty() {
            return Ok(summary);
        }
        let outcomes = self.sqs.send(self.seal_all(&due)).await;
        failpoint!("dispatcher.after_send");
        self.mark(token, &due, outcomes, &mut summary).await?;
        failpoint!("dispatcher.after_mark");
        Ok(summary)
    }

    fn seal_all(&self, due: &[DueEvent]) -> Vec<OutgoingEnvelope> {
        let at_second = clock::now().as_second();
        due.iter()
            .map(|event| OutgoingEnvelope {
                event_id: event.event_id,
                lane: event.lane,
                brand: event.brand.clone(),
                sealed: seal(event.event_id, &self.keys.current, at_second),
                traceparent: event.traceparent.clone(),
            })
            .collect()
    }

    async fn mark(
        &self,
        token: LeaseToken,
        due: &[DueEvent],
        outcomes: Vec<(EventId, SendOutcome)>,
        summary: &mut DispatchSummary,
    ) -> anyhow::Result<()> {
        let attempts = due
            .iter()
            .map(|event| (event.event_id, event.publish_attempts))
            .collect::<std::collections::HashMap<_, _>>();
        let mut sent = Vec::new();
        let mut unpublished = Vec::new();
        for (event_id, outcome) in outcomes {
            match outcome {
                SendOutcome::Sent(message_id) => sent.push((event_id, message_id)),
                other => {
                    unpublished.push(unpublished_event(
                        event_id,
                        &other,
                        attempts.get(&event_id).copied().unwrap_or(0),
                    ));
                }
            }
        }
        summary.count(&sent, &unpublished);
        let connection =
            self.db.connection().await.context("published events can't be marked; their lease will end")?;
        if !sent.is_empty() {
            db::mark_queued(&*connection, token, &sent).await?;
        }
        if !unpublished.is_empty() {
            db::return_unpublished(&*connection, token, &unpublished).await?;
        }
        Ok(())
    }
}

/// Says which events a person has to look at, since no worker is left to say so.
pub(super) fn report_dead(rescued: &Rescued) {
    for event in &rescued.dead {
        tracing::error!(event.id = %event, "An event is dead: its workers did not come back.");
    }
}

/// SQS' own refusal of one message counts as an attempt; that SQS could not be reached says nothing about the event.
fn unpublished_event(event_id: EventId, outcome: &SendOutcome, attempts: i32) -> Unpublished {
    match outcome {
        SendOutcome::Refused { sender_fault: true } if attempts + 1 >= MOST_PUBLISH_ATTEMPTS => {
            Unpublished { event_id, due_in: None, charged: true, code: "sqs_refused" }
        }
        SendOutcome::Refused { .. } => {
            let wait = publish_backoff(attempts, rand::random());
            Unpublished { event_id, due_in: Some(wait), charged: true, code: "sqs_refused" }
        }
        SendOutcome::Unreachable => {
            Unpublished { event_id, due_in: Some(AFTER_UNKNOWN), charged: false, code: "sqs_unreachable" }
        }
        SendOutcome::Unknown | SendOutcome::Sent(_) => {
            Unpublished { event_id, due_in: Some(AFTER_UNKNOWN), charged: false, code: "sqs_unaccounted" }
        }
    }
}

impl DispatchSummary {
    fn count(&mut self, sent: &[(EventId, String)], unpublished: &[Unpublished]) {
        self.queued = sent.len() as u64;
        for event in unpublished {
            match (event.due_in, event.charged) {
                (None, _) => self.dead += 1,
                (Some(_), true) => self.refused += 1,
                (Some(_), false) => self.unknown += 1,
            }
        }
    }
}

impl AddAssign for DispatchSummary {
    fn add_assign(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.rescued_publishing += other.rescued_publishing;
        self.rescued_processing += other.rescued_processing;
        self.claimed += other.claimed;
        self.queued += other.queued;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.dead += other.dead;
        self.died += other.died;
    }
}
