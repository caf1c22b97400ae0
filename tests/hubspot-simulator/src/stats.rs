//! What the simulator counts.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::ids::PortalId;

/// Width of a bucket of the timeline, in seconds.
const BUCKET_S: u64 = 10;

/// The result of a call, as statistics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Status(u16),
    /// The connection was cut before the call was read.
    Cut,
    /// The call was processed, and its answer lost.
    LostAnswer,
}

impl Outcome {
    fn name(self) -> String {
        match self {
            Self::Status(status) => status.to_string(),
            Self::Cut => "cut".to_owned(),
            Self::LostAnswer => "lost_answer".to_owned(),
        }
    }
}

/// Everything that was counted since the start or the last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// All API calls, refused and lost ones included.
    pub total: u64,
    /// Calls that a limit refused, or that a fault answered with 429.
    pub answered_429: u64,
    /// The highest number of counted calls in any rolling window, over all accounts.
    pub highest_window: usize,
    /// By endpoint, then by status (`cut` and `lost_answer` besides numbers).
    pub endpoints: BTreeMap<String, BTreeMap<String, u64>>,
    /// By account.
    pub accounts: BTreeMap<PortalId, AccountStats>,
    /// The most calls that were under way at once, by endpoint.
    #[serde(default)]
    pub at_once: BTreeMap<String, u64>,
    /// Counted calls of all accounts by ten seconds since the start; search has its own limit and is not among them.
    pub timeline: Vec<TimelineBucket>,
}

impl Stats {
    /// Calls of one endpoint, whatever their outcome.
    pub fn calls(&self, endpoint: &str) -> u64 {
        self.endpoints.get(endpoint).map_or(0, |statuses| statuses.values().sum())
    }

    /// Calls of one endpoint with one status.
    pub fn calls_with(&self, endpoint: &str, status: u16) -> u64 {
        let statuses = self.endpoints.get(endpoint);
        statuses.and_then(|statuses| statuses.get(&status.to_string())).copied().unwrap_or(0)
    }

    /// Calls with one status, whatever their endpoint.
    pub fn with_status(&self, status: u16) -> u64 {
        let status = status.to_string();
        self.endpoints.values().filter_map(|statuses| statuses.get(&status)).sum()
    }
}

/// The window of one account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountStats {
    /// Calls that count right now.
    pub in_window: usize,
    /// The highest number of counted calls in any rolling window.
    pub highest_window: usize,
    /// The limit, when there is one.
    pub limit: Option<u32>,
    /// The window, in milliseconds.
    pub window_ms: u64,
    /// Calls counted in the window since the start or the last reset.
    pub counted: u64,
    /// Calls that a limit refused.
    pub answered_429: u64,
    /// Calls of the current day.
    pub daily_used: u64,
}

/// Calls of ten seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineBucket {
    /// First second of the bucket, since the start of the simulator.
    pub second: u64,
    /// Counted calls.
    pub calls: u64,
}

/// The running counters behind [`Stats`].
#[derive(Default)]
pub(crate) struct Counters {
    total: u64,
    answered_429: u64,
    endpoints: BTreeMap<String, BTreeMap<String, u64>>,
    accounts: BTreeMap<PortalId, AccountCounters>,
    timeline: BTreeMap<u64, u64>,
    under_way: BTreeMap<String, u64>,
    at_once: BTreeMap<String, u64>,
}

#[derive(Default)]
struct AccountCounters {
    counted: u64,
    answered_429: u64,
}

impl Counters {
    pub(crate) fn begun(&mut self, endpoint: &str) {
        let under_way = self.under_way.entry(endpoint.to_owned()).or_default();
        *under_way += 1;
        let most = self.at_once.entry(endpoint.to_owned()).or_default();
        *most = (*most).max(*under_way);
    }

    /// A call that began before the counters were reset is not among those under way.
    pub(crate) fn ended(&mut self, endpoint: &str) {
        if let Some(under_way) = self.under_way.get_mut(endpoint) {
            *under_way = under_way.saturating_sub(1);
        }
    }

    pub(crate) fn called(&mut self, endpoint: &str, outcome: Outcome) {
        self.total += 1;
        if outcome == Outcome::Status(429) {
            self.answered_429 += 1;
        }
        let statuses = self.endpoints.entry(endpoint.to_owned()).or_default();
        *statuses.entry(outcome.name()).or_default() += 1;
    }

    pub(crate) fn counted(&mut self, portal: PortalId, elapsed: Duration) {
        self.accounts.entry(portal).or_default().counted += 1;
        let bucket = elapsed.as_secs() / BUCKET_S * BUCKET_S;
        *self.timeline.entry(bucket).or_default() += 1;
    }

    pub(crate) fn refused(&mut self, portal: PortalId) {
        self.accounts.entry(portal).or_default().answered_429 += 1;
    }

    /// The counters as figures; the caller adds what the limits know.
    pub(crate) fn stats(&self) -> Stats {
        let timeline = self.timeline.iter().map(|(&second, &calls)| TimelineBucket { second, calls });
        let accounts = self.accounts.iter().map(|(&portal, counters)| {
            let stats = AccountStats {
                counted: counters.counted,
                answered_429: counters.answered_429,
                ..AccountStats::default()
            };
            (portal, stats)
        });
        Stats {
            total: self.total,
            answered_429: self.answered_429,
            highest_window: 0,
            endpoints: self.endpoints.clone(),
            at_once: self.at_once.clone(),
            accounts: accounts.collect(),
            timeline: timeline.collect(),
        }
    }
}
