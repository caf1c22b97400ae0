//! The emulator's clock: the wall clock plus an offset that a test moves forward.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;

/// A moment of the emulator's clock, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(i64);

impl Moment {
    /// The moment `span` later; a span too long to count ends at the last moment there is.
    pub(crate) fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(milliseconds(span)))
    }

    /// How long it is until `later`; zero when it has passed.
    pub(crate) fn until(self, later: Self) -> Duration {
        let span = later.0.saturating_sub(self.0);
        Duration::from_millis(u64::try_from(span).unwrap_or(0))
    }

    /// Milliseconds since 1970, as SQS writes the times of messages.
    pub(crate) fn as_milliseconds(self) -> i64 {
        self.0
    }

    /// Seconds since 1970, as SQS writes the times of queues.
    pub(crate) fn as_seconds(self) -> i64 {
        self.0 / 1_000
    }
}

/// The clock that decides on visibility, delay and retention.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    offset_ms: AtomicI64,
}

impl Clock {
    /// The present moment.
    #[expect(clippy::disallowed_methods, reason = "the emulator's one reading of the wall clock")]
    pub(crate) fn now(&self) -> Moment {
        let wall = Timestamp::now().as_millisecond();
        Moment(wall.saturating_add(self.offset_ms.load(Ordering::Acquire)))
    }

    /// Moves the clock forward by `span`.
    pub(crate) fn advance(&self, span: Duration) {
        self.offset_ms.fetch_add(milliseconds(span), Ordering::AcqRel);
    }
}

fn milliseconds(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}
