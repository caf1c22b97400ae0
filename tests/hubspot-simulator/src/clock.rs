//! The only place that reads a clock; everything else is given a [`Moment`].

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

/// One instant on two clocks: the monotonic one that limits use and the wall clock that records carry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Since the simulator started.
    pub(crate) elapsed: Duration,
    /// With millisecond precision, as HubSpot has it.
    pub(crate) at: Timestamp,
}

/// The simulator's clock; a test may move it forward instead of sleeping.
pub(crate) struct Clock {
    started: Instant,
    ahead: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), ahead: Duration::ZERO }
    }

    pub(crate) fn now(&self) -> Moment {
        let ahead = SignedDuration::try_from(self.ahead).unwrap_or(SignedDuration::ZERO);
        let wall = wall();
        Moment {
            elapsed: self.started.elapsed() + self.ahead,
            at: to_milliseconds(wall.checked_add(ahead).unwrap_or(wall)),
        }
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.ahead += by;
    }
}

/// The time of this machine.
#[expect(clippy::disallowed_methods, reason = "this is the one place of the crate that reads the clock")]
pub(crate) fn wall() -> Timestamp {
    Timestamp::now()
}

/// Cuts to the precision that HubSpot stores.
pub(crate) fn to_milliseconds(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at)
}

/// ISO 8601 with three decimals and `Z`, as in HubSpot's answers.
pub(crate) fn iso(at: Timestamp) -> String {
    format!("{at:.3}")
}
