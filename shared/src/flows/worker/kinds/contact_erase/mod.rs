//! `contact.erase.v1`: deletes a contact in one portal, for good.
//!
//! The claim holds the contact and everybody who shares its address or record, so that what a worker was writing for it when it
//! was erased has ended. Steps: look for its records, find out whether somebody else is on them, delete them, wipe what came in
//! meanwhile. Each of them may be done twice.

mod conclude;
mod lookup;
mod removal;

use std::collections::HashSet;
use std::time::Instant;

use futures::{StreamExt as _, stream};

use crate::adapters::db::{self, ContactRelease, FoundRecord, LinkChange, PortalSettings};
use crate::adapters::hubspot::{Class, Refusal};
use crate::clock;
use crate::failpoint::failpoint;
use crate::model::budget::{Bucket, Lane};
use crate::model::event::{PlainContact, PlainEvent};
use crate::model::ids::{ContactKey, EventId, RecordId};
use crate::model::outcome::DEFAULT_MAX_ATTEMPTS;

use super::super::Worker;
use super::super::calls::{Calls, NotCalled};
use super::super::lease::Lease;
use super::super::portal::{PortalOutcome, closed};
use super::one_each;
pub(super) use conclude::undone;
use lookup::{LOOKUPS, find_records};
use removal::remove;

/// Erasures that are carried out together. Their look-ups fit a batch, and the whole fits the lease.
const MOST_TOGETHER: usize = 50;

/// Calls under way at once.
const CALLS_AT_ONCE: usize = 4;

/// An erasure, and what it is about.
struct Erasure<'a> {
    event: &'a PlainEvent,
    contact: &'a PlainContact,
    /// The address that the contact had. `None`: HubSpot was told before, and this is the repeat.
    email: Option<&'a str>,
}

/// How an erasure ended in HubSpot.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Erased {
    /// Nothing of the contact is there. These were its records.
    Gone(Vec<RecordId>),
    /// Its record is that of another contact too, and stays.
    Kept,
}

/// Why an erasure could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Obstacle {
    /// A call was not made.
    NotCalled(NotCalled),
    /// HubSpot refused one.
    Refused(Refusal),
    /// It is not known what is there or what was done.
    Unknown,
}

impl Worker {
    /// Carries out erasures of one portal as far as budget, lease and time allow; the rest is snoozed.
    pub(super) async fn erase_contacts(
        &self,
        portal: &PortalSettings,
        events: Vec<PlainEvent>,
        lease: &Lease,
        deadline: Instant,
    ) -> PortalOutcome {
        let mut outcome = PortalOutcome::default();
        let mut erasures: Vec<Erasure<'_>> = Vec::new();
        for event in &events {
            outcome.releases.extend(event.leased().map(|(portal, key)| ContactRelease::unchanged(portal, key)));
            if let Some((snooze, code)) = closed(portal) {
                outcome.wait(event.event_id, snooze, code, "nothing is written to this portal at present");
            } else if event.process_attempts.unsigned_abs() >= DEFAULT_MAX_ATTEMPTS {
                outcome.end(event.event_id, "attempts_exhausted", "tried as often as allowed");
            } else if let Some(contact) = &event.contact {
                let email = event.payload.get(EMAIL).and_then(serde_json::Value::as_str);
                erasures.push(Erasure { event, contact, email });
            } else {
                outcome.end(event.event_id, "unreadable_payload", "it names no contact");
            }
        }
        let together = usize::try_from(portal.call_limit).unwrap_or(usize::MAX) / 2;
        for chunk in erasures.chunks(together.clamp(1, MOST_TOGETHER)) {
            for part in self.erase_together(portal, chunk, lease, deadline).await {
                outcome.extend(part);
            }
        }
        outcome.releases = one_each(outcome.releases);
        outcome
    }

    /// A look-up that HubSpot refuses for one of its rows is made for each of them by itself.
    async fn erase_together(
        &self,
        portal: &PortalSettings,
        erasures: &[Erasure<'_>],
        lease: &Lease,
        deadline: Instant,
    ) -> Vec<PortalOutcome> {
        let (outcome, refused) = self.erase(portal, erasures, lease, deadline).await;
        let mut parts = vec![outcome];
        let alone = erasures.iter().filter(|erasure| refused.contains(&erasure.event.event_id));
        for erasure in alone {
            parts.push(self.erase(portal, std::slice::from_ref(erasure), lease, deadline).await.0);
        }
        parts
    }

    /// Returns what came of it, and the erasures of which nothing came because others were in the same call.
    async fn erase(
        &self,
        portal: &PortalSettings,
        erasures: &[Erasure<'_>],
        lease: &Lease,
        deadline: Instant,
    ) -> (PortalOutcome, HashSet<EventId>) {
        let bucket = Bucket::calls(portal.portal_id, portal.call_limit, portal.call_window);
        let calls = LOOKUPS + u32::try_from(erasures.len()).unwrap_or(u32::MAX);
        let cost = (bucket, Lane::Interactive, calls);
        let calls = match Calls::reserve(self.account(portal), &self.budget, cost, lease, deadline).await {
            Ok(calls) => calls,
            Err(reason) => {
                let mut outcome = PortalOutcome::default();
                for erasure in erasures {
                    outcome.not_started(erasure.event.event_id, &reason);
                }
                return (outcome, HashSet::new());
            }
        };
        failpoint!("worker.after_reserve");
        let ends = self.carry_out_erasures(portal, erasures, &calls).await;
        let made = calls.settle().await;

        let (alone, mut ends): (Vec<_>, Vec<_>) = ends.into_iter().partition(|(_, end)| {
            erasures.len() > 1
                && matches!(end, Err(Obstacle::Refused(refusal)) if refusal.class == Class::WholeBatchInvalid)
        });
        self.wipe(portal, lease, &mut ends).await;
        let conclusion = conclude::conclude(&ends, clock::now());
        self.carry_out(portal, bucket, &conclusion).await;
        let outcome = PortalOutcome { calls: made, ..conclusion.outcome };
        (outcome, alone.into_iter().map(|(erasure, _)| erasure.event.event_id).collect())
    }

    async fn carry_out_erasures<'a>(
        &self,
        portal: &PortalSettings,
        erasures: &'a [Erasure<'a>],
        calls: &Calls<'_>,
    ) -> Vec<(&'a Erasure<'a>, Result<Erased, Obstacle>)> {
        let found = find_records(calls, &portal.unique_property, erasures).await;
        let all: Vec<&FoundRecord> = found.iter().flatten().flatten().collect();
        let in_use = self.in_use(portal, &all).await;
        let ends = erasures.iter().zip(&found).map(async |(erasure, found)| {
            let end = match (found, &in_use) {
                (Ok(records), Ok(in_use)) => remove(calls, &portal.unique_property, erasure, records, in_use).await,
                (Err(obstacle), _) | (Ok(_), Err(obstacle)) => Err(obstacle.clone()),
            };
            (erasure, end)
        });
        stream::iter(ends.collect::<Vec<_>>()).buffer_unordered(CALLS_AT_ONCE).collect().await
    }

    /// Of the records that were found, those that somebody else is on.
    async fn in_use(&self, portal: &PortalSettings, found: &[&FoundRecord]) -> Result<HashSet<RecordId>, Obstacle> {
        if found.is_empty() {
            return Ok(HashSet::new());
        }
        let read = async {
            let connection = self.db.connection().await?;
            db::records_in_use(&*connection, portal.portal_id, found).await
        };
        match read.await {
            Ok(records) => Ok(records.into_iter().collect()),
            Err(error) => {
                tracing::warn!(portal.id = portal.portal_id.0, error = %error, "It can't be told who is on a record, so none is deleted.");
                Err(Obstacle::Unknown)
            }
        }
    }

    /// Wipes what is still stored about those that HubSpot holds no more. It comes before finishing: who crashes in between finds
    /// nothing in HubSpot, and does it once more.
    async fn wipe(
        &self,
        portal: &PortalSettings,
        lease: &Lease,
        ends: &mut [(&Erasure<'_>, Result<Erased, Obstacle>)],
    ) {
        let done: Vec<EventId> =
            ends.iter().filter(|(_, end)| end.is_ok()).map(|(erasure, _)| erasure.event.event_id).collect();
        if done.is_empty() {
            return;
        }
        let gone: Vec<(EventId, Option<RecordId>)> = ends.iter().flat_map(|(erasure, end)| erasure.gone(end)).collect();
        let wiped = async {
            let connection = self.db.connection().await?;
            if !gone.is_empty() {
                db::bury_contact_records(&*connection, portal.portal_id, lease.token, &gone).await?;
            }
            db::wipe_erased(&*connection, lease.token, &done).await
        };
        if let Err(error) = wiped.await {
            tracing::warn!(error = %error, "What is stored about erased contacts could not be wiped yet.");
            ends.iter_mut().filter(|(_, end)| end.is_ok()).for_each(|(_, end)| *end = Err(Obstacle::Unknown));
        }
    }
}

/// The member of the payload that holds the address; the property of that name as well.
const EMAIL: &str = "email";

impl Erasure<'_> {
    /// The records that went with it, and one entry for the erasure itself, since its contact may have had others before.
    fn gone(&self, end: &Result<Erased, Obstacle>) -> Vec<(EventId, Option<RecordId>)> {
        let Ok(Erased::Gone(records)) = end else { return Vec::new() };
        records.iter().copied().map(Some).chain([None]).map(|record| (self.event.event_id, record)).collect()
    }

    /// Its link is forgotten; so are those of all who were the same record, if that is gone.
    fn releases(&self, end: &Erased) -> Vec<ContactRelease> {
        let link = self.contact.record_id.map_or(LinkChange::None, LinkChange::IsNot);
        let leaves = |key: &&ContactKey| matches!(end, Erased::Gone(_)) || **key == self.contact.key;
        let leaving = self.contact.leased.iter().filter(leaves);
        leaving
            .map(|key| ContactRelease { link, ..ContactRelease::unchanged(self.event.portal_id, key.clone()) })
            .collect()
    }
}
