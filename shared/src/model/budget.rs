//! The budget of calls: what may be asked of it, what it answers, and the rules that need no Redis.
//!
//! A bucket is a rolling window of one portal. A token is held from the moment it is reserved until one window after its
//! call has finished. `HubSpot` counts a call at some moment between its start and its finish, so at that moment and for
//! the whole window that follows the call holds a token: the number of tokens held bounds what `HubSpot` counts in any
//! window, and the number of tokens held never exceeds the limit.

use std::time::Duration;

use uuid::Uuid;

use super::ids::PortalId;

/// Calls in ten seconds that an Enterprise or Professional portal may be trusted with: 190 by `HubSpot`'s usage
/// guidelines, less a margin for what else calls with the same token.
pub const DEFAULT_CALL_LIMIT: u32 = 150;

/// The rolling window of the general limit, by `HubSpot`'s usage guidelines.
pub const CALL_WINDOW: Duration = Duration::from_secs(10);

/// Search requests a second, for a whole account, by `HubSpot`'s usage guidelines. They count in no other window.
pub const SEARCH_LIMIT: u32 = 5;

/// The rolling window of the search limit.
pub const SEARCH_WINDOW: Duration = Duration::from_secs(1);

/// Part of the limit, in percent, that bulk work leaves free for interactive work at the most: at 150 calls it is 30, six
/// sign-ups at once.
pub const MOST_RESERVE_PERCENT: u32 = 20;

/// Calls that bulk work leaves free however quiet it is: what one event costs at most, so that the first sign-up after a
/// quiet time finds its calls free.
pub const LEAST_RESERVE_CALLS: u32 = 5;

/// Calls that bulk work leaves free for each call that interactive work asked for lately: as much again, and once more for
/// its growing. So one sign-up in an hour costs an import next to nothing, and a rush finds room.
pub const RESERVE_PER_INTERACTIVE_CALL: u32 = 2;

/// Interactive demand is counted in slots of this length; the present and the last one count.
pub const INTERACTIVE_SLOT: Duration = Duration::from_secs(10);

/// Waiters are spread over at least this much time, however short their wait, so that they never return together.
pub const LEAST_SPREAD: Duration = Duration::from_millis(100);

/// Waiters are spread over at most this much time: after a freeze of hours, half a minute of ramp is enough.
pub const MOST_SPREAD: Duration = Duration::from_secs(30);

/// Which of a portal's windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BucketName {
    /// The general window: every call but search.
    Calls,
    /// Search requests.
    Search,
}

impl BucketName {
    /// The name as it stands in keys and in the output of commands.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Search => "search",
        }
    }
}

/// A rolling window: at most `limit` calls in any `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// The account.
    pub portal_id: PortalId,
    /// Which window of the portal.
    pub name: BucketName,
    /// Calls in any window. Headers and operators lower it for a time, nothing raises it.
    pub limit: u32,
    /// Length of the window.
    pub window: Duration,
}

impl Bucket {
    /// The portal's general window.
    pub const fn calls(portal_id: PortalId, limit: u32, window: Duration) -> Self {
        Self { portal_id, name: BucketName::Calls, limit, window }
    }

    /// The portal's window for search requests, whose size is the same for every account.
    pub const fn search(portal_id: PortalId) -> Self {
        Self { portal_id, name: BucketName::Search, limit: SEARCH_LIMIT, window: SEARCH_WINDOW }
    }
}

/// Who asks for calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// A visitor waits: may use the whole limit.
    Interactive,
    /// An import, a replay, a reconciliation: leaves a reserve.
    Bulk,
}

/// Calls granted together. It is not a guard: dropping it gives nothing back, as a crash would not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Identity in the bucket.
    pub id: Uuid,
    /// The bucket that granted it.
    pub bucket: Bucket,
    /// How many calls it allows.
    pub calls: u32,
    /// No call may start earlier than this after the grant. Zero: at once. Longer: sleep this long, then confirm.
    pub start_in: Duration,
}

/// Answer to a request for calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// All calls asked for are granted, at once or from `start_in` on.
    Granted(Reservation),
    /// Nothing is granted and nothing is held. No call may be made.
    Refused {
        /// When to ask again; different for each caller, so that waiters do not return together.
        retry_in: Duration,
        /// Why.
        reason: Refusal,
    },
}

/// Why no calls were granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The calls do not become free within the longest wait that the caller allowed, or only behind calls under way that
    /// may take more than a window longer than they are expected to.
    Full,
    /// Everybody has been stopped.
    Frozen {
        /// What the one who froze it said.
        reason: String,
    },
}

/// Answer to a holder that has waited for its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// The calls may start.
    Confirmed,
    /// Everybody has been stopped meanwhile: make no call, release the reservation.
    Frozen {
        /// How long the freeze still lasts.
        remaining: Duration,
    },
    /// The reservation is over, by its deadline or because Redis lost it: make no call.
    Gone,
}

/// What the bucket knew of the calls that were settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// All of them had been reserved.
    Reserved,
    /// This many were more than the reservation allowed. They are held for a window all the same, because they happened.
    Exceeded {
        /// Calls without a token of their own.
        calls: u32,
    },
    /// The reservation is over or was lost with Redis. The calls are held for a window all the same; make no more.
    Unknown,
}

/// Answer to settling finished calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settlement {
    /// How the finished calls were covered.
    pub coverage: Coverage,
    /// Calls of the reservation that may still be made, or released.
    pub still_reserved: u32,
    /// Set while everybody is stopped: make no further call.
    pub frozen_for: Option<Duration>,
}

/// Answer to giving calls back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// This many calls were given back.
    Returned {
        /// Calls that had been neither settled nor released.
        calls: u32,
    },
    /// Nothing was left to give back: settled in full, released before, over, or lost with Redis.
    Unknown,
}

/// A freeze in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freeze {
    /// How long it still lasts.
    pub remaining: Duration,
    /// What the one who froze it said.
    pub reason: String,
}

/// What a bucket looks like at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetState {
    /// The configured limit.
    pub limit: u32,
    /// The limit in force, after a pin and foreign use.
    pub effective_limit: u32,
    /// Tokens held: reserved and settled.
    pub held: u32,
    /// Tokens of calls that have not finished, the booked ones included.
    pub reserved: u32,
    /// Tokens of finished calls, and those held back.
    pub settled: u32,
    /// Calls of reservations whose time to start has not come.
    pub booked: u32,
    /// The limit set by an operator, while it is in force.
    pub pinned: Option<u32>,
    /// Calls of others that the last headers gave away, while remembered.
    pub foreign: u32,
    /// The freeze in force, if any.
    pub frozen: Option<Freeze>,
    /// When the next held token becomes free; none while nothing is held.
    pub next_free_in: Option<Duration>,
    /// Calls that interactive work asked for lately.
    pub interactive_demand: u32,
}

/// What the headers of an answer say about the window: `X-HubSpot-RateLimit-Max`, `-Remaining` and
/// `-Interval-Milliseconds`. Each may be missing; answers to search requests carry none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateHeaders {
    /// Calls allowed in the interval.
    pub max: Option<u32>,
    /// Calls left in the interval.
    pub remaining: Option<u32>,
    /// Length of the interval.
    pub interval: Option<Duration>,
}

impl RateHeaders {
    /// Maximum and remainder, if the headers name both and do not speak of another window.
    pub fn about(&self, window: Duration) -> Option<(u32, u32)> {
        if self.interval.is_some_and(|interval| interval != window) {
            return None;
        }
        self.max.zip(self.remaining)
    }
}

/// The most that bulk work leaves free; never everything, so that a small limit does not shut it out.
pub fn most_reserve(limit: u32) -> u32 {
    let part = (u64::from(limit) * u64::from(MOST_RESERVE_PERCENT)).div_ceil(100);
    u32::try_from(part).unwrap_or(limit).min(limit.saturating_sub(1))
}

/// The least that bulk work leaves free.
pub fn least_reserve(limit: u32) -> u32 {
    LEAST_RESERVE_CALLS.min(most_reserve(limit))
}

/// When to ask again after being told to wait: never earlier than told, later by a part of the wait that `random`, in
/// `0.0..1.0`, chooses.
pub fn spread(wait: Duration, random: f64) -> Duration {
    wait + wait.clamp(LEAST_SPREAD, MOST_SPREAD).mul_f64(random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_leaves_between_one_event_s_calls_and_a_fifth() {
        assert_eq!((least_reserve(150), most_reserve(150)), (LEAST_RESERVE_CALLS, 30));
        assert_eq!(most_reserve(151), 31);
    }

    #[test]
    fn a_small_limit_never_shuts_bulk_out() {
        for limit in 1..=60 {
            assert!(least_reserve(limit) <= most_reserve(limit) && most_reserve(limit) < limit, "limit {limit}");
        }
        assert_eq!(most_reserve(0), 0);
        assert_eq!(most_reserve(u32::MAX), 858_993_459);
    }

    #[test]
    fn nobody_returns_earlier_than_told_nor_later_than_twice_the_wait() {
        let wait = Duration::from_secs(10);
        assert_eq!(spread(wait, 0.0), wait);
        assert_eq!(spread(wait, 0.5), Duration::from_secs(15));
        assert_eq!(spread(wait, 1.0), Duration::from_secs(20));
    }

    #[test]
    fn the_spread_has_a_floor_and_a_ceiling() {
        assert_eq!(spread(Duration::ZERO, 1.0), LEAST_SPREAD);
        let night = Duration::from_hours(8);
        assert_eq!(spread(night, 1.0), night + MOST_SPREAD);
    }

    #[test]
    fn headers_of_another_window_say_nothing() {
        let headers = RateHeaders { max: Some(190), remaining: Some(12), interval: Some(Duration::from_secs(1)) };
        assert_eq!(headers.about(CALL_WINDOW), None);
        assert_eq!(headers.about(Duration::from_secs(1)), Some((190, 12)));
    }

    #[test]
    fn headers_without_a_number_say_nothing_and_without_an_interval_are_taken_at_their_word() {
        let headers = RateHeaders { max: Some(190), remaining: None, interval: None };
        assert_eq!(headers.about(CALL_WINDOW), None);
        let headers = RateHeaders { max: Some(190), remaining: Some(0), interval: None };
        assert_eq!(headers.about(CALL_WINDOW), Some((190, 0)));
    }
}
