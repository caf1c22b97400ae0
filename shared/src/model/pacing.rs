//! How much is published at once, how long a claim holds, and how long SQS' refusals wait.

use std::time::Duration;

/// A lease of the dispatcher: publishing a claim takes a second or two.
pub const PUBLISH_LEASE: Duration = Duration::from_secs(25);

/// A lease of a worker. Short, so that what a killed worker held is taken over soon; renewed while the batch runs.
pub const WORK_LEASE: Duration = Duration::from_secs(25);

/// How often a running batch renews its leases: three failed renewals in a row still leave time for the last one.
pub const RENEW_EVERY: Duration = Duration::from_secs(5);

/// How long an event waits after its third crash; each further one triples it. Twelve in all span several hours.
pub const CRASH_WAIT: Duration = Duration::from_secs(15);

/// The longest of these waits.
pub const LONGEST_CRASH_WAIT: Duration = Duration::from_hours(1);

/// Refusals of one message by SQS itself (not by the network) before the event is dead.
pub const MOST_PUBLISH_ATTEMPTS: i32 = 10;

/// What one claim of due events may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Most events of a portal and lane in one claim.
    pub events_per_portal_and_lane: u32,
    /// How far ahead bulk work is published: what the budget can use up in this time, and no more, so that SQS never
    /// holds a backlog in which a visitor's sign-up waits behind an import.
    pub bulk_ahead: Duration,
    /// Events that 100 calls carry in batch mode: five calls carry a hundred.
    pub bulk_events_per_100_calls: u32,
    /// Events that 100 calls carry in single mode: about three calls an event.
    pub single_events_per_100_calls: u32,
    /// How long a portal takes after a pause until it is published for as before: what stopped it may stop it again.
    pub back_from_pause: Duration,
    /// Events of a lane with which it begins: a look, and not a storm.
    pub first_after_pause: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            events_per_portal_and_lane: 1000,
            bulk_ahead: Duration::from_secs(30),
            bulk_events_per_100_calls: 2000,
            single_events_per_100_calls: 33,
            back_from_pause: Duration::from_mins(1),
            first_after_pause: 10,
        }
    }
}

/// How long an event waits after SQS refused it for the `attempts`-th time: doubling from a second, at most an hour.
/// `random` in 0..1 spreads the waiters.
pub fn publish_backoff(attempts: i32, random: f64) -> Duration {
    let doublings = attempts.clamp(0, 12);
    let wait = Duration::from_secs(1) * 2_u32.saturating_pow(doublings.unsigned_abs());
    wait.min(Duration::from_hours(1)).mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishing_again_waits_longer_each_time_and_never_over_an_hour() {
        assert_eq!(publish_backoff(0, 1.0), Duration::from_secs(1));
        assert_eq!(publish_backoff(3, 1.0), Duration::from_secs(8));
        assert_eq!(publish_backoff(3, 0.0), Duration::from_secs(4));
        assert_eq!(publish_backoff(i32::MAX, 1.0), Duration::from_hours(1));
    }
}
