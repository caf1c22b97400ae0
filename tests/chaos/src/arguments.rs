//! What can be said on the command line.

use clap::{Parser, ValueEnum};

/// Kills and stops the stack at random, and checks that nothing that was accepted is lost or overtaken.
///
/// The servers are those that `HUBFERRY_TEST_DATABASE_URL` and `HUBFERRY_TEST_REDIS_URL` name: `make chaos` starts them.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[derive(Debug, Parser)]
#[command(name = "hubferry-chaos", max_term_width = 120)]
pub(crate) struct Arguments {
    /// The first seed; each seed draws another run
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// How many seeds
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seeds: u64,
    /// How many of them at once: most of a run is waiting
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) at_once: u8,
    /// Requests that are accepted in a run, about
    #[arg(long, default_value_t = 200, value_name = "N")]
    pub(crate) rows: usize,
    /// Length of a lease in ms, instead of a drawn one; the product's own is 25000
    #[arg(long, value_name = "MS")]
    pub(crate) lease_ms: Option<u64>,
    /// Nobody changes address
    #[arg(long)]
    pub(crate) no_moves: bool,
    /// Nobody is erased
    #[arg(long)]
    pub(crate) no_erasures: bool,
    /// Take a guard away: the run has to fail
    #[arg(long, value_name = "GUARD")]
    pub(crate) guard_off: Option<Guard>,
    /// Instead of seeds: kill a worker in the middle of a batch, with the product's own times, and say how long the others
    /// take to finish all that it held
    #[arg(long)]
    pub(crate) takeover: bool,
    /// Stop at the first seed that fails
    #[arg(long)]
    pub(crate) fail_fast: bool,
    /// Keep the database and the logs of a seed that failed
    #[arg(long)]
    pub(crate) keep: bool,
}

/// What keeps owners apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Guard {
    /// A claim leaves contacts alone that another worker holds
    Lease,
    /// A finish changes only what is still its owner's
    Fence,
    /// A token is held until a window after its call
    Window,
}

impl Guard {
    /// As the stack's processes are told.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Fence => "fence",
            Self::Window => "window",
        }
    }
}
