//! From what became of the operations to what the events' rows say.

mod weight;

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::adapters::db::{LinkChange, PortalSettings, Receipt, ReceiptStatus, Verdict, VerdictStatus};
use crate::adapters::hubspot::{Class, Refusal, Row};
use crate::model::echo::ValueHash;
use crate::model::ids::{ContactKey, EventId, RecordId};
use crate::model::outcome::Attempt;
use crate::model::plan::{Flaw, Operation, Plan};
use crate::model::subscription::{ClaimedEvent, DesiredState};

use super::apply::Results;
use super::calls::NotCalled;
use super::consent::started_receipts;
use super::links::{Found, Learned, learned, releases};
use super::portal::PortalOutcome;

use weight::{Weight, weigh, weigh_done, weigh_flaw};

/// A call that was not made for want of time, or because the portal was stopped, is tried again after this long.
pub(super) const NOT_CALLED_SNOOZE: Duration = Duration::from_secs(3);

/// An event whose contact was found to be somewhere else is looked at again after this long.
const RELINK_WAIT: Duration = Duration::from_secs(1);

/// Growth of that wait from attempt to attempt: a list learns of a new record late, and twelve looks within seconds would
/// give it up. Together they span most of a day, as those of a temporary answer do.
const RELINK_FACTOR: u32 = 3;

/// The longest of these waits.
const RELINK_CEILING: Duration = Duration::from_hours(12);

/// Properties that HubSpot holds by a write of ours, and their values' hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holding(pub(super) Vec<(String, ValueHash)>);

/// What HubSpot's answer taught.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) record_id: Option<RecordId>,
    /// The key that was written into the record.
    pub(super) key: Option<ContactKey>,
    pub(super) correlation_id: Option<String>,
    pub(super) remote_at: Option<Timestamp>,
    /// Properties that HubSpot refused, so that the rest was written without them, or took and did not change.
    pub(super) flaws: Vec<Flaw>,
    /// What it holds by this write. Boxed: a result is small, and passed around a lot.
    pub(super) written: Option<Box<Holding>>,
}

/// What became of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OperationResult {
    /// HubSpot holds what was wanted.
    Done(Done),
    /// HubSpot refused.
    Refused(Refusal),
    /// HubSpot refused every batch that this was in. Whether it is to blame was not found out.
    NotTried(Refusal),
    /// HubSpot may have done it or not.
    Unknown,
    /// The call was not made.
    NotCalled(NotCalled),
    /// HubSpot has an opt-out that is newer than the consent.
    RemoteOptOut,
    /// HubSpot knows no such record.
    RecordMissing,
    /// The contact is this record, but something else was in the way of writing it.
    Found(RecordId),
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

pub(super) fn conclude(
    portal: &PortalSettings,
    plan: &Plan,
    events: &[&ClaimedEvent],
    results: &Results,
    daily_reset: Option<Timestamp>,
    now: Timestamp,
) -> Conclusion {
    let mut conclusion = Conclusion::default();
    let mut weights: HashMap<EventId, Weight> = plan.events.iter().map(|event| (*event, Weight::Done)).collect();
    for (event, flaw) in &plan.left_out {
        weights.entry(*event).and_modify(|heaviest| *heaviest = weigh_flaw(flaw).max(heaviest.clone()));
    }
    let claimed: HashMap<EventId, &ClaimedEvent> = events.iter().map(|event| (event.event_id, *event)).collect();
    for (operation, result) in results {
        for event in &operation.events {
            let Some(claimed) = claimed.get(event) else { continue };
            let attempt = Attempt {
                process_attempts: claimed.process_attempts.unsigned_abs(),
                // A private app's token is not refreshed but replaced, by a person.
                credential_refreshed: true,
                daily_reset,
                ..Attempt::first()
            };
            let weight = match result {
                OperationResult::Done(done) => weigh_done(done, claimed),
                result => weigh(result, &attempt, now, &mut conclusion),
            };
            weights.entry(*event).and_modify(|heaviest| *heaviest = weight.clone().max(heaviest.clone()));
        }
        conclusion.outcome.receipts.extend(receipts(portal, operation, result));
    }
    let stop = [&conclusion.freeze, &conclusion.pause].into_iter().flatten().map(|(time, _)| *time).max();
    conclusion.outcome.verdicts =
        events.iter().map(|event| verdict(event, weights.get(&event.event_id), stop)).collect();
    let learned = learned(plan, results);
    conclusion.outcome.releases =
        releases(events.iter().copied(), |event| match (weights.get(&event.event_id), learned.get(&event.event_id)) {
            (Some(Weight::Relink { .. }), Some(Found::Elsewhere(record))) => {
                Learned { link: LinkChange::Is(*record), ..Learned::default() }
            }
            (Some(Weight::Relink { .. }), _) => Learned::gone(event.contact.record_id),
            (_, Some(Found::There { record, key, is_alone })) => {
                let keyed = Some(key.as_ref() == Some(&event.contact.key));
                Learned { link: LinkChange::Is(*record), keyed, is_alone: *is_alone }
            }
            _ => Learned::default(),
        });
    conclusion
}

/// `stop` is how long the portal is stopped, if an answer did so.
fn verdict(event: &ClaimedEvent, weight: Option<&Weight>, stop: Option<Duration>) -> Verdict {
    let (status, reason, applied) = match weight.cloned().unwrap_or(Weight::Done) {
        Weight::Done => (VerdictStatus::Synced, None, Some(event.payload.desired_state)),
        Weight::OptedOut => {
            let reason =
                ("remote_opt_out".to_owned(), "HubSpot has an opt-out that is newer than the consent".to_owned());
            (VerdictStatus::Superseded, Some(reason), Some(DesiredState::Unsubscribed))
        }
        Weight::NotApplied { code, summary } => {
            (VerdictStatus::Synced, Some((code, summary)), Some(event.payload.desired_state))
        }
        Weight::LeftOut { code, summary } => {
            (VerdictStatus::Dead, Some((code, summary)), Some(event.payload.desired_state))
        }
        Weight::Dead { code, summary } => (VerdictStatus::Dead, Some((code, summary)), None),
        Weight::Retry { due_in, code, summary } => {
            (VerdictStatus::Retry { due_in, charged: true }, Some((code, summary)), None)
        }
        Weight::Stopped => {
            let reason = ("portal_stopped".to_owned(), "an answer to a call before it stopped the portal".to_owned());
            (VerdictStatus::Retry { due_in: stop.unwrap_or(NOT_CALLED_SNOOZE), charged: false }, Some(reason), None)
        }
        Weight::Snooze { due_in, code, summary } => {
            (VerdictStatus::Retry { due_in, charged: false }, Some((code, summary)), None)
        }
        Weight::Relink { code } => {
            let summary = "the contact's record is another one than we knew; it is looked up again".to_owned();
            let factor = RELINK_FACTOR.saturating_pow(event.process_attempts.unsigned_abs());
            let due_in = RELINK_WAIT.saturating_mul(factor).min(RELINK_CEILING);
            (VerdictStatus::Retry { due_in, charged: true }, Some((code, summary)), None)
        }
    };
    Verdict { event_id: event.event_id, status, reason, applied }
}

fn receipts(portal: &PortalSettings, operation: &Operation, result: &OperationResult) -> Vec<Receipt> {
    let (status, done) = match result {
        // A receipt says done when HubSpot holds all of it: an event that comes round again finds its flaws again.
        OperationResult::Done(done) if done.flaws.is_empty() => (ReceiptStatus::Done, done.clone()),
        OperationResult::Done(done) => (ReceiptStatus::Refused, done.clone()),
        OperationResult::Refused(refusal) if refusal.class != Class::Temporary => {
            (ReceiptStatus::Refused, Done::default())
        }
        // Nothing is known to have happened, so nothing is noted; a `started` receipt stays what it is. A lost answer is a
        // temporary refusal: HubSpot may have carried it out.
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
