//! What people and answers do to a bucket: freeze, resume, pin, observe, reset, inspect.

use std::time::Duration;

use super::{Budget, BudgetError, call::SCRIPTS, micros, some_micros};
use crate::model::budget::{Bucket, BudgetState, Freeze, INTERACTIVE_SLOT, RateHeaders};

/// Characters of a freeze's reason that are kept: a sentence, not a body.
const LONGEST_REASON: usize = 200;

impl Budget {
    /// Stops everybody for a time, and answers how long the freeze in force lasts: a longer one stays as it is. The
    /// reason is shown to people; it holds no personal data.
    pub async fn freeze(&self, bucket: &Bucket, time: Duration, reason: &str) -> Result<Duration, BudgetError> {
        let reason: String = reason.chars().take(LONGEST_REASON).collect();
        let mut call = self.call(&SCRIPTS.freeze, bucket);
        call.arg(micros(time)).arg(reason);
        let (remaining,): (u64,) = self.run(call).await?;
        Ok(Duration::from_micros(remaining))
    }

    /// Ends a freeze.
    pub async fn resume(&self, bucket: &Bucket) -> Result<(), BudgetError> {
        self.run(self.call(&SCRIPTS.resume, bucket)).await
    }

    /// Lowers the limit for a time, or ends that with `None`; answers the limit in force. A pin above the configured limit
    /// changes nothing.
    pub async fn pin(&self, bucket: &Bucket, limit: Option<u32>, time: Duration) -> Result<u32, BudgetError> {
        let limit = limit.map_or_else(String::new, |calls| calls.to_string());
        let mut call = self.call(&SCRIPTS.pin, bucket);
        call.arg(limit).arg(micros(time));
        let (effective,): (u32,) = self.run(call).await?;
        Ok(effective)
    }

    /// Learns from an answer's headers how much others use, and lowers the limit by it for one window. Answers the limit
    /// in force, or nothing where the headers say nothing about this window; then Redis is not asked.
    pub async fn observe(&self, bucket: &Bucket, headers: RateHeaders) -> Result<Option<u32>, BudgetError> {
        let Some((maximum, remaining)) = headers.about(bucket.window) else {
            return Ok(None);
        };
        let mut call = self.call(&SCRIPTS.observe, bucket);
        call.arg(maximum).arg(remaining);
        let (effective,): (u32,) = self.run(call).await?;
        Ok(Some(effective))
    }

    /// Forgets reservations, freeze, pin and foreign use. The whole limit is held back for one window, so that even
    /// this causes no more calls than allowed; holders are told that their reservation is gone.
    pub async fn reset(&self, bucket: &Bucket) -> Result<(), BudgetError> {
        self.run(self.call(&SCRIPTS.reset, bucket)).await
    }

    /// Shows the bucket and changes nothing.
    pub async fn inspect(&self, bucket: &Bucket) -> Result<BudgetState, BudgetError> {
        let mut call = self.call(&SCRIPTS.inspect, bucket);
        call.arg(micros(INTERACTIVE_SLOT));
        let answer: Inspection = self.run(call).await?;
        Ok(state(bucket.limit, answer))
    }
}

/// Answer of `inspect.lua`: effective limit, reserved, settled, booked, pin or -1, foreign, freeze, its reason, next end,
/// calls that interactive work asked for lately.
type Inspection = (u32, u32, u32, u32, i64, u32, u64, String, u64, u32);

fn state(limit: u32, answer: Inspection) -> BudgetState {
    let (effective_limit, reserved, settled, booked, pin, foreign, frozen, reason, next_end, interactive_demand) =
        answer;
    BudgetState {
        limit,
        effective_limit,
        held: reserved + settled,
        reserved,
        settled,
        booked,
        pinned: u32::try_from(pin).ok(),
        foreign,
        frozen: some_micros(frozen).map(|remaining| Freeze { remaining, reason }),
        next_free_in: some_micros(next_end),
        interactive_demand,
    }
}
