//! The account's limits, evaluated for each arriving call over true rolling windows.

use std::{collections::VecDeque, time::Duration};

use jiff::{Timestamp, civil::Date, tz::TimeZone};

use crate::{
    answer::{Answer, ApiError},
    clock::Moment,
    config::{AccountConfig, BurstLimit},
};

/// The window that calls are measured in when the account has no burst limit, in milliseconds.
const MEASURED_WINDOW_MS: u64 = 10_000;
/// HubSpot's search window.
const SEARCH_WINDOW: Duration = Duration::from_secs(1);

/// Which of HubSpot's limits a call counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meter {
    /// The burst window and the day.
    Burst,
    /// The search window and the day.
    Search,
}

/// The limit that refused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    TenSecondlyRolling,
    Secondly,
    Daily,
}

impl Policy {
    /// HubSpot's body for 429. Source: usage guidelines; recorded answers of search and of the burst limit.
    pub(crate) fn refusal(self) -> ApiError {
        let (name, text) = match self {
            Self::TenSecondlyRolling => ("TEN_SECONDLY_ROLLING", "ten_secondly_rolling"),
            Self::Secondly => ("SECONDLY", "secondly"),
            Self::Daily => ("DAILY", "daily"),
        };
        ApiError::new(429, "RATE_LIMITS", format!("You have reached your {text} limit."))
            .with("errorType", "RATE_LIMIT")
            .with("policyName", name)
    }
}

/// All limits of one account.
pub(crate) struct Limits {
    pub(crate) burst: RollingWindow,
    search: RollingWindow,
    pub(crate) daily: DailyCount,
}

impl Limits {
    pub(crate) fn new(config: &AccountConfig) -> Self {
        let window_ms = config.burst.map_or(MEASURED_WINDOW_MS, |burst| burst.window_ms);
        Self {
            burst: RollingWindow::new(
                config.burst.map(|BurstLimit { calls, .. }| calls),
                Duration::from_millis(window_ms),
            ),
            search: RollingWindow::new(config.search_per_second, SEARCH_WINDOW),
            daily: DailyCount::new(config),
        }
    }

    /// Counts the call, or names the limit that refuses it; a refused call counts nowhere.
    pub(crate) fn admit(&mut self, meter: Meter, now: Moment) -> Result<(), Policy> {
        self.daily.turn(now.at);
        if !self.daily.has_room() {
            return Err(Policy::Daily);
        }
        let (window, policy) = match meter {
            Meter::Burst => (&mut self.burst, Policy::TenSecondlyRolling),
            Meter::Search => (&mut self.search, Policy::Secondly),
        };
        if !window.admit(now.elapsed) {
            return Err(policy);
        }
        self.daily.used += 1;
        Ok(())
    }

    /// Adds the headers that HubSpot sends; search answers have none of the burst window.
    pub(crate) fn describe(&mut self, meter: Meter, now: Moment, answer: &mut Answer) {
        if let (Meter::Burst, Some(limit)) = (meter, self.burst.limit) {
            let used = u32::try_from(self.burst.held(now.elapsed)).unwrap_or(u32::MAX);
            answer.header("X-HubSpot-RateLimit-Max", limit);
            answer.header("X-HubSpot-RateLimit-Remaining", limit.saturating_sub(used));
            let interval = self.burst.window.as_millis();
            answer.header("X-HubSpot-RateLimit-Interval-Milliseconds", interval);
        }
        if let Some(limit) = self.daily.limit {
            let remaining = limit.saturating_sub(self.daily.used);
            answer.header("X-HubSpot-RateLimit-Daily", limit);
            answer.header("X-HubSpot-RateLimit-Daily-Remaining", remaining);
        }
    }
}

/// Accepted calls of the last window; a call leaves exactly one window after it came.
pub(crate) struct RollingWindow {
    limit: Option<u32>,
    window: Duration,
    accepted: VecDeque<Duration>,
    highest: usize,
}

impl RollingWindow {
    pub(crate) fn new(limit: Option<u32>, window: Duration) -> Self {
        Self { limit, window, accepted: VecDeque::new(), highest: 0 }
    }

    pub(crate) fn admit(&mut self, now: Duration) -> bool {
        let held = self.held(now);
        if self.limit.is_some_and(|limit| held >= limit as usize) {
            return false;
        }
        self.accepted.push_back(now);
        self.highest = self.highest.max(self.accepted.len());
        true
    }

    /// Calls that count at this moment.
    pub(crate) fn held(&mut self, now: Duration) -> usize {
        while self.accepted.front().is_some_and(|&at| at + self.window <= now) {
            self.accepted.pop_front();
        }
        self.accepted.len()
    }

    /// The most calls that any rolling window has held: a maximum is always reached at the arrival of a call.
    pub(crate) fn highest(&self) -> usize {
        self.highest
    }

    pub(crate) fn limit(&self) -> Option<u32> {
        self.limit
    }

    pub(crate) fn window_ms(&self) -> u64 {
        u64::try_from(self.window.as_millis()).unwrap_or(u64::MAX)
    }

    /// Measures afresh; what is held stays, since the limit does not care about statistics.
    pub(crate) fn forget_highest(&mut self) {
        self.highest = self.accepted.len();
    }
}

/// Calls of the current day in the account's own time zone.
pub(crate) struct DailyCount {
    pub(crate) limit: Option<u64>,
    pub(crate) used: u64,
    zone: TimeZone,
    day: Option<Date>,
}

impl DailyCount {
    fn new(config: &AccountConfig) -> Self {
        Self {
            limit: config.daily,
            used: 0,
            zone: TimeZone::get(&config.time_zone).unwrap_or(TimeZone::UTC),
            day: None,
        }
    }

    fn turn(&mut self, at: Timestamp) {
        let today = at.to_zoned(self.zone.clone()).date();
        if self.day != Some(today) {
            self.day = Some(today);
            self.used = 0;
        }
    }

    fn has_room(&self) -> bool {
        self.limit.is_none_or(|limit| self.used < limit)
    }

    /// The next midnight of the account's time zone.
    pub(crate) fn resets_at(&self, at: Timestamp) -> Timestamp {
        at.to_zoned(self.zone.clone())
            .tomorrow()
            .and_then(|tomorrow| tomorrow.start_of_day())
            .map_or(at, |midnight| midnight.timestamp())
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    const WINDOW: Duration = Duration::from_secs(1);
    const LIMIT: usize = 20;

    /// The most accepted calls in any window, by looking at all of them.
    fn highest_by_brute_force(accepted: &[Duration]) -> usize {
        let within = |end: Duration| accepted.iter().filter(|&&at| at <= end && at + WINDOW > end).count();
        accepted.iter().map(|&end| within(end)).max().unwrap_or(0)
    }

    #[test]
    fn window_admits_and_measures_what_counting_every_window_would() {
        for seed in 0..50 {
            let mut dice = StdRng::seed_from_u64(seed);
            let mut window = RollingWindow::new(u32::try_from(LIMIT).ok(), WINDOW);
            let (mut now, mut accepted) = (Duration::ZERO, Vec::new());
            for _ in 0..500 {
                now += Duration::from_millis(dice.random_range(0..80));
                let held = accepted.iter().filter(|&&at| at + WINDOW > now).count();
                assert_eq!(window.admit(now), held < LIMIT, "seed {seed}");
                if held < LIMIT {
                    accepted.push(now);
                }
            }
            assert_eq!(window.highest(), highest_by_brute_force(&accepted), "seed {seed}");
        }
    }
}
