//! From what became of erasures to what their rows say.

use std::time::Duration;

use jiff::Timestamp;

use crate::adapters::db::{Verdict, VerdictStatus};
use crate::model::event::PlainEvent;
use crate::model::outcome::{Answer, Attempt, Decision, decide};

use super::super::super::verdict::{Conclusion, NOT_CALLED_SNOOZE};
use super::{Erased, Erasure, Obstacle};

/// A record that was there when it was read and not when it was deleted is looked for again after this long.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(super) fn conclude(ends: &[(&Erasure<'_>, Result<Erased, Obstacle>)], now: Timestamp) -> Conclusion {
    let mut conclusion = Conclusion::default();
    for (erasure, end) in ends {
        match end {
            Ok(end) => {
                conclusion.outcome.verdicts.push(done(erasure.event, end));
                conclusion.outcome.releases.extend(erasure.releases(end));
            }
            Err(Obstacle::NotCalled(reason)) => conclusion.outcome.not_started(erasure.event.event_id, reason),
            Err(Obstacle::Refused(refusal)) => {
                let reason = (refusal.code.clone(), refusal.summary.clone());
                let verdict = undone(erasure.event, Answer::Refused(refusal), reason, now, &mut conclusion);
                conclusion.outcome.verdicts.push(verdict);
            }
            Err(Obstacle::Unknown) => {
                let reason = ("unaccounted".to_owned(), "it is not known what HubSpot holds".to_owned());
                let verdict = undone(erasure.event, Answer::Unknown, reason, now, &mut conclusion);
                conclusion.outcome.verdicts.push(verdict);
            }
        }
    }
    conclusion
}

fn done(event: &PlainEvent, end: &Erased) -> Verdict {
    let kept = (
        "record_kept".to_owned(),
        "the record is that of another contact too; only the erased contact's key and link were removed".to_owned(),
    );
    Verdict {
        event_id: event.event_id,
        status: VerdictStatus::Synced,
        reason: (*end == Erased::Kept).then_some(kept),
        applied: None,
    }
}

/// What an event's row says after an answer that did not do it.
pub(in super::super) fn undone(
    event: &PlainEvent,
    answer: Answer<'_>,
    (mut code, summary): (String, String),
    now: Timestamp,
    conclusion: &mut Conclusion,
) -> Verdict {
    let attempt = Attempt { process_attempts: event.process_attempts.unsigned_abs(), ..Attempt::first() };
    let wait = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO);
    let snooze = |due_in| VerdictStatus::Retry { due_in, charged: false };
    let status = match decide(answer, &attempt, now, rand::random()) {
        Decision::Complete => VerdictStatus::Synced,
        Decision::RetryAt { at } => VerdictStatus::Retry { due_in: wait(at), charged: true },
        Decision::SnoozeUntil { at, .. } => snooze(wait(at)),
        Decision::Freeze { until, resume_at, .. } => {
            conclusion.freeze = conclusion.freeze.take().max(Some((wait(until), code.clone())));
            snooze(wait(resume_at))
        }
        Decision::PausePortal { until, reason } => {
            conclusion.pause = conclusion.pause.take().max(Some((wait(until), reason.code().to_owned())));
            snooze(wait(until))
        }
        Decision::RefreshCredential => snooze(NOT_CALLED_SNOOZE),
        Decision::Resolve(_) => VerdictStatus::Retry { due_in: LOOK_AGAIN, charged: true },
        Decision::Dead { code: why } => {
            code = why;
            VerdictStatus::Dead
        }
        Decision::Superseded { .. } | Decision::Split => VerdictStatus::Dead,
    };
    Verdict { event_id: event.event_id, status, reason: Some((code, summary)), applied: None }
}
