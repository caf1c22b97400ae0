//! From what became of the operations to what the events' rows say.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::adapters::db::{ContactRelease, PortalSettings, Receipt, ReceiptStatus, Verdict, VerdictStatus};
use crate::adapters::hubspot::{Class, Refusal, Row};
use crate::model::ids::{EventId, RecordId};
use crate::model::outcome::{Answer, Attempt, Decision, decide};
use crate::model::plan::{Operation, Plan};
use crate::model::subscription::{ClaimedEvent, DesiredState};

use super::apply::Results;
use super::calls::{NotCalled, WITHOUT_BUDGET};
use super::consent::started_receipts;
use super::portal::PortalOutcome;

/// A call that was not made for want of time, or because the portal was stopped, is tried again after this long.
pub(super) const NOT_CALLED_SNOOZE: Duration = Duration::from_secs(3);

/// An event whose contact was found to be somewhere else is looked at again after this long.
const RELINK_WAIT: Duration = Duration::from_secs(1);

/// What HubSpot's answer taught.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) record_id: Option<RecordId>,
    pub(super) correlation_id: Option<String>,
    pub(super) remote_at: Option<Timestamp>,
}

/// What became of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OperationResult {
    /// HubSpot holds what was wanted.
    Done(Done),
    /// HubSpot refused.
    Refused(Refusal),
    /// HubSpot may have done it or not.
    Unknown,
    /// The call was not made.
    NotCalled(NotCalled),
    /// HubSpot has an opt-out that is newer than the consent.
    RemoteOptOut,
    /// HubSpot knows no such record.
    RecordMissing,
    /// Not tried, because of what became of another operation of the same contact.
    Dropped,
}

impl From<Row<Done>> for OperationResult {
    fn from(row: Row<Done>) -> Self {
        match row {
            Row::Done(done) => Self::Done(done),
            Row::Refused(refusal) => Self::Refused(refusal),
            Row::Unknown => Self::Unknown,
        }
    }
}

impl OperationResult {
    pub(super) fn record_id(&self) -> Option<RecordId> {
        match self {
            Self::Done(done) => done.record_id,
            _ => None,
        }
    }

    pub(super) fn is_opt_out(&self) -> bool {
        matches!(self, Self::RemoteOptOut | Self::Refused(Refusal { class: Class::OptedOut, .. }))
    }
}

/// What a plan came to, and what it means for the whole portal.
#[derive(Debug, Default)]
pub(super) struct Conclusion {
    pub(super) outcome: PortalOutcome,
    /// Stop everybody's calls for this long.
    pub(super) freeze: Option<(Duration, String)>,
    /// Publish nothing for this long.
    pub(super) pause: Option<(Duration, String)>,
}

/// What one operation means for an event that waits for it. In the order of weight: the heaviest is the event's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    Done,
    Dead { code: String, summary: String },
    Relink { code: String },
    Snooze { due_in: Duration, code: String, summary: String },
    Retry { due_in: Duration, code: String, summary: String },
    OptedOut,
}

pub(super) fn conclude(
    portal: &PortalSettings,
    plan: &Plan,
    events: &[&ClaimedEvent],
    results: &Results,
    now: Timestamp,
) -> Conclusion {
    let mut conclusion = Conclusion::default();
    let mut weights: HashMap<EventId, Weight> = plan.events.iter().map(|event| (*event, Weight::Done)).collect();
    let attempts: HashMap<EventId, u32> =
        events.iter().map(|event| (event.event_id, event.process_attempts.unsigned_abs())).collect();
    for (operation, result) in results {
        for event in &operation.events {
            let attempt = Attempt {
                process_attempts: attempts.get(event).copied().unwrap_or(0),
                // A private app's token is not refreshed but replaced, by a person.
                credential_refreshed: true,
                ..Attempt::first()
            };
            let weight = weigh(result, &attempt, now, &mut conclusion);
            weights.entry(*event).and_modify(|heaviest| *heaviest = weight.clone().max(heaviest.clone()));
        }
        conclusion.outcome.receipts.extend(receipts(portal, operation, result));
    }
    conclusion.outcome.verdicts = events.iter().map(|event| verdict(event, weights.get(&event.event_id))).collect();
    let records = records(results);
    conclusion.outcome.releases = releases(events.iter().copied(), |event| {
        match (weights.get(&event.event_id), records.get(&event.contact.key)) {
            (Some(Weight::Relink { .. }), _) => Some(None),
            (_, record) => record.map(|record| Some(*record)),
        }
    });
    conclusion
}

fn weigh(result: &OperationResult, attempt: &Attempt, now: Timestamp, conclusion: &mut Conclusion) -> Weight {
    let refusal = match result {
        OperationResult::Done(_) | OperationResult::Dropped => return Weight::Done,
        OperationResult::RemoteOptOut => return Weight::OptedOut,
        OperationResult::RecordMissing => return Weight::Relink { code: "record_missing".into() },
        OperationResult::NotCalled(reason) => return weigh_not_called(reason),
        OperationResult::Unknown => None,
        OperationResult::Refused(refusal) => Some(refusal),
    };
    let code = refusal.map_or("unaccounted", |refusal| refusal.code.as_str()).to_owned();
    let summary =
        refusal.map_or("HubSpot's answer did not account for it", |refusal| refusal.summary.as_str()).to_owned();
    let wait = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO);
    match decide(refusal.map_or(Answer::Unknown, Answer::Refused), attempt, now, rand::random()) {
        Decision::Complete => Weight::Done,
        Decision::RetryAt { at } => Weight::Retry { due_in: wait(at), code, summary },
        Decision::SnoozeUntil { at, .. } => Weight::Snooze { due_in: wait(at), code, summary },
        Decision::Freeze { until, resume_at, .. } => {
            conclusion.freeze = conclusion.freeze.take().max(Some((wait(until), code.clone())));
            Weight::Snooze { due_in: wait(resume_at), code, summary }
        }
        Decision::PausePortal { until, reason } => {
            conclusion.pause = conclusion.pause.take().max(Some((wait(until), reason.code().to_owned())));
            Weight::Snooze { due_in: wait(until), code, summary }
        }
        Decision::RefreshCredential => Weight::Snooze { due_in: NOT_CALLED_SNOOZE, code, summary },
        Decision::Resolve(_) => Weight::Relink { code },
        Decision::Superseded { .. } => Weight::OptedOut,
        Decision::Split => Weight::Dead { code, summary },
        Decision::Dead { code } => Weight::Dead { code, summary },
    }
}

fn weigh_not_called(reason: &NotCalled) -> Weight {
    let (due_in, code) = match reason {
        NotCalled::NoBudget(retry_in) => (*retry_in, "no_budget"),
        NotCalled::BudgetAway => (WITHOUT_BUDGET, "budget_away"),
        NotCalled::Stopped => (NOT_CALLED_SNOOZE, "portal_stopped"),
        NotCalled::NoTime | NotCalled::Impossible | NotCalled::NotOurs => (NOT_CALLED_SNOOZE, "no_time"),
    };
    Weight::Snooze { due_in, code: code.into(), summary: "the call was not made".into() }
}

fn verdict(event: &ClaimedEvent, weight: Option<&Weight>) -> Verdict {
    let (status, reason, applied) = match weight.cloned().unwrap_or(Weight::Done) {
        Weight::Done => (VerdictStatus::Synced, None, Some(event.payload.desired_state)),
        Weight::OptedOut => {
            let reason =
                ("remote_opt_out".to_owned(), "HubSpot has an opt-out that is newer than the consent".to_owned());
            (VerdictStatus::Superseded, Some(reason), Some(DesiredState::Unsubscribed))
        }
        Weight::Dead { code, summary } => (VerdictStatus::Dead, Some((code, summary)), None),
        Weight::Retry { due_in, code, summary } => {
            (VerdictStatus::Retry { due_in, charged: true }, Some((code, summary)), None)
        }
        Weight::Snooze { due_in, code, summary } => {
            (VerdictStatus::Retry { due_in, charged: false }, Some((code, summary)), None)
        }
        Weight::Relink { code } => {
            let summary = "the contact's record is another one than we knew; it is looked up by address".to_owned();
            (VerdictStatus::Retry { due_in: RELINK_WAIT, charged: true }, Some((code, summary)), None)
        }
    };
    Verdict { event_id: event.event_id, status, reason, applied }
}

fn receipts(portal: &PortalSettings, operation: &Operation, result: &OperationResult) -> Vec<Receipt> {
    let (status, done) = match result {
        OperationResult::Done(done) => (ReceiptStatus::Done, done.clone()),
        OperationResult::Refused(_) => (ReceiptStatus::Refused, Done::default()),
        // Nothing is known to have happened, so nothing is noted; a `started` receipt stays what it is.
        _ => return Vec::new(),
    };
    started_receipts(portal, operation)
        .into_iter()
        .map(|started| Receipt {
            started,
            status,
            record_id: done.record_id,
            correlation_id: done.correlation_id.clone(),
            remote_at: done.remote_at,
        })
        .collect()
}

fn records(results: &Results) -> HashMap<&crate::model::ids::ContactKey, RecordId> {
    results.iter().filter_map(|(operation, result)| Some((&operation.contact_key, result.record_id()?))).collect()
}

/// Every contact once, however many events it has.
pub(super) fn releases<'a>(
    events: impl IntoIterator<Item = &'a ClaimedEvent>,
    record: impl Fn(&ClaimedEvent) -> Option<Option<RecordId>>,
) -> Vec<ContactRelease> {
    let mut releases: HashMap<_, ContactRelease> = HashMap::new();
    for event in events {
        let learned = record(event);
        let release = releases.entry((event.portal_id, event.contact.key.clone())).or_insert_with(|| ContactRelease {
            portal_id: event.portal_id,
            contact_key: event.contact.key.clone(),
            record: None,
        });
        release.record = release.record.or(learned);
    }
    releases.into_values().collect()
}
