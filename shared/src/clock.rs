//! The one place that reads the wall clock.
//!
//! Time is an argument everywhere else, so that a test can say what time it is. Instants that are stored or compared
//! with a database's are read when they are used, never kept across invocations: a sandbox may have been frozen meanwhile.

use jiff::Timestamp;

/// The present instant by the wall clock of this machine.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
