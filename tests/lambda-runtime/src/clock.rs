//! The wall clock, of which a deadline is an instant.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds from 1970 until so long from now, as Lambda gives deadlines.
#[expect(clippy::disallowed_methods, reason = "a deadline of the wall clock is made where Lambda would make it")]
pub(crate) fn unix_millis_in(span: Duration) -> u128 {
    (SystemTime::now() + span).duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis())
}
