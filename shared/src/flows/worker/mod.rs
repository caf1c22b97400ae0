//! Carries decisions to HubSpot: open, claim, plan, reserve, apply, finish.
//!
//! A batch is one unit. It costs a constant number of database round trips whatever its size: one to claim, at most three
//! about opt-outs and one to finish for each portal; and one every few seconds to renew its leases. Messages are acknowledged as soon as the
//! rows say what happens next.

mod apply;
mod calls;
mod consent;
mod daily;
mod echoes;
mod kinds;
mod lease;
mod links;
mod portal;
mod summary;
mod verdict;
mod work;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use futures::future::join_all;

use crate::adapters::budget::Budget;
use crate::adapters::db::{
    self, ClaimedBatch, ContactRelease, Db, DbFailure, FinishedEvent, PortalSettings, Receipt, Verdict,
};
use crate::adapters::hubspot::HubSpot;
use crate::config::HubSpotTokens;
use crate::failpoint::failpoint;
use crate::model::envelope::{OpenError, SigningKeys, open};
use crate::model::event::PlainEvent;
use crate::model::ids::{EventId, LeaseToken, PortalId};
use crate::model::subscription::ClaimedEvent;

use lease::Lease;
use portal::PortalOutcome;

pub use summary::WorkerSummary;

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

/// One portal's share of a batch.
struct PortalWork {
    settings: PortalSettings,
    decisions: Vec<ClaimedEvent>,
    /// Of no stream.
    others: Vec<PlainEvent>,
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
        let mut portals: BTreeMap<PortalId, PortalWork> = BTreeMap::new();
        for (portal, (settings, events)) in batch.portals {
            portals.insert(portal, PortalWork { settings, decisions: events, others: Vec::new() });
        }
        for (portal, (settings, others)) in batch.without_stream {
            let work = PortalWork { settings, decisions: Vec::new(), others: Vec::new() };
            portals.entry(portal).or_insert(work).others = others;
        }
        let portals = portals.into_values().map(async |work| {
            let outcome = self.apply_all(work, lease, deadline).await;
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

    /// One after the other, and finished together: an erasure and a decision may be about contacts of one record.
    async fn apply_all(&self, work: PortalWork, lease: &Lease, deadline: Instant) -> PortalOutcome {
        let PortalWork { settings, decisions, others } = work;
        if others.is_empty() {
            return self.apply_portal(settings, decisions, lease, deadline).await;
        }
        let mut outcome = self.apply_kinds(&settings, others, lease, deadline).await;
        outcome.extend(self.apply_portal(settings, decisions, lease, deadline).await);
        outcome.releases = kinds::one_each(outcome.releases);
        outcome
    }

    async fn finish(&self, token: LeaseToken, outcome: PortalOutcome) -> anyhow::Result<WorkerSummary> {
        let PortalOutcome { verdicts, releases, receipts, calls, denied_reads } = outcome;
        let mut summary = WorkerSummary { calls, denied_reads, ..WorkerSummary::default() };
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
