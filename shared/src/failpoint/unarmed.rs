//! What an ordinary build is left with: times as they are, guards in their places.

use std::borrow::Cow;
use std::time::Duration;

use super::Guard;

/// A time of the lease rule, as it is.
pub(crate) const fn scaled(time: Duration) -> Duration {
    time
}

/// No guard is ever off.
pub(crate) const fn is_off(_guard: Guard) -> bool {
    false
}

/// A statement, with its guard.
pub(crate) const fn guarded(_guard: Guard, statement: &'static str) -> Cow<'static, str> {
    Cow::Borrowed(statement)
}
