//! The lease of a running batch: how long it still holds, and over what.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::adapters::db::{self, ClaimedBatch, Db};
use crate::failpoint::scaled;
use crate::model::ids::{ContactKey, EventId, LeaseToken, PortalId};
use crate::model::pacing::{RENEW_EVERY, WORK_LEASE};

/// What this batch holds. Counted by this machine's monotonic clock from before each statement was sent, so that it never
/// believes in a lease that PostgreSQL has ended.
pub(super) struct Lease {
    pub(super) token: LeaseToken,
    /// With the contacts that each is written to.
    events: HashMap<EventId, Vec<(PortalId, ContactKey)>>,
    held: Mutex<Held>,
}

struct Held {
    until: Instant,
    events: HashSet<EventId>,
}

impl Lease {
    pub(super) fn new(token: LeaseToken, claimed_at: Instant, batch: &ClaimedBatch) -> Self {
        let claimed = batch.portals.values().flat_map(|(_, events)| events).map(|event| {
            let contacts = event.contact.leased.iter().map(|key| (event.portal_id, key.clone()));
            (event.event_id, contacts.collect())
        });
        let plain = batch.without_stream.values().flat_map(|(_, events)| events);
        let plain = plain.map(|event| (event.event_id, event.leased().collect()));
        let unreadable = batch.unreadable.iter().map(|event| (event.event_id, event.contacts.clone()));
        let events: HashMap<EventId, Vec<(PortalId, ContactKey)>> = claimed.chain(plain).chain(unreadable).collect();
        let held = Held { until: claimed_at + scaled(WORK_LEASE), events: events.keys().copied().collect() };
        Self { token, events, held: Mutex::new(held) }
    }

    /// Whether a call that takes at most this long ends before the lease does.
    pub(super) fn outlives(&self, call: Duration) -> bool {
        Instant::now() + call <= self.held().until
    }

    /// Whether the event and its contacts are still ours: somebody may have cancelled it, or this process may have stood still
    /// for so long that others took them.
    pub(super) fn holds(&self, event: EventId) -> bool {
        self.held().events.contains(&event)
    }

    /// Does the work, and renews the lease every few seconds until it is done.
    pub(super) async fn renewed_during<T>(&self, db: &Db, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            done = work => done,
            () = self.renew_for_ever(db) => unreachable!("renewing does not end"),
        }
    }

    async fn renew_for_ever(&self, db: &Db) {
        loop {
            tokio::time::sleep(scaled(RENEW_EVERY)).await;
            let asked_at = Instant::now();
            match self.renew(db).await {
                Ok(events) => *self.held() = Held { until: asked_at + scaled(WORK_LEASE), events },
                // The lease goes on until its end, and with it the right to call.
                Err(error) => tracing::warn!(error = %error, "The leases of a batch could not be renewed."),
            }
        }
    }

    /// The events that are held with all their contacts.
    ///
    /// Somebody may have taken the contacts of an event that nobody has come for yet: a contact is taken with whichever
    /// event of it comes first.
    async fn renew(&self, db: &Db) -> Result<HashSet<EventId>, db::DbFailure> {
        let events: Vec<EventId> = self.events.keys().copied().collect();
        let contacts: HashSet<_> = self.events.values().flatten().cloned().collect();
        let contacts: Vec<_> = contacts.into_iter().collect();
        let connection = db.connection().await?;
        let mut renewed = db::renew_leases(&*connection, self.token, scaled(WORK_LEASE), &events, &contacts).await?;
        renewed.events.retain(|event| {
            self.events
                .get(event)
                .is_some_and(|contacts| contacts.iter().all(|contact| renewed.contacts.contains(contact)))
        });
        Ok(renewed.events)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        // A panic elsewhere can't leave this half-written: it is replaced as a whole.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
