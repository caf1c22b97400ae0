//! Failures on demand.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

use crate::error::{Culprit, SqsError};

/// A failure to be played, as the Rust interface and `POST /__emulator/faults` take it.
///
/// As JSON: `{"kind": {"entry_failure": {"code": "InternalError", "sender_fault": false}}, "times": {"next": 2},
/// "queue": "bulk", "positions": [3, 4]}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// How often; always unless told otherwise.
    #[serde(default)]
    pub times: Times,
    /// Only on the queue of this name.
    #[serde(default)]
    pub queue: Option<String>,
    /// Only in calls of this action, for example `SendMessageBatch`. Faults of entries are about `SendMessageBatch`
    /// when no action is named; faults of calls about every action.
    #[serde(default)]
    pub action: Option<String>,
    /// Only on entries at these positions of a batch, counted from 0; empty means all.
    #[serde(default)]
    pub positions: Vec<usize>,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// An entry of a batch ends in `Failed`, without effect.
    EntryFailure {
        /// Its error code, for example `InternalError`.
        code: String,
        /// Whether the answer blames the sender.
        sender_fault: bool,
    },
    /// An entry of a batch is in neither list of the answer.
    EntryOmitted {
        /// Whether it took effect all the same.
        effect: bool,
    },
    /// A received message stays in the queue as a second copy with the same message id.
    DuplicateDelivery,
    /// A sent message shows later than the sender asked.
    DelayedDelivery {
        /// Seconds on top of the asked delay.
        seconds: u64,
    },
    /// The call is answered with HTTP 503, without effect.
    Unavailable,
    /// The connection ends without an answer, and the call has no effect.
    CutBeforeEffect,
    /// The connection ends without an answer, after the call took effect.
    CutAfterEffect,
}

/// How often a fault strikes. The unit is what the fault is about: a call, an entry of a batch, or a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Times {
    /// Each time, until the faults are cleared.
    #[default]
    Always,
    /// The next so many times.
    Next(u32),
    /// A share of the times, drawn from a seeded sequence.
    Share {
        /// Between 0 and 1.
        ratio: f64,
        /// The same seed draws the same sequence.
        seed: u64,
    },
}

impl Fault {
    /// A fault that strikes always and everywhere.
    pub fn new(kind: FaultKind) -> Self {
        Self { kind, times: Times::Always, queue: None, action: None, positions: Vec::new() }
    }

    /// The same fault, for the next `count` times.
    #[must_use]
    pub fn next(mut self, count: u32) -> Self {
        self.times = Times::Next(count);
        self
    }

    /// The same fault, for a share of the times.
    #[must_use]
    pub fn share(mut self, ratio: f64, seed: u64) -> Self {
        self.times = Times::Share { ratio, seed };
        self
    }

    /// The same fault, on one queue.
    #[must_use]
    pub fn on_queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// The same fault, in calls of one action.
    #[must_use]
    pub fn on_action(mut self, action: impl Into<String>) -> Self {
        self.action = Some(action.into());
        self
    }

    /// The same fault, on entries at these positions of a batch, counted from 0.
    #[must_use]
    pub fn at_positions(mut self, positions: impl IntoIterator<Item = usize>) -> Self {
        self.positions = positions.into_iter().collect();
        self
    }
}

/// What happens to a call as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallFault {
    Unavailable,
    CutBeforeEffect,
    CutAfterEffect,
}

/// What happens to one entry of a batch.
#[derive(Debug)]
pub(crate) enum EntryFault {
    Fails(SqsError),
    Omitted { effect: bool },
}

/// Where a fault could strike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occasion<'a> {
    pub(crate) action: &'a str,
    pub(crate) queue: &'a str,
    pub(crate) position: Option<usize>,
}

/// The faults that wait to strike, in the order in which they were asked for.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    armed: Vec<Armed>,
}

#[derive(Debug)]
struct Armed {
    fault: Fault,
    draws: StdRng,
}

impl Faults {
    /// Asks for a fault.
    pub(crate) fn add(&mut self, fault: Fault) {
        let seed = if let Times::Share { seed, .. } = fault.times { seed } else { 0 };
        self.armed.push(Armed { fault, draws: StdRng::seed_from_u64(seed) });
    }

    /// Forgets all faults.
    pub(crate) fn clear(&mut self) {
        self.armed.clear();
    }

    /// The faults that are left, with the times that are left.
    pub(crate) fn left(&self) -> Vec<Fault> {
        self.armed.iter().map(|armed| armed.fault.clone()).collect()
    }

    /// What happens to a call.
    pub(crate) fn strike_call(&mut self, occasion: Occasion<'_>) -> Option<CallFault> {
        self.strike(occasion, |kind| match kind {
            FaultKind::Unavailable => Some(CallFault::Unavailable),
            FaultKind::CutBeforeEffect => Some(CallFault::CutBeforeEffect),
            FaultKind::CutAfterEffect => Some(CallFault::CutAfterEffect),
            _ => None,
        })
    }

    /// What happens to an entry of a batch.
    pub(crate) fn strike_entry(&mut self, occasion: Occasion<'_>) -> Option<EntryFault> {
        self.strike(occasion, |kind| match kind {
            FaultKind::EntryFailure { code, sender_fault } => {
                let culprit = if *sender_fault { Culprit::Sender } else { Culprit::Receiver };
                Some(EntryFault::Fails(SqsError::injected(code, culprit)))
            }
            FaultKind::EntryOmitted { effect } => Some(EntryFault::Omitted { effect: *effect }),
            _ => None,
        })
    }

    /// Whether a received message leaves a copy.
    pub(crate) fn strike_duplicate(&mut self, occasion: Occasion<'_>) -> bool {
        self.strike(occasion, |kind| matches!(kind, FaultKind::DuplicateDelivery).then_some(())).is_some()
    }

    /// Seconds by which a sent message is late.
    pub(crate) fn strike_delay(&mut self, occasion: Occasion<'_>) -> Option<u64> {
        self.strike(occasion, |kind| match kind {
            FaultKind::DelayedDelivery { seconds } => Some(*seconds),
            _ => None,
        })
    }

    /// The first fault of the wanted sort that is about this occasion and strikes.
    fn strike<T>(&mut self, occasion: Occasion<'_>, wanted: impl Fn(&FaultKind) -> Option<T>) -> Option<T> {
        let effect = self.armed.iter_mut().find_map(|armed| {
            let effect = wanted(&armed.fault.kind)?;
            (armed.fault.is_about(occasion) && armed.draw()).then_some(effect)
        });
        self.armed.retain(|armed| armed.fault.times != Times::Next(0));
        effect
    }
}

impl Fault {
    fn is_about(&self, occasion: Occasion<'_>) -> bool {
        let is_entry = matches!(self.kind, FaultKind::EntryFailure { .. } | FaultKind::EntryOmitted { .. });
        let action = match &self.action {
            Some(action) => action == occasion.action,
            None => !is_entry || occasion.action == "SendMessageBatch",
        };
        let queue = self.queue.as_ref().is_none_or(|queue| queue == occasion.queue);
        let position =
            self.positions.is_empty() || occasion.position.is_some_and(|position| self.positions.contains(&position));
        action && queue && position
    }
}

impl Armed {
    fn draw(&mut self) -> bool {
        match &mut self.fault.times {
            Times::Always => true,
            Times::Next(0) => false,
            Times::Next(left) => {
                *left -= 1;
                true
            }
            Times::Share { ratio, .. } => self.draws.random::<f64>() < *ratio,
        }
    }
}
