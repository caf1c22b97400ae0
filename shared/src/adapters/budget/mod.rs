//! The budget in Redis: one method a verb, one Lua script and one round trip each, on Redis' own clock.
//!
//! It fails closed: whatever is not a grant (a refusal, an error, an answer that takes too long) means that no call may
//! be made. Every command is bounded by [`COMMAND_TIMEOUT`]. The rules and the proof that the limit holds stand in
//! [`crate::model::budget`], the arithmetic in the scripts beside this file.

mod call;
mod connection;
mod operations;

use std::time::Duration;

use redis::{ErrorKind, FromRedisValue, RedisError};
use thiserror::Error;
use uuid::Uuid;

pub use self::connection::COMMAND_TIMEOUT;
use self::{
    call::{Births, Call, SCRIPTS, Script},
    connection::Connection,
};
use crate::model::budget::{
    Bucket, Confirmation, Coverage, INTERACTIVE_SLOT, Lane, RESERVE_PER_INTERACTIVE_CALL, Refusal, Released,
    Reservation, Reserved, Settlement, least_reserve, most_reserve, spread,
};

/// Ten years in microseconds: longer times are cut, so that every sum of them stays exact in a script's numbers.
const LONGEST_MICROS: u64 = 10 * 365 * 24 * 3600 * 1_000_000;

/// Why the budget gave no answer that allows a call.
#[derive(Debug, Error)]
pub enum BudgetError {
    /// The URL does not name a Redis server. It may hold a password, so the message does not repeat it.
    #[error("the Redis URL of the budget is not valid")]
    InvalidUrl,
    /// More calls at once than the limit in force can ever grant: split the work, or snooze what cannot be split while a
    /// pin or foreign use lowers the limit.
    #[error("{calls} calls at once can never be granted under a limit of {limit}")]
    ImpossibleCost {
        /// Calls asked for.
        calls: u32,
        /// The limit in force, at most the configured one.
        limit: u32,
    },
    /// Redis is away, too slow, or answers something else. No call may be made; snooze, charge no attempt, alarm.
    #[error("the budget in Redis is not available")]
    Unavailable {
        /// What happened.
        source: Unavailable,
    },
}

/// What made the budget unavailable.
#[derive(Debug, Error)]
pub enum Unavailable {
    /// No answer within [`COMMAND_TIMEOUT`]. The command may have been carried out; what it reserved comes back by itself.
    #[error("no answer from Redis within {} ms", COMMAND_TIMEOUT.as_millis())]
    Timeout,
    /// Redis refused, broke off, or answered with an error or in an unknown form.
    #[error(transparent)]
    Redis(#[from] RedisError),
}

/// A handle on the budget of every portal; clones share one connection.
#[derive(Debug, Clone)]
pub struct Budget {
    connection: Connection,
    births: Births,
}

impl Budget {
    /// A budget in the Redis server at `url` (`redis://` or `rediss://`). Does no I/O: the first verb connects.
    pub fn connect(url: &str) -> Result<Self, BudgetError> {
        Ok(Self { connection: Connection::new(url)?, births: Births::default() })
    }

    /// Asks for `calls` calls, all or none.
    ///
    /// `hold` is the time that all of them may need from the first start to the last finish; a holder that crashes is
    /// waited for that long and one window more. A grant with a `start_in` is a booked slot, at most `max_wait` away:
    /// sleep that long, [`confirm`](Self::confirm), then call. No call may start that may finish later than
    /// `start_in + hold` after this answer; the time that the answer took to arrive is held on top.
    ///
    /// Errors: [`BudgetError::ImpossibleCost`], [`BudgetError::Unavailable`].
    pub async fn reserve(
        &self,
        bucket: &Bucket,
        lane: Lane,
        calls: u32,
        hold: Duration,
        max_wait: Duration,
    ) -> Result<Reserved, BudgetError> {
        let granted = |id, start_in| Reserved::Granted(Reservation { id, bucket: *bucket, calls, start_in });
        let id = Uuid::new_v4();
        if calls == 0 {
            return Ok(granted(id, Duration::ZERO));
        }
        let mut call = self.call(&SCRIPTS.reserve, bucket);
        call.arg(id)
            .arg(calls)
            .arg(lane_name(lane))
            .arg(micros(hold.saturating_add(COMMAND_TIMEOUT)))
            .arg(micros(max_wait));
        call.arg(most_reserve(bucket.limit)).arg(least_reserve(bucket.limit));
        call.arg(micros(INTERACTIVE_SLOT)).arg(RESERVE_PER_INTERACTIVE_CALL);

        let (outcome, number, reason): (String, u64, String) = self.run(call).await?;
        match outcome.as_str() {
            "granted" if number <= micros(max_wait) => Ok(granted(id, Duration::from_micros(number))),
            "full" => Ok(refused(number, Refusal::Full)),
            "frozen" => Ok(refused(number, Refusal::Frozen { reason })),
            "impossible" => {
                Err(BudgetError::ImpossibleCost { calls, limit: u32::try_from(number).unwrap_or(bucket.limit) })
            }
            _ => Err(unknown_answer()),
        }
    }

    /// Asks, after the wait for a booked slot, whether the calls may start. A grant without `start_in` needs no confirming.
    pub async fn confirm(&self, reservation: &Reservation) -> Result<Confirmation, BudgetError> {
        if reservation.calls == 0 {
            return Ok(Confirmation::Confirmed);
        }
        let mut call = self.call(&SCRIPTS.confirm, &reservation.bucket);
        call.arg(reservation.id);

        let (outcome, remaining): (String, u64) = self.run(call).await?;
        match outcome.as_str() {
            "confirmed" => Ok(Confirmation::Confirmed),
            "frozen" => Ok(Confirmation::Frozen { remaining: Duration::from_micros(remaining) }),
            "gone" => Ok(Confirmation::Gone),
            _ => Err(unknown_answer()),
        }
    }

    /// Stamps finished calls, each given by how long ago it finished: from then on each is held for one window more. The
    /// rest stays reserved.
    ///
    /// Measure the ages right before this call. A call whose answer was given up on counts as finished when it was given
    /// up. A settlement that fails is neither repeated nor followed by a release: what it missed stays held until the
    /// reservation's deadline and one window more, which is safe.
    pub async fn settle(
        &self,
        reservation: &Reservation,
        finished_ago: &[Duration],
    ) -> Result<Settlement, BudgetError> {
        self.stamp(reservation, "keep", finished_ago).await
    }

    /// Settles like [`settle`](Self::settle) and gives the rest back, in one step: so a failure can't end between the
    /// two, with calls released that have been made.
    pub async fn finish(
        &self,
        reservation: &Reservation,
        finished_ago: &[Duration],
    ) -> Result<Settlement, BudgetError> {
        self.stamp(reservation, "release", finished_ago).await
    }

    /// Gives back what is neither settled nor released. Only calls that were never started may be released,
    /// so never after a settlement that failed.
    pub async fn release(&self, reservation: &Reservation) -> Result<Released, BudgetError> {
        if reservation.calls == 0 {
            return Ok(Released::Returned { calls: 0 });
        }
        let mut call = self.call(&SCRIPTS.release, &reservation.bucket);
        call.arg(reservation.id);

        let (outcome, calls): (String, u32) = self.run(call).await?;
        match outcome.as_str() {
            "returned" => Ok(Released::Returned { calls }),
            "unknown" => Ok(Released::Unknown),
            _ => Err(unknown_answer()),
        }
    }

    async fn stamp(
        &self,
        reservation: &Reservation,
        rest: &str,
        finished_ago: &[Duration],
    ) -> Result<Settlement, BudgetError> {
        if reservation.calls == 0 && finished_ago.is_empty() {
            return Ok(Settlement { coverage: Coverage::Reserved, still_reserved: 0, frozen_for: None });
        }
        let mut call = self.call(&SCRIPTS.settle, &reservation.bucket);
        call.arg(reservation.id).arg(Uuid::new_v4()).arg(rest);
        for age in finished_ago {
            call.arg(age.as_micros());
        }

        let (outcome, uncovered, left, frozen): (String, u32, u32, u64) = self.run(call).await?;
        let coverage = match (outcome.as_str(), uncovered) {
            ("reserved", 0) => Coverage::Reserved,
            ("reserved", calls) => Coverage::Exceeded { calls },
            ("unknown", _) => Coverage::Unknown,
            _ => return Err(unknown_answer()),
        };
        Ok(Settlement { coverage, still_reserved: left, frozen_for: some_micros(frozen) })
    }

    fn call(&self, script: &'static Script, bucket: &Bucket) -> Call {
        let known = self.births.known(bucket);
        let mut call = Call::new(script, bucket);
        call.arg(bucket.limit).arg(micros(bucket.window)).arg(known.birth).arg(known.clock).arg(known.last_end);
        call
    }

    async fn run<T: FromRedisValue>(&self, call: Call) -> Result<T, BudgetError> {
        let answer = self.connection.run(&call).await?;
        self.births.remember(call.bucket, answer.seen);
        Ok(answer.content)
    }
}

fn refused(wait: u64, reason: Refusal) -> Reserved {
    Reserved::Refused { retry_in: spread(Duration::from_micros(wait), rand::random()), reason }
}

fn lane_name(lane: Lane) -> &'static str {
    match lane {
        Lane::Interactive => "interactive",
        Lane::Bulk => "bulk",
    }
}

/// Whole microseconds, the unit of the scripts; rounded up, because a time to hold or to wait may be longer, never
/// shorter. Ages are rounded down for the same reason.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1000)).map_or(LONGEST_MICROS, |micros| micros.min(LONGEST_MICROS))
}

fn some_micros(micros: u64) -> Option<Duration> {
    (micros > 0).then(|| Duration::from_micros(micros))
}

fn unknown_answer() -> BudgetError {
    let source = RedisError::from((ErrorKind::UnexpectedReturnType, "the script answered something unknown"));
    BudgetError::Unavailable { source: source.into() }
}
