//! The lease of a running batch: how long it still holds, and over what.

use std::collections::HashSet;
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
    events: Vec<EventId>,
    contacts: Vec<(PortalId, ContactKey)>,
    held: Mutex<Held>,
}

struct Held {
    until: Instant,
    events: HashSet<EventId>,
}

impl Lease {
    pub(super) fn new(token: LeaseToken, claimed_at: Instant, batch: &ClaimedBatch) -> Self {
        let claimed = || batch.portals.values().flat_map(|(_, events)| events);
        let unreadable = || batch.unreadable.iter();
        let events: Vec<EventId> =
            claimed().map(|event| event.event_id).chain(unreadable().map(|event| event.event_id)).collect();
        let contacts: HashSet<(PortalId, ContactKey)> = claimed()
            .flat_map(|event| event.contact.leased.iter().map(|key| (event.portal_id, key.clone())))
            .chain(unreadable().flat_map(|event| event.contacts.clone()))
            .collect();
        let held = Held { until: claimed_at + scaled(WORK_LEASE), events: events.iter().copied().collect() };
        Self { token, events, contacts: contacts.into_iter().collect(), held: Mutex::new(held) }
    }

    /// Whether a call that takes at most this long ends before the lease does.
    pub(super) fn outlives(&self, call: Duration) -> bool {
        Instant::now() + call <= self.held().until
    }

    /// Whether the event is still ours: somebody may have cancelled it.
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
                Ok(events) => {
                    *self.held() = Held { until: asked_at + scaled(WORK_LEASE), events: events.into_iter().collect() }
                }
                // The lease goes on until its end, and with it the right to call.
                Err(error) => tracing::warn!(error = %error, "The leases of a batch could not be renewed."),
            }
        }
    }

    async fn renew(&self, db: &Db) -> Result<Vec<EventId>, db::DbFailure> {
        let connection = db.connection().await?;
        db::renew_leases(&*connection, self.token, scaled(WORK_LEASE), &self.events, &self.contacts).await
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        // A panic elsewhere can't leave this half-written: it is replaced as a whole.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
