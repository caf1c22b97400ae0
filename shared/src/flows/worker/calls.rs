//! The calls that a plan has paid for: each is made once, or not at all.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::adapters::budget::{Budget, BudgetError};
use crate::adapters::hubspot::{Account, CALL_TIME_LIMIT, Call, Class, Sent};
use crate::failpoint::{Guard, failpoint, is_off, scaled};
use crate::model::budget::{Bucket, Confirmation, Lane, RateHeaders, Refusal, Reservation, Reserved};
use crate::model::ids::EventId;

use super::lease::Lease;

/// Why a call was not made. None of these says anything about the event, so none counts as an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotCalled {
    /// The budget has no room; come back after this long.
    NoBudget(Duration),
    /// The budget can't be asked, so no call may be made.
    BudgetAway,
    /// The plan can never be granted: it needs more calls than the portal's limit.
    Impossible,
    /// The lease, the reservation or the invocation would end before the call does.
    NoTime,
    /// An earlier answer stopped the portal.
    Stopped,
    /// Somebody else has the event by now.
    NotOurs,
}

/// What was granted, and what has been made of it.
pub(super) struct Calls<'a> {
    pub(super) account: Account<'a>,
    budget: &'a Budget,
    bucket: Bucket,
    lane: Lane,
    lease: &'a Lease,
    deadline: Instant,
    state: Mutex<State>,
    /// Who may call once HubSpot has said that a record is locked: one at a time, since it locks under bursts.
    turn: Semaphore,
}

#[derive(Default)]
struct State {
    /// The plan's own reservation first, then one for each call more.
    grants: Vec<Grant>,
    stopped: bool,
    locked: bool,
    rate: Option<RateHeaders>,
}

/// A reservation, what is left of it, and until when it may be used.
struct Grant {
    reservation: Reservation,
    left: u32,
    must_finish_by: Instant,
    finished: Vec<Instant>,
    /// Whether the budget has been told already.
    settled: bool,
}

/// How long an answer of the budget that can't be had is waited for before the event comes round again.
pub(super) const WITHOUT_BUDGET: Duration = Duration::from_secs(5);

impl<'a> Calls<'a> {
    /// Reserves all calls of a plan, waiting in place for a slot that leaves enough time for the work: a round through the
    /// queue costs more, and an idle window is lost for good.
    pub(super) async fn reserve(
        account: Account<'a>,
        budget: &'a Budget,
        (bucket, lane, calls): (Bucket, Lane, u32),
        lease: &'a Lease,
        deadline: Instant,
    ) -> Result<Self, NotCalled> {
        let grant = granted(budget, &bucket, lane, calls, deadline).await?;
        let state = State { grants: vec![grant], ..State::default() };
        Ok(Self { account, budget, bucket, lane, lease, deadline, state: Mutex::new(state), turn: Semaphore::new(1) })
    }

    /// Reserves calls beyond the plan's, for a batch that has to be split.
    ///
    /// What is used up is settled first: a long split would else wait for the tokens that it holds itself.
    pub(super) async fn reserve_more(&self, calls: u32) -> Result<(), NotCalled> {
        for (reservation, finished) in self.used_up() {
            self.settle_grant(&reservation, &finished).await;
        }
        let grant = granted(self.budget, &self.bucket, self.lane, calls, self.deadline).await?;
        self.state().grants.push(grant);
        Ok(())
    }

    /// Makes one paid call, unless it could outlive what it was paid from.
    pub(super) async fn make<T>(&self, call: impl Future<Output = Call<T>>) -> Result<Call<T>, NotCalled> {
        let _turn = if self.state().locked { self.turn.acquire().await.ok() } else { None };
        let grant = self.take_token()?;
        let call = call.await;
        failpoint!("worker.after_call");
        let mut state = self.state();
        match call.sent {
            Sent::Maybe => state.grants[grant].finished.push(call.finished_at),
            Sent::No => state.grants[grant].left += 1,
        }
        if call.rate != RateHeaders::default() {
            state.rate = Some(call.rate);
        }
        if let Err(refusal) = &call.result {
            state.stopped |= matches!(refusal.class, Class::RateLimited(_) | Class::Credential(_) | Class::Migrating);
            state.locked |= refusal.class == Class::Locked;
        }
        Ok(call)
    }

    /// Whether the event is still ours to write for.
    pub(super) fn holds(&self, event: EventId) -> bool {
        self.lease.holds(event)
    }

    /// Takes a token of a grant that lasts long enough; returns which grant.
    fn take_token(&self) -> Result<usize, NotCalled> {
        if !self.lease.outlives(scaled(CALL_TIME_LIMIT)) {
            return Err(NotCalled::NoTime);
        }
        let mut state = self.state();
        if state.stopped {
            return Err(NotCalled::Stopped);
        }
        let ends = Instant::now() + scaled(CALL_TIME_LIMIT);
        let usable = |grant: &Grant| grant.left > 0 && ends <= grant.must_finish_by;
        let index = state.grants.iter().position(usable).ok_or(NotCalled::NoTime)?;
        state.grants[index].left -= 1;
        Ok(index)
    }

    /// Stamps what was called, gives back what was not, and passes on what HubSpot said about the window. Returns the number
    /// of calls made.
    ///
    /// When Redis is away nothing is lost: the tokens stay held until each reservation's deadline and a window more.
    pub(super) async fn settle(&self) -> u64 {
        let State { grants, rate, .. } = std::mem::take(&mut *self.state());
        let mut made = 0;
        for grant in grants {
            made += grant.finished.len() as u64;
            if !grant.settled {
                self.settle_grant(&grant.reservation, &grant.finished).await;
            }
        }
        if let Some(rate) = rate.filter(|_| !is_off(Guard::Window))
            && let Err(error) = self.budget.observe(&self.bucket, rate).await
        {
            tracing::warn!(portal.id = self.bucket.portal_id.0, error = %error, "Rate headers could not be noted.");
        }
        made
    }

    async fn settle_grant(&self, reservation: &Reservation, finished: &[Instant]) {
        if is_off(Guard::Window) {
            let _ = self.budget.release(reservation).await;
            return;
        }
        let ages: Vec<Duration> = finished.iter().map(Instant::elapsed).collect();
        if let Err(error) = self.budget.finish(reservation, &ages).await {
            tracing::warn!(portal.id = self.bucket.portal_id.0, error = %error, "Calls could not be settled.");
        }
    }

    /// Grants of which every call was made and answered, each once.
    fn used_up(&self) -> Vec<(Reservation, Vec<Instant>)> {
        let mut state = self.state();
        let is_used_up =
            |grant: &&mut Grant| !grant.settled && grant.finished.len() == grant.reservation.calls as usize;
        let used_up = state.grants.iter_mut().filter(is_used_up).map(|grant| {
            grant.settled = true;
            (grant.reservation.clone(), grant.finished.clone())
        });
        used_up.collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic between two fields can't happen: every section above assigns and returns.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a plan may need from its first call to its last: its three stages take a second or two; a call that would end later
/// than this is not begun. The shorter, the sooner others can count on the tokens.
const HOLD: Duration = Duration::from_secs(30);

/// Reserves, waits for the slot, confirms.
///
/// Every wait is one that the budget named, and ends before the deadline leaves too little time for the work.
async fn granted(
    budget: &Budget,
    bucket: &Bucket,
    lane: Lane,
    calls: u32,
    deadline: Instant,
) -> Result<Grant, NotCalled> {
    loop {
        let now = Instant::now();
        let left = deadline.saturating_duration_since(now);
        if left < scaled(CALL_TIME_LIMIT) {
            return Err(NotCalled::NoTime);
        }
        let hold = scaled(HOLD).min(left);
        let max_wait = left.saturating_sub(hold);
        match budget.reserve(bucket, lane, calls, hold, max_wait).await {
            Ok(Reserved::Granted(reservation)) => {
                let must_finish_by = now + reservation.start_in + hold;
                if reservation.start_in > Duration::ZERO {
                    tokio::time::sleep(reservation.start_in).await;
                    confirm(budget, &reservation).await?;
                }
                return Ok(Grant {
                    left: reservation.calls,
                    reservation,
                    must_finish_by,
                    finished: Vec::new(),
                    settled: false,
                });
            }
            Ok(Reserved::Refused { retry_in, reason: Refusal::Full }) if retry_in < max_wait => {
                tokio::time::sleep(retry_in).await;
            }
            Ok(Reserved::Refused { retry_in, .. }) => return Err(NotCalled::NoBudget(retry_in)),
            // More than the configured limit will never be granted; more than a limit that was lowered for a while will.
            Err(BudgetError::ImpossibleCost { .. }) if calls > bucket.limit => return Err(NotCalled::Impossible),
            Err(BudgetError::ImpossibleCost { .. }) => return Err(NotCalled::NoBudget(bucket.window)),
            Err(error) => {
                tracing::error!(portal.id = bucket.portal_id.0, error = %error, "The budget can't be asked, so no call is made.");
                return Err(NotCalled::BudgetAway);
            }
        }
    }
}

async fn confirm(budget: &Budget, reservation: &Reservation) -> Result<(), NotCalled> {
    match budget.confirm(reservation).await {
        Ok(Confirmation::Confirmed) => Ok(()),
        Ok(Confirmation::Frozen { remaining }) => {
            // Its tokens would come back by themselves; giving them back now lets others start sooner.
            let _ = budget.release(reservation).await;
            Err(NotCalled::NoBudget(remaining))
        }
        Ok(Confirmation::Gone) => Err(NotCalled::NoBudget(WITHOUT_BUDGET)),
        Err(_) => Err(NotCalled::BudgetAway),
    }
}
