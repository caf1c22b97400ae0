//! What the result of one operation means for an event that waits for it.

use std::time::Duration;

use jiff::Timestamp;

use crate::model::outcome::{Answer, Attempt, Decision, decide};
use crate::model::plan::{Flaw, FlawKind};
use crate::model::subscription::ClaimedEvent;

use super::super::calls::{NotCalled, WITHOUT_BUDGET};
use super::{Conclusion, Done, NOT_CALLED_SNOOZE, OperationResult};

/// What one operation means for an event that waits for it. In the order of weight: the heaviest is the event's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    Done,
    /// Done, but for a property of which HubSpot kept its own value. It will do so again, so there is nothing to repeat.
    NotApplied {
        code: String,
        summary: String,
    },
    /// Done, but for a property that HubSpot can't or won't take. A person has to look.
    LeftOut {
        code: String,
        summary: String,
    },
    Dead {
        code: String,
        summary: String,
    },
    Relink {
        code: String,
    },
    /// Not called, because another answer stopped the portal. That answer says more.
    Stopped,
    Snooze {
        due_in: Duration,
        code: String,
        summary: String,
    },
    Retry {
        due_in: Duration,
        code: String,
        summary: String,
    },
    OptedOut,
}

/// Flaws are those of the events whose mapping has the property.
pub(super) fn weigh_done(done: &Done, event: &ClaimedEvent) -> Weight {
    let maps = |flaw: &&Flaw| event.payload.mapping.targets.contact_properties.contains_key(&flaw.property);
    done.flaws.iter().filter(maps).map(weigh_flaw).max().unwrap_or(Weight::Done)
}

pub(super) fn weigh_flaw(flaw: &Flaw) -> Weight {
    let (code, summary) = (flaw.code.clone(), flaw.summary.clone());
    match flaw.kind {
        FlawKind::NotApplied => Weight::NotApplied { code, summary },
        FlawKind::LeftOut => Weight::LeftOut { code, summary },
    }
}

pub(super) fn weigh(
    result: &OperationResult,
    attempt: &Attempt,
    now: Timestamp,
    conclusion: &mut Conclusion,
) -> Weight {
    let refusal = match result {
        OperationResult::Done(_) | OperationResult::Dropped => return Weight::Done,
        OperationResult::RemoteOptOut => return Weight::OptedOut,
        OperationResult::RecordMissing => return Weight::Relink { code: "record_missing".into() },
        OperationResult::Found(_) => return Weight::Relink { code: "record_found".into() },
        OperationResult::NotCalled(reason) => return weigh_not_called(reason),
        OperationResult::Unknown => None,
        OperationResult::Refused(refusal) | OperationResult::NotTried(refusal) => Some(refusal),
    };
    let answer = match result {
        OperationResult::Refused(refusal) => Answer::Refused(refusal),
        _ => Answer::Unknown,
    };
    let code = refusal.map_or("unaccounted", |refusal| refusal.code.as_str()).to_owned();
    let summary =
        refusal.map_or("HubSpot's answer did not account for it", |refusal| refusal.summary.as_str()).to_owned();
    let wait = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO);
    match decide(answer, attempt, now, rand::random()) {
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
        NotCalled::Stopped => return Weight::Stopped,
        NotCalled::NoTime | NotCalled::Impossible | NotCalled::NotOurs => (NOT_CALLED_SNOOZE, "no_time"),
    };
    Weight::Snooze { due_in, code: code.into(), summary: "the call was not made".into() }
}
