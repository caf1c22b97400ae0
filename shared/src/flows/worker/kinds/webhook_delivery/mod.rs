//! `webhook.delivery.v1`: applies what a delivery of HubSpot's webhooks says about one portal.
//!
//! Steps: apply all that was received in one statement, wipe what is stored about people who were deleted for privacy, react to
//! what changed, read what is uncertain. Only the last needs HubSpot, so a portal that is paused or has no calls left is
//! projected all the same. Each step may be done twice: what is applied stays so, and what is owed is found again.

mod reads;
mod rules;

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use uuid::Uuid;

use crate::adapters::db::{self, DbFailure, PortalSettings, Projected, Verdict, VerdictStatus};
use crate::clock;
use crate::failpoint::failpoint;
use crate::model::budget::Bucket;
use crate::model::crm_change::CrmChange;
use crate::model::event::PlainEvent;
use crate::model::ids::EventId;
use crate::model::outcome::{Answer, DEFAULT_MAX_ATTEMPTS, Refusal};

use super::super::Worker;
use super::super::calls::NotCalled;
use super::super::lease::Lease;
use super::super::portal::{PortalOutcome, closed};
use super::super::verdict::Conclusion;
use super::contact_erase::undone;
use reads::MORE_READS_WAIT;

/// A delivery to be applied.
struct Delivery<'a> {
    event: &'a PlainEvent,
    delivery_id: Uuid,
}

/// Why a delivery is not done with.
#[derive(Debug, Clone)]
enum Obstacle {
    /// A step failed in our own database.
    Failed(&'static str),
    /// The portal is paused or switched off, so nothing is read.
    Closed,
    /// A read was not made.
    NotCalled(NotCalled),
    /// HubSpot refused one.
    Refused(Refusal),
    /// It is not known what HubSpot holds.
    Unknown,
    /// There was no room for all reads.
    MoreReads,
}

/// What keeps events from being finished. Of several obstacles the first counts.
type Obstacles = HashMap<EventId, Obstacle>;

impl Worker {
    /// Applies deliveries of one portal; what they still owe then is snoozed.
    pub(super) async fn apply_deliveries(
        &self,
        portal: &PortalSettings,
        events: Vec<PlainEvent>,
        lease: &Lease,
        deadline: Instant,
    ) -> PortalOutcome {
        let mut outcome = PortalOutcome::default();
        let mut deliveries = Vec::new();
        for event in &events {
            match event.delivery_id() {
                _ if event.process_attempts.unsigned_abs() >= DEFAULT_MAX_ATTEMPTS => {
                    outcome.end(event.event_id, "attempts_exhausted", "tried as often as allowed");
                }
                Some(delivery_id) => deliveries.push(Delivery { event, delivery_id }),
                None => outcome.end(event.event_id, "unreadable_payload", "it names no delivery"),
            }
        }
        let mut obstacles = Obstacles::new();
        let projected = self.project(portal, &deliveries, lease, &mut obstacles).await;
        failpoint!("worker.after_projection");
        self.erase_reported(portal, &projected.erasing, lease, &mut obstacles).await;
        self.react_to(projected.changes, &mut obstacles).await;
        let reads = self.read_uncertain(portal, projected.reads, lease, deadline, &mut obstacles).await;
        (outcome.calls, outcome.denied_reads) = (reads.calls, reads.denied);
        let conclusion = conclude(portal, &deliveries, &obstacles);
        let bucket = Bucket::calls(portal.portal_id, portal.call_limit, portal.call_window);
        self.carry_out(portal, bucket, &conclusion).await;
        outcome.extend(conclusion.outcome);
        outcome
    }

    /// In one statement for all. If PostgreSQL refuses that, each for itself: one of them is to blame.
    async fn project(
        &self,
        portal: &PortalSettings,
        deliveries: &[Delivery<'_>],
        lease: &Lease,
        obstacles: &mut Obstacles,
    ) -> Projected {
        if deliveries.is_empty() {
            return Projected::default();
        }
        let error = match self.project_together(portal, deliveries, lease).await {
            Ok(projected) => return projected,
            Err(error) => error,
        };
        tracing::warn!(portal.id = portal.portal_id.0, error = %error, deliveries = deliveries.len(), "Deliveries could not be applied.");
        let mut all = Projected::default();
        for delivery in deliveries {
            let alone = match &error {
                DbFailure::Refused { .. } if deliveries.len() > 1 => {
                    self.project_together(portal, std::slice::from_ref(delivery), lease).await
                }
                _ => {
                    obstacles.insert(delivery.event.event_id, Obstacle::Failed("not_projected"));
                    continue;
                }
            };
            match alone {
                Ok(one) => {
                    all.changes.extend(one.changes);
                    all.reads.extend(one.reads);
                    all.erasing.extend(one.erasing);
                }
                Err(error) => {
                    tracing::warn!(event.id = %delivery.event.event_id, error = %error, "A delivery could not be applied.");
                    obstacles.insert(delivery.event.event_id, Obstacle::Failed("not_projected"));
                }
            }
        }
        all
    }

    async fn project_together(
        &self,
        portal: &PortalSettings,
        deliveries: &[Delivery<'_>],
        lease: &Lease,
    ) -> Result<Projected, DbFailure> {
        let ids: Vec<(EventId, Uuid)> =
            deliveries.iter().map(|delivery| (delivery.event.event_id, delivery.delivery_id)).collect();
        let connection = self.db.connection().await?;
        db::apply_webhook_deliveries(&*connection, lease.token, portal.portal_id, &ids).await
    }

    /// An application may hold a contact that is to be erased. Then only this waits.
    async fn erase_reported(
        &self,
        portal: &PortalSettings,
        erasing: &HashSet<EventId>,
        lease: &Lease,
        obstacles: &mut Obstacles,
    ) {
        if erasing.is_empty() {
            return;
        }
        let events: Vec<EventId> = erasing.iter().copied().collect();
        let erased = async {
            let connection = self.db.connection().await?;
            db::erase_crm_records(&*connection, lease.token, portal.portal_id, &events).await
        };
        if let Err(error) = erased.await {
            tracing::warn!(portal.id = portal.portal_id.0, error = %error, "People who were deleted for privacy could not be erased here yet.");
            for event in events {
                obstacles.entry(event).or_insert(Obstacle::Failed("not_erased"));
            }
        }
    }

    async fn react_to(&self, changes: Vec<(EventId, CrmChange)>, obstacles: &mut Obstacles) {
        if changes.is_empty() {
            return;
        }
        let (events, changes): (HashSet<EventId>, Vec<CrmChange>) = changes.into_iter().unzip();
        if let Err(error) = rules::react(self, &changes).await {
            tracing::warn!(
                error = format!("{error:#}"),
                changes = changes.len(),
                "What follows from changes could not be noted yet."
            );
            for event in events {
                obstacles.entry(event).or_insert(Obstacle::Failed("not_reacted"));
            }
        }
    }
}

fn conclude(portal: &PortalSettings, deliveries: &[Delivery<'_>], obstacles: &Obstacles) -> Conclusion {
    let mut conclusion = Conclusion::default();
    let now = clock::now();
    for Delivery { event, .. } in deliveries {
        let id = event.event_id;
        let (answer, code, summary) = match obstacles.get(&id) {
            None => {
                conclusion.outcome.verdicts.push(synced(id));
                continue;
            }
            Some(Obstacle::NotCalled(reason)) => {
                conclusion.outcome.not_started(id, reason);
                continue;
            }
            Some(Obstacle::MoreReads) => {
                let summary = "applied; more values have to be read than fit one turn";
                conclusion.outcome.wait(id, MORE_READS_WAIT, "reads_owed", summary);
                continue;
            }
            Some(Obstacle::Closed) => {
                let (snooze, code) = closed(portal).unwrap_or((MORE_READS_WAIT, "reads_owed"));
                conclusion.outcome.wait(id, snooze, code, "applied; uncertain values are read when the portal is back");
                continue;
            }
            Some(Obstacle::Failed(code)) => (
                Answer::Unknown,
                (*code).to_owned(),
                "a step in our own database failed; it is done once more".to_owned(),
            ),
            Some(Obstacle::Refused(refusal)) => {
                (Answer::Refused(refusal), refusal.code.clone(), refusal.summary.clone())
            }
            Some(Obstacle::Unknown) => {
                (Answer::Unknown, "unaccounted".to_owned(), "it is not known what HubSpot holds".to_owned())
            }
        };
        let verdict = undone(event, answer, (code, summary), now, &mut conclusion);
        conclusion.outcome.verdicts.push(verdict);
    }
    conclusion
}

fn synced(event_id: EventId) -> Verdict {
    Verdict { event_id, status: VerdictStatus::Synced, reason: None, applied: None }
}
