//! Crash tests only: named points at which a process can be made to end, times that can be shortened, and guards that can be
//! taken away. Without the feature `failpoints` all of this is nothing: no name, no variable, no branch is compiled in.

#[cfg(feature = "failpoints")]
mod armed;
#[cfg(not(feature = "failpoints"))]
mod unarmed;

#[cfg(feature = "failpoints")]
pub use armed::{NAMES, SHORTEST_LEASE, arm};
#[cfg(feature = "failpoints")]
pub(crate) use armed::{guarded, is_off, reach, reach_holding, scaled};
#[cfg(not(feature = "failpoints"))]
pub(crate) use unarmed::{guarded, is_off, scaled};

/// What keeps owners apart, as far as a crash test can take it away to see whether anybody would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// A claim leaves contacts alone that another worker holds.
    Lease,
    /// A finish changes only what is still ours.
    Fence,
    /// A token is held until a window after its call, and what HubSpot's headers count beside it is heeded.
    Window,
}

/// A point at which a crash test may end the process.
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(feature = "failpoints")]
        $crate::failpoint::reach($name);
    };
    ($name:literal, $held:expr) => {
        #[cfg(feature = "failpoints")]
        $crate::failpoint::reach_holding($name, $held);
    };
}

pub(crate) use failpoint;
