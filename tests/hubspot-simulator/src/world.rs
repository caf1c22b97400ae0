//! All state behind one lock: a call is admitted and answered without interleaving, so every run is reproducible.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::ensure;
use axum::http::{HeaderMap, header::AUTHORIZATION};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    account::Account,
    answer::{Answer, ApiError},
    call::Call,
    clock::Clock,
    config::{Latency, SimulatorConfig},
    faults::Faults,
    ids::PortalId,
    journal::Journal,
    limits::Meter,
    routes::Target,
    stats::{AccountStats, Counters, Outcome, Stats},
    webhooks::Webhooks,
};

/// The accounts and everything around them.
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) accounts: Vec<Account>,
    pub(crate) faults: Faults,
    pub(crate) counters: Counters,
    pub(crate) dice: StdRng,
    pub(crate) latency: Option<Latency>,
    pub(crate) webhooks: Webhooks,
    journal: Option<Journal>,
}

/// The world as threads share it.
pub(crate) struct SharedWorld(Mutex<World>);

impl SharedWorld {
    pub(crate) fn new(world: World) -> Self {
        Self(Mutex::new(world))
    }

    /// A panic in one call must not fail all later ones, so poison is ignored.
    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    pub(crate) fn new(config: &SimulatorConfig) -> anyhow::Result<Self> {
        ensure!(!config.accounts.is_empty(), "a simulator needs at least one account");
        let accounts = config.accounts.iter().cloned();
        let mut accounts: Vec<Account> = accounts.map(|account| Account::new(account, config.seed)).collect();
        let journal = match &config.state_file {
            Some(path) => Some(Journal::open(path, &mut accounts)?),
            None => None,
        };
        let mut webhooks = Webhooks::new(config.seed);
        if let Some(config) = &config.webhooks {
            webhooks.switch_on(config.clone(), &accounts);
        }
        Ok(Self {
            webhooks,
            clock: Clock::start(),
            accounts,
            faults: Faults::default(),
            counters: Counters::default(),
            dice: StdRng::seed_from_u64(config.seed),
            latency: config.latency,
            journal,
        })
    }

    /// Authenticates the call and counts it against the account's limits.
    pub(crate) fn admit(&mut self, headers: &HeaderMap, meter: Meter) -> Result<PortalId, Refused> {
        let Some(index) = self.authenticate(headers) else {
            return Err(Refused { portal: None, error: unauthenticated() });
        };
        let now = self.clock.now();
        let account = &mut self.accounts[index];
        let portal = account.settings.portal_id;
        match account.limits.admit(meter, now) {
            Ok(()) => {
                if meter == Meter::Burst {
                    self.counters.counted(portal, now.elapsed);
                }
                Ok(portal)
            }
            Err(policy) => {
                self.counters.refused(portal);
                Err(Refused { portal: Some(portal), error: policy.refusal() })
            }
        }
    }

    /// The account of the bearer token.
    fn authenticate(&self, headers: &HeaderMap) -> Option<usize> {
        let presented = headers.get(AUTHORIZATION)?.to_str().ok()?;
        let token = presented.strip_prefix("Bearer ")?;
        self.accounts.iter().position(|account| account.settings.token.is(token))
    }

    pub(crate) fn is_authentic(&self, headers: &HeaderMap) -> Option<PortalId> {
        self.authenticate(headers).map(|index| self.accounts[index].settings.portal_id)
    }

    /// Lets the handler answer and keeps what it changed.
    pub(crate) fn process(&mut self, portal: PortalId, target: Option<(Target, CallParts)>) -> Answer {
        let now = self.clock.now();
        let Some(account) = self.account_mut(portal) else {
            return unauthenticated().into();
        };
        let Some((target, parts)) = target else {
            return ApiError::not_found("resource not found").into();
        };
        let call = Call {
            params: target.params,
            raw_tail: target.raw_tail,
            object: target.object,
            query: parts.query,
            body: parts.body,
            now,
        };
        let answer = (target.handler)(account, &call).unwrap_or_else(Answer::from);
        match self.keep(portal) {
            Ok(()) => answer,
            Err(error) => {
                tracing::error!(error = %format!("{error:#}"), "the state file cannot be written");
                Answer::html(503, "the simulator's state file cannot be written")
            }
        }
    }

    /// Journals what the account changed.
    pub(crate) fn keep(&mut self, portal: PortalId) -> anyhow::Result<()> {
        let changes = self.account_mut(portal).map(Account::take_unwritten).unwrap_or_default();
        match &mut self.journal {
            Some(journal) if !changes.is_empty() => journal.append(portal, &changes)?,
            _ => {}
        }
        self.webhooks.note(portal, &changes, self.clock.now());
        Ok(())
    }

    pub(crate) fn account(&self, portal: PortalId) -> Option<&Account> {
        self.accounts.iter().find(|account| account.settings.portal_id == portal)
    }

    pub(crate) fn account_mut(&mut self, portal: PortalId) -> Option<&mut Account> {
        self.accounts.iter_mut().find(|account| account.settings.portal_id == portal)
    }

    /// Adds the limit headers and the correlation id, and counts the outcome.
    pub(crate) fn finish(&mut self, portal: Option<PortalId>, meter: Meter, endpoint: &str, answer: &mut Answer) {
        let now = self.clock.now();
        if let Some(account) = portal.and_then(|portal| self.account_mut(portal)) {
            account.limits.describe(meter, now, answer);
        }
        let id = uuid::Builder::from_random_bytes(self.dice.random()).into_uuid();
        answer.correlate(&id.to_string());
        self.counters.called(endpoint, Outcome::Status(answer.status));
    }

    pub(crate) fn stats(&mut self) -> Stats {
        let now = self.clock.now();
        let mut stats = self.counters.stats();
        for account in &mut self.accounts {
            let burst = &mut account.limits.burst;
            let counted = stats.accounts.entry(account.settings.portal_id).or_default();
            *counted = AccountStats {
                in_window: burst.held(now.elapsed),
                highest_window: burst.highest(),
                limit: burst.limit(),
                window_ms: burst.window_ms(),
                daily_used: account.limits.daily.used,
                ..counted.clone()
            };
            stats.highest_window = stats.highest_window.max(counted.highest_window);
        }
        stats
    }

    pub(crate) fn reset_stats(&mut self) {
        self.counters = Counters::default();
        for account in &mut self.accounts {
            account.limits.burst.forget_highest();
        }
    }
}

/// A call that was not admitted.
pub(crate) struct Refused {
    pub(crate) portal: Option<PortalId>,
    pub(crate) error: ApiError,
}

/// The parts of a call that routing does not use.
pub(crate) struct CallParts {
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: axum::body::Bytes,
}

fn unauthenticated() -> ApiError {
    ApiError::new(
        401,
        "INVALID_AUTHENTICATION",
        "Authentication credentials not found. This API supports OAuth 2.0 authentication",
    )
}
