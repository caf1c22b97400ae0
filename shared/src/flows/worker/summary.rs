//! What a batch came to.

use serde::Serialize;

use crate::adapters::db::{ClaimedBatch, Verdict, VerdictStatus};

/// What a batch came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WorkerSummary {
    /// Messages received.
    pub messages: u64,
    /// Messages that were no envelopes of ours. They are acknowledged and touch no event.
    pub quarantined: u64,
    /// Events claimed.
    pub claimed: u64,
    /// HubSpot agrees.
    pub synced: u64,
    /// A newer state took over, or HubSpot knew better.
    pub superseded: u64,
    /// Their contact was erased meanwhile.
    pub cancelled: u64,
    /// They wait, and it counted.
    pub retried: u64,
    /// They wait, and it did not count.
    pub snoozed: u64,
    /// A person has to look.
    pub dead: u64,
    /// Held by another worker; snoozed.
    pub busy: u64,
    /// Nothing to do: waiting for their time, or finished.
    pub settled: u64,
    /// No such event.
    pub unknown: u64,
    /// Suspects that came with others; snoozed.
    pub deferred: u64,
    /// Another owner had them by the time of finishing.
    pub lost: u64,
    /// Calls made.
    pub calls: u64,
    /// Records whose uncertain values HubSpot does not let us read.
    pub denied_reads: u64,
}

impl WorkerSummary {
    pub(super) fn of(batch: &ClaimedBatch) -> Self {
        let claimed = batch.portals.values().map(|(_, events)| events.len()).sum::<usize>()
            + batch.without_stream.values().map(|(_, events)| events.len()).sum::<usize>()
            + batch.unreadable.len();
        Self {
            claimed: claimed as u64,
            superseded: batch.superseded as u64,
            cancelled: batch.cancelled as u64,
            busy: batch.busy as u64,
            settled: batch.settled as u64,
            unknown: batch.unknown.len() as u64,
            ..Self::default()
        }
    }

    /// Adds what a part of the batch came to.
    pub(super) fn add(&mut self, part: &Self) {
        self.claimed += part.claimed;
        self.busy += part.busy;
        self.settled += part.settled;
        self.synced += part.synced;
        self.superseded += part.superseded;
        self.retried += part.retried;
        self.snoozed += part.snoozed;
        self.dead += part.dead;
        self.lost += part.lost;
        self.calls += part.calls;
        self.denied_reads += part.denied_reads;
    }

    pub(super) fn count(&mut self, verdict: &Verdict) {
        match verdict.status {
            VerdictStatus::Synced => self.synced += 1,
            VerdictStatus::Superseded => self.superseded += 1,
            VerdictStatus::Dead => self.dead += 1,
            VerdictStatus::Retry { charged: true, .. } => self.retried += 1,
            VerdictStatus::Retry { charged: false, .. } => self.snoozed += 1,
        }
    }
}
