//! One HTTP call with everything that its caller has to settle.

use std::time::{Duration, Instant};

use crate::model::budget::RateHeaders;
use crate::model::outcome::Refusal;

/// One HTTP call: its result, and what the budget needs to know about it.
#[derive(Debug, Clone)]
pub struct Call<T> {
    /// What came of it.
    pub result: Result<T, Refusal>,
    /// Whether a request may have left, so that its token has to be settled rather than released.
    pub sent: Sent,
    /// The headers on the rolling window.
    pub rate: RateHeaders,
    /// The headers on the account's day; not sent to OAuth apps.
    pub daily: DailyHeaders,
    /// HubSpot's id of the call, for its support.
    pub correlation_id: Option<String>,
    /// When the last byte was read or the call was given up. HubSpot counted it at this instant or before.
    pub finished_at: Instant,
    /// From the start to `finished_at`.
    pub duration: Duration,
}

/// Whether a request may have left this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Yes, or nobody can tell.
    Maybe,
    /// No: there was nothing to send, or what there was is not allowed.
    No,
}

/// `X-HubSpot-RateLimit-Daily` and `-Daily-Remaining`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DailyHeaders {
    /// Calls allowed in the account's day.
    pub limit: Option<u64>,
    /// Calls left in it.
    pub remaining: Option<u64>,
}

impl<T> Call<T> {
    /// A call that was not made.
    pub(super) fn unmade(result: Result<T, Refusal>) -> Self {
        Self {
            result,
            sent: Sent::No,
            rate: RateHeaders::default(),
            daily: DailyHeaders::default(),
            correlation_id: None,
            finished_at: Instant::now(),
            duration: Duration::ZERO,
        }
    }

    /// The same call around another value.
    pub fn map<S>(self, change: impl FnOnce(T) -> S) -> Call<S> {
        Call {
            result: self.result.map(change),
            sent: self.sent,
            rate: self.rate,
            daily: self.daily,
            correlation_id: self.correlation_id,
            finished_at: self.finished_at,
            duration: self.duration,
        }
    }
}
