//! Webhooks: what changes in the accounts is reported to one address, signed (v3), as HubSpot does it. Off unless switched on.
//!
//! Up to a hundred notifications a request, in any order, some of them twice; ten requests at once; five seconds for an
//! answer; whatever is not answered with 2xx is sent again up to ten times within a day, with a new signature.

mod notice;
mod send;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    account::Account,
    change::Change,
    clock::Moment,
    ids::{PortalId, RecordId},
};

pub(crate) use send::run;

/// HubSpot's own limits: notifications in a request, requests at once, tries after the first.
const MOST_IN_A_REQUEST: usize = 100;
const MOST_AT_ONCE: usize = 10;
const RETRIES_S: [u64; 10] = [60, 300, 900, 1_800, 3_600, 7_200, 10_800, 14_400, 21_600, 25_200];

/// Where notifications go, and how badly.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookConfig {
    /// The address, which is also what is signed.
    pub target: String,
    /// The app's client secret.
    pub secret: String,
    /// The app.
    #[serde(default = "default_app")]
    pub app_id: u64,
    /// Takes notifications for a request in any order.
    #[serde(default = "yes")]
    pub shuffle: bool,
    /// Part of the notifications that are sent a second time, 0 to 1.
    #[serde(default)]
    pub repeat_share: f64,
    /// Part of the answers that get lost on their way back, 0 to 1: they count as failures.
    #[serde(default)]
    pub lost_share: f64,
    /// What the waits between tries are multiplied with: 1 spreads ten of them over a day.
    #[serde(default = "unscaled")]
    pub retry_scale: f64,
}

impl WebhookConfig {
    /// To this address with this secret, as HubSpot sends when all is well.
    pub fn new(target: impl Into<String>, secret: impl Into<String>) -> Self {
        Self {
            target: target.into(),
            secret: secret.into(),
            app_id: default_app(),
            shuffle: yes(),
            repeat_share: 0.0,
            lost_share: 0.0,
            retry_scale: unscaled(),
        }
    }
}

fn default_app() -> u64 {
    9001
}

fn yes() -> bool {
    true
}

fn unscaled() -> f64 {
    1.0
}

/// How sending is going.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WebhookStats {
    /// Notifications that wait for their first try.
    pub pending: usize,
    /// Requests that wait for another try.
    pub waiting: usize,
    /// Requests under way.
    pub in_flight: usize,
    /// The most requests that were under way at once.
    pub highest_in_flight: usize,
    /// Requests made.
    pub requests: u64,
    /// Notifications that arrived.
    pub delivered: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that were given up after the last try.
    pub given_up: u64,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// How long answers took, ms: half of them, 99 of 100, all of them.
    pub answer_ms: [u64; 3],
}

/// A request, and when its turn is.
pub(crate) struct Delivery {
    notifications: Vec<Value>,
    attempt: usize,
    due: Duration,
}

/// What is to be sent, and what was.
pub(crate) struct Webhooks {
    pub(crate) wake: Arc<Notify>,
    config: Option<WebhookConfig>,
    known: BTreeMap<(PortalId, RecordId), BTreeMap<String, String>>,
    pending: VecDeque<Value>,
    waiting: Vec<Delivery>,
    next_event: u64,
    answers_ms: Vec<u64>,
    stats: WebhookStats,
    dice: StdRng,
}

impl Webhooks {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            wake: Arc::default(),
            config: None,
            known: BTreeMap::new(),
            pending: VecDeque::new(),
            waiting: Vec::new(),
            next_event: 1,
            answers_ms: Vec::new(),
            stats: WebhookStats::default(),
            dice: StdRng::seed_from_u64(seed),
        }
    }

    /// Begins with what changes from now on. What the accounts hold already is not reported.
    pub(crate) fn switch_on(&mut self, config: WebhookConfig, accounts: &[Account]) {
        if self.config.is_none() {
            for account in accounts {
                let portal = account.settings.portal_id;
                let records = account.contacts.all();
                self.known.extend(records.map(|record| ((portal, record.id), record.properties.clone())));
            }
        }
        self.config = Some(config);
        self.wake.notify_one();
    }

    /// Sends nothing any more; what waits is dropped.
    pub(crate) fn switch_off(&mut self) {
        let (wake, seed) = (Arc::clone(&self.wake), self.dice.random());
        let in_flight = self.stats.in_flight;
        *self = Self { wake, next_event: self.next_event, ..Self::new(seed) };
        self.stats.in_flight = in_flight;
    }

    /// Notes what one call changed.
    pub(crate) fn note(&mut self, portal: PortalId, changes: &[Change], now: Moment) {
        let Some(config) = self.config.clone() else { return };
        for mut notification in notice::notifications(&mut self.known, portal, changes, now.at) {
            notification["eventId"] = json!(self.next_event);
            notification["appId"] = json!(config.app_id);
            self.next_event += 1;
            if self.dice.random_bool(config.repeat_share.clamp(0.0, 1.0)) {
                self.pending.push_back(notification.clone());
            }
            self.pending.push_back(notification);
        }
        self.wake.notify_one();
    }

    /// The next request whose turn it is, counted as under way.
    fn take(&mut self, now: Duration) -> Option<(WebhookConfig, Delivery)> {
        let config = self.config.clone()?;
        if self.stats.in_flight >= MOST_AT_ONCE {
            return None;
        }
        let due = self.waiting.iter().position(|delivery| delivery.due <= now);
        let delivery = match due {
            Some(place) => self.waiting.swap_remove(place),
            None if self.pending.is_empty() => return None,
            None => Delivery { notifications: self.collect(config.shuffle), attempt: 0, due: now },
        };
        self.stats.requests += 1;
        self.stats.in_flight += 1;
        self.stats.highest_in_flight = self.stats.highest_in_flight.max(self.stats.in_flight);
        Some((config, delivery))
    }

    fn collect(&mut self, shuffle: bool) -> Vec<Value> {
        let mut notifications = Vec::new();
        while notifications.len() < MOST_IN_A_REQUEST && !self.pending.is_empty() {
            if shuffle {
                let place = self.dice.random_range(0..self.pending.len());
                let last = self.pending.len() - 1;
                self.pending.swap(place, last);
                notifications.extend(self.pending.pop_back());
            } else {
                notifications.extend(self.pending.pop_front());
            }
        }
        notifications
    }

    /// Until the next retry is due; `None` when none waits.
    fn until_next(&self, now: Duration) -> Option<Duration> {
        self.waiting.iter().map(|delivery| delivery.due.saturating_sub(now)).min()
    }

    /// Notes how a request ended, and lets a failed one wait for its next turn.
    fn finish(
        &mut self,
        config: &WebhookConfig,
        mut delivery: Delivery,
        status: Option<u16>,
        took: Duration,
        now: Duration,
    ) {
        self.stats.in_flight = self.stats.in_flight.saturating_sub(1);
        self.answers_ms.push(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        if let Some(status) = status {
            *self.stats.statuses.entry(status).or_default() += 1;
        }
        let arrived = status.is_some_and(|status| (200..300).contains(&status));
        let is_lost = arrived && self.dice.random_bool(config.lost_share.clamp(0.0, 1.0));
        self.wake.notify_one();
        if arrived && !is_lost {
            self.stats.delivered += delivery.notifications.len() as u64;
            return;
        }
        self.stats.failed += 1;
        match RETRIES_S.get(delivery.attempt) {
            // Switched off meanwhile: nobody wants it any more.
            _ if self.config.is_none() => {}
            Some(seconds) => {
                delivery.attempt += 1;
                delivery.due = now + Duration::from_secs(*seconds).mul_f64(config.retry_scale.max(0.0));
                self.waiting.push(delivery);
            }
            None => self.stats.given_up += 1,
        }
    }

    pub(crate) fn stats(&self) -> WebhookStats {
        let mut sorted = self.answers_ms.clone();
        sorted.sort_unstable();
        let at = |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        WebhookStats {
            pending: self.pending.len(),
            waiting: self.waiting.len(),
            answer_ms: [50, 99, 100].map(|percent| at(percent).unwrap_or_default()),
            ..self.stats.clone()
        }
    }
}
