//! One portal's share of a batch: planned, paid for and applied, a plan after the other.

use std::time::{Duration, Instant};

use crate::adapters::db::{ContactRelease, PortalSettings, Receipt, UnreadableEvent, Verdict, VerdictStatus};
use crate::adapters::hubspot::{Account, ApiVersions};
use crate::clock;
use crate::failpoint::failpoint;
use crate::model::budget::{Bucket, Lane};
use crate::model::ids::EventId;
use crate::model::outcome::{DEFAULT_MAX_ATTEMPTS, LimitPolicy};
use crate::model::plan::{Plan, plans};
use crate::model::subscription::{ClaimedEvent, EventLane};

use super::Worker;
use super::calls::{Calls, NotCalled, WITHOUT_BUDGET};
use super::daily::hit_daily_limit;
use super::lease::Lease;
use super::links::{Learned, releases};
use super::verdict::{self, Conclusion};

/// A portal that is switched off is asked again after this long.
const OFF_SNOOZE: Duration = Duration::from_mins(1);

/// The part of a portal's limit that one plan may take: a plan holds its calls until its last one is done, and a smaller
/// one holds them shorter.
const PLAN_SHARE_OF_LIMIT: u32 = 3;

/// What a batch comes to, ready for the one statement that finishes it.
#[derive(Debug, Default)]
pub(super) struct PortalOutcome {
    pub(super) verdicts: Vec<Verdict>,
    pub(super) releases: Vec<ContactRelease>,
    pub(super) receipts: Vec<Receipt>,
    pub(super) calls: u64,
    /// Records whose uncertain values HubSpot does not let us read.
    pub(super) denied_reads: u64,
}

impl PortalOutcome {
    pub(super) fn extend(&mut self, other: Self) {
        self.verdicts.extend(other.verdicts);
        self.releases.extend(other.releases);
        self.receipts.extend(other.receipts);
        self.calls += other.calls;
        self.denied_reads += other.denied_reads;
    }

    /// Events that this version can't read end here.
    pub(super) fn given_up(unreadable: Vec<UnreadableEvent>) -> Self {
        let mut outcome = Self::default();
        for event in unreadable {
            outcome.end(event.event_id, event.reason, "this version can't read the event");
            let contacts = event.contacts.into_iter();
            outcome.releases.extend(contacts.map(|(portal_id, key)| ContactRelease::unchanged(portal_id, key)));
        }
        outcome
    }

    pub(super) fn wait(&mut self, event: EventId, due_in: Duration, code: &str, summary: &str) {
        self.verdicts.push(Verdict {
            event_id: event,
            status: VerdictStatus::Retry { due_in, charged: false },
            reason: Some((code.to_owned(), summary.to_owned())),
            applied: None,
        });
    }

    pub(super) fn end(&mut self, event: EventId, code: &str, summary: &str) {
        self.verdicts.push(Verdict {
            event_id: event,
            status: VerdictStatus::Dead,
            reason: Some((code.to_owned(), summary.to_owned())),
            applied: None,
        });
    }
}

impl PortalOutcome {
    /// An event for which no call could be paid.
    pub(super) fn not_started(&mut self, event: EventId, reason: &NotCalled) {
        match reason {
            NotCalled::Impossible => self.end(
                event,
                "call_limit_too_small",
                "one contact needs more calls than the portal's call_limit allows in a window: raise it or map fewer segments",
            ),
            NotCalled::NoBudget(retry_in) => self.wait(event, *retry_in, "no_budget", "all calls of the window are taken"),
            NotCalled::BudgetAway => {
                self.wait(event, WITHOUT_BUDGET, "budget_away", "Redis can't be asked, so nothing is sent");
            }
            NotCalled::NoTime | NotCalled::Stopped | NotCalled::NotOurs => {
                self.wait(event, verdict::NOT_CALLED_SNOOZE, "no_time", "the worker's time was up before its turn");
            }
        }
    }
}

impl Worker {
    /// Applies the events of one portal as far as budget, lease and time allow; the rest is snoozed.
    pub(super) async fn apply_portal(
        &self,
        portal: PortalSettings,
        events: Vec<ClaimedEvent>,
        lease: &Lease,
        deadline: Instant,
    ) -> PortalOutcome {
        let mut outcome = PortalOutcome::default();
        if let Some((snooze, code)) = closed(&portal) {
            for event in &events {
                outcome.wait(event.event_id, snooze, code, "nothing is written to this portal at present");
            }
            outcome.releases = releases(&events, |_| Learned::default());
            return outcome;
        }
        let (exhausted, events): (Vec<_>, Vec<_>) = events.into_iter().partition(is_exhausted);
        for event in &exhausted {
            outcome.end(
                event.event_id,
                "attempts_exhausted",
                "tried as often as allowed; see the receipts for the last answers",
            );
        }
        outcome.releases = releases(&exhausted, |_| Learned::default());

        let lane = lane_of(&events);
        let most_calls = (portal.call_limit / PLAN_SHARE_OF_LIMIT).max(1);
        for plan in plans(&events, &portal.unique_property, portal.write_mode, most_calls) {
            let part = self.apply_plan(&portal, &events, plan, lane, lease, deadline).await;
            outcome.extend(part);
        }
        outcome
    }

    async fn apply_plan(
        &self,
        portal: &PortalSettings,
        events: &[ClaimedEvent],
        plan: Plan,
        lane: Lane,
        lease: &Lease,
        deadline: Instant,
    ) -> PortalOutcome {
        let served: Vec<&ClaimedEvent> = events.iter().filter(|event| plan.events.contains(&event.event_id)).collect();
        let mut outcome = PortalOutcome::default();
        let account = self.account(portal);
        let bucket = Bucket::calls(portal.portal_id, portal.call_limit, portal.call_window);
        let cost = (bucket, lane, plan.calls(portal.write_mode));
        let calls = match Calls::reserve(account, &self.budget, cost, lease, deadline).await {
            Ok(calls) => calls,
            Err(reason) => {
                outcome.extend(not_started(&served, &reason));
                return outcome;
            }
        };
        failpoint!("worker.after_reserve");
        let results = self.apply_operations(portal, &plan, &served, &calls, lease).await;
        outcome.calls = calls.settle().await;
        let daily_reset =
            if hit_daily_limit(&results) { self.daily_reset(portal, lease, deadline).await } else { None };
        let conclusion = verdict::conclude(portal, &plan, &served, &results, daily_reset, clock::now());
        self.carry_out(portal, bucket, &conclusion).await;
        outcome.extend(conclusion.outcome);
        outcome
    }

    /// The portal under its token, in its own version of the API if it has one. The schema lets only real versions in.
    pub(super) fn account(&self, portal: &PortalSettings) -> Account<'_> {
        let account = self.hubspot.account(portal.portal_id, self.tokens.of(portal.portal_id));
        match portal.api_version.as_deref().map(ApiVersions::all) {
            Some(Ok(versions)) => account.with_versions(versions),
            Some(Err(_)) | None => account,
        }
    }

    /// Freezes and pauses are for everybody, so they do not wait for the batch to finish.
    pub(super) async fn carry_out(&self, portal: &PortalSettings, bucket: Bucket, conclusion: &Conclusion) {
        if let Some((time, reason)) = &conclusion.freeze
            && let Err(error) = self.budget.freeze(&bucket, *time, reason).await
        {
            tracing::error!(portal.id = portal.portal_id.0, error = %error, "The budget could not be frozen after a refusal.");
        }
        // The day's end is hours away: nothing is published until then, and it is kept where nothing gets lost.
        let day = conclusion.freeze.as_ref().filter(|(_, reason)| reason == LimitPolicy::Daily.code());
        if let Some((time, reason)) = conclusion.pause.as_ref().max(day) {
            tracing::error!(portal.id = portal.portal_id.0, reason, duration_s = time.as_secs(), "A portal is paused.");
            if let Err(error) = self.pause(portal, *time, reason).await {
                tracing::error!(portal.id = portal.portal_id.0, error = %error, "A portal could not be paused.");
            }
        }
    }

    async fn pause(
        &self,
        portal: &PortalSettings,
        time: Duration,
        reason: &str,
    ) -> Result<(), crate::adapters::db::DbFailure> {
        let connection = self.db.connection().await?;
        crate::adapters::db::pause_portal(&*connection, portal.portal_id, time, reason).await
    }
}

/// Whether nothing may be written now, and when to ask again.
pub(super) fn closed(portal: &PortalSettings) -> Option<(Duration, &'static str)> {
    match portal.paused_for {
        _ if portal.off => Some((OFF_SNOOZE, "portal_off")),
        Some(remaining) => Some((remaining, "portal_paused")),
        None => None,
    }
}

fn is_exhausted(event: &ClaimedEvent) -> bool {
    event.process_attempts.unsigned_abs() >= DEFAULT_MAX_ATTEMPTS
}

/// Bulk only if nobody waits for any of it.
fn lane_of(events: &[ClaimedEvent]) -> Lane {
    if events.iter().any(|event| event.lane != EventLane::Bulk) { Lane::Interactive } else { Lane::Bulk }
}

fn not_started(events: &[&ClaimedEvent], reason: &NotCalled) -> PortalOutcome {
    let mut outcome = PortalOutcome::default();
    for event in events {
        outcome.not_started(event.event_id, reason);
    }
    outcome.releases = releases(events.iter().copied(), |_| Learned::default());
    outcome
}
