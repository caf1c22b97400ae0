//! What a seed decides before anything runs.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::arguments::{Arguments, Guard};

/// A call may take three fifths of a lease, as in the product: 15 s of 25 s.
const CALL_SHARE: f64 = 0.6;

/// For each request, a run lasts about this long.
const MEAN_PAUSE: Duration = Duration::from_millis(75);

/// The product's own hold of a reservation is 30 s beside a lease of 25 s.
const HOLD_SHARE: f64 = 1.2;

/// The settings of a run.
#[expect(clippy::struct_excessive_bools, reason = "each is drawn, or not, by itself")]
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) rows: usize,
    pub(crate) people: usize,
    pub(crate) lease: Duration,
    pub(crate) window: Duration,
    pub(crate) call_limit: u32,
    /// Shortest and longest latency of a call in ms.
    pub(crate) latency: (u64, u64),
    pub(crate) single: bool,
    /// Trouble lasts this long at least, and until all requests are accepted.
    pub(crate) trouble: Duration,
    /// SQS forgets all its messages now and then.
    pub(crate) queues_forget: bool,
    /// The intake is killed too.
    pub(crate) intake_dies: bool,
    /// People change their addresses.
    pub(crate) moves: bool,
    /// People are erased.
    pub(crate) erasures: bool,
    pub(crate) guard_off: Option<Guard>,
}

impl Scenario {
    /// Draws the settings.
    pub(crate) fn draw(seed: u64, arguments: &Arguments) -> Self {
        let mut dice = Self::dice_of(seed, Stream::Settings);
        // Only who has more to do than the window allows can show that a window is kept.
        let busy = arguments.guard_off == Some(Guard::Window);
        let stale = arguments.guard_off == Some(Guard::Fence);
        // A stale finish has to meet the next owner at work: the sooner that begins and the longer it lasts, the better.
        let drawn_lease = if stale { 2500 } else { dice.random_range(3000..=5000) };
        Self {
            seed,
            rows: arguments.rows,
            people: if busy { 24 } else { dice.random_range(8..=32) },
            lease: Duration::from_millis(arguments.lease_ms.unwrap_or(drawn_lease)),
            window: Duration::from_secs(2),
            latency: if stale { (300, 600) } else { (5, 120) },
            call_limit: dice.random_range(14..=26),
            single: dice.random_bool(0.25) || busy,
            trouble: MEAN_PAUSE.mul_f64(dice.random_range(0.8..1.2))
                * u32::try_from(arguments.rows).unwrap_or(u32::MAX),
            queues_forget: dice.random_bool(0.4),
            intake_dies: dice.random_bool(0.7),
            moves: !arguments.no_moves,
            erasures: !arguments.no_erasures,
            guard_off: arguments.guard_off,
        }
    }

    /// The product's own times and limits, and no trouble.
    pub(crate) fn ordinary(rows: usize) -> Self {
        Self {
            seed: 0,
            rows,
            people: rows,
            lease: Duration::from_secs(25),
            window: Duration::from_secs(10),
            latency: (5, 120),
            call_limit: 150,
            single: false,
            trouble: Duration::ZERO,
            queues_forget: false,
            intake_dies: false,
            moves: false,
            erasures: false,
            guard_off: None,
        }
    }

    /// A sequence of draws of its own for each part of a run, so that one part does not shift another's.
    pub(crate) fn dice(&self, stream: Stream) -> StdRng {
        Self::dice_of(self.seed, stream)
    }

    fn dice_of(seed: u64, stream: Stream) -> StdRng {
        StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(stream.number()))
    }

    /// The time limit of a call under this lease.
    pub(crate) fn call_limit_of_lease(&self) -> Duration {
        self.lease.mul_f64(CALL_SHARE)
    }

    /// Until when the tokens of a dead holder are back.
    pub(crate) fn tokens_back_after(&self) -> Duration {
        self.lease.mul_f64(HOLD_SHARE) + self.window + Duration::from_millis(200)
    }
}

/// A part of a run that draws.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    Settings,
    Start,
    Trouble,
    Client(u64),
}

impl Stream {
    const fn number(self) -> u64 {
        match self {
            Self::Settings => 0,
            Self::Trouble => 1,
            Self::Start => 2,
            Self::Client(number) => 100 + number,
        }
    }
}
