//! What a simulator is started with.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use crate::{
    ids::{ListId, PortalId, SubscriptionId},
    lists::ProcessingType,
    webhooks::WebhookConfig,
};

/// HubSpot's burst limit for a private app of a Professional or Enterprise account, calls per ten seconds.
const BURST_CALLS: u32 = 190;
/// HubSpot's burst window, in milliseconds.
const BURST_WINDOW_MS: u64 = 10_000;
/// HubSpot's search limit per account, calls per second.
const SEARCH_PER_SECOND: u32 = 5;
/// HubSpot's daily limit of a Professional account, calls.
const DAILY_CALLS: u64 = 625_000;
/// How long search stays behind writes, in milliseconds; HubSpot says moments to about 30 s.
const SEARCH_LAG_MS: u64 = 3_000;

/// The whole simulator.
#[derive(Clone, Debug)]
pub struct SimulatorConfig {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// At least one; the first is the default account of the admin routes.
    pub accounts: Vec<AccountConfig>,
    /// Seed of every draw: order of results, shares of faults, latency, correlation ids.
    pub seed: u64,
    /// Time that every API call takes, none when absent.
    pub latency: Option<Latency>,
    /// Journal of the state, replayed at start; in memory only when absent.
    pub state_file: Option<PathBuf>,
    /// Where changes are reported to; nowhere when absent.
    pub webhooks: Option<WebhookConfig>,
}

impl Default for SimulatorConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            accounts: vec![AccountConfig::default()],
            seed: 1,
            latency: None,
            state_file: None,
            webhooks: None,
        }
    }
}

/// Evenly drawn latency of a call; one part passes before the call is counted, the rest after.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// Shortest, in milliseconds.
    pub min_ms: u64,
    /// Longest, in milliseconds.
    pub max_ms: u64,
}

/// Calls allowed in any rolling window.
#[derive(Clone, Copy, Debug)]
pub struct BurstLimit {
    /// Calls per window.
    pub calls: u32,
    /// Window, in milliseconds.
    pub window_ms: u64,
}

/// One HubSpot account.
#[derive(Clone, Debug)]
pub struct AccountConfig {
    /// Identity of the account.
    pub portal_id: PortalId,
    /// The bearer token that selects the account.
    pub token: AccessToken,
    /// The ten-second window; unlimited when absent, but still measured.
    pub burst: Option<BurstLimit>,
    /// Searches in any rolling second; unlimited when absent.
    pub search_per_second: Option<u32>,
    /// Calls per day of the account; unlimited and without headers when absent.
    pub daily: Option<u64>,
    /// How long search stays behind writes, in milliseconds.
    pub search_lag_ms: u64,
    /// Whether the subscription batch calls are allowed (Marketing Hub Enterprise and their scopes).
    pub batch_consent: bool,
    /// Refuse to subscribe an address that has opted out, as v3 does.
    pub refuse_resubscribe: bool,
    /// The subscription types.
    pub definitions: Vec<DefinitionConfig>,
    /// The lists of a fresh account.
    pub lists: Vec<ListConfig>,
    /// IANA name of the zone whose midnight resets the daily count.
    pub time_zone: String,
}

impl AccountConfig {
    /// An account with the default limits, subscription types and lists.
    pub fn new(portal_id: u64, token: impl Into<String>) -> Self {
        Self { portal_id: PortalId(portal_id), token: AccessToken::new(token), ..Self::default() }
    }
}

impl Default for AccountConfig {
    fn default() -> Self {
        Self {
            portal_id: PortalId(4711),
            token: AccessToken::new("simulator-token"),
            burst: Some(BurstLimit::default()),
            search_per_second: Some(SEARCH_PER_SECOND),
            daily: Some(DAILY_CALLS),
            search_lag_ms: SEARCH_LAG_MS,
            batch_consent: true,
            refuse_resubscribe: false,
            definitions: vec![
                DefinitionConfig::new(1001, "Newsletter"),
                DefinitionConfig::new(1002, "Product news"),
                DefinitionConfig::new(1003, "Events"),
            ],
            lists: vec![
                ListConfig::new(101, "Newsletter readers", ProcessingType::Manual),
                ListConfig::new(102, "Everybody", ProcessingType::Manual),
                ListConfig::new(103, "Dynamic segment", ProcessingType::Dynamic),
            ],
            time_zone: "UTC".to_owned(),
        }
    }
}

impl Default for BurstLimit {
    fn default() -> Self {
        Self { calls: BURST_CALLS, window_ms: BURST_WINDOW_MS }
    }
}

/// A bearer token; its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct AccessToken(String);

impl AccessToken {
    /// Wraps the text that follows `Bearer `.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    pub(crate) fn is(&self, presented: &str) -> bool {
        self.0 == presented
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AccessToken(…)")
    }
}

/// A subscription type.
#[derive(Clone, Debug)]
pub struct DefinitionConfig {
    /// Its id.
    pub id: SubscriptionId,
    /// Its name, as people see it.
    pub name: String,
}

impl DefinitionConfig {
    /// An active subscription type of the account itself.
    pub fn new(id: u64, name: impl Into<String>) -> Self {
        Self { id: SubscriptionId(id), name: name.into() }
    }
}

/// A list of a fresh account.
#[derive(Clone, Debug)]
pub struct ListConfig {
    /// Its id.
    pub id: ListId,
    /// Its name, unique within the account.
    pub name: String,
    /// Who decides on its members.
    pub processing_type: ProcessingType,
    /// The type of its records; `0-1` is contacts.
    pub object_type_id: String,
}

impl ListConfig {
    /// A list of contacts.
    pub fn new(id: u64, name: impl Into<String>, processing_type: ProcessingType) -> Self {
        Self { id: ListId(id), name: name.into(), processing_type, object_type_id: "0-1".to_owned() }
    }
}
