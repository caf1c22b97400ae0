//! HubSpot's public API over HTTP: the calls that keep contacts, consents and lists in agreement.
//!
//! Every method of [`Account`] makes exactly one HTTP call or none, and never repeats it: the caller pays for each call
//! from the portal's budget, and the one retry policy is [`decide`](crate::model::outcome::decide()). A batch of more
//! rows than HubSpot takes is refused without a call; cutting into chunks is the caller's part too.
//!
//! From top to bottom: a method builds a `Request`; `transport` sends it and reads the answer within its caps; `decode`
//! reads the JSON leniently; `accounting` finds for every input what became of it.

mod account;
mod accounting;
mod call;
mod contact;
mod contacts;
mod decode;
mod gdpr_delete;
mod lists;
mod properties;
mod punctual;
mod records;
mod request;
mod subscription_status;
mod subscriptions;
mod transport;
mod versions;

use std::fmt;
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use crate::model::ids::PortalId;

pub use account::{AccountDetails, DailyUsage};
pub use call::{Call, DailyHeaders, Sent};
pub use contact::{ContactRecord, ContactUpdate, ContactUpsert, UpsertedContact};
pub use lists::Membership;
pub use properties::{NewProperty, NewPropertyGroup, PropertyDefinition};
pub use records::RecordValues;
pub use subscription_status::{ConsentState, StatusWrite, StatusWriteReason, SubscriptionState, SubscriptionStatus};
pub use versions::{ApiVersion, ApiVersions, Family, VersionError};

pub use crate::model::outcome::{Class, CredentialProblem, LimitPolicy, Named, Refusal, Row};

/// Time limit of a call, from connecting to the last byte of the body.
///
/// A batch of 100 takes HubSpot a few seconds at worst. No call starts unless its lease outlives this limit, so it has to
/// be well below a lease.
pub const CALL_TIME_LIMIT: Duration = Duration::from_secs(15);

/// The part of a call's time limit within which its request has to be on its way; what is left is HubSpot's for carrying it out.
///
/// A process may stand still between the decision to call and the sending, and go on when somebody else has taken over.
const SEND_SHARE: f64 = 0.4;

/// Time limit for a connection to come about.
const CONNECT_TIME_LIMIT: Duration = Duration::from_secs(2);

/// How long an idle connection is kept. A frozen sandbox cannot notice that the other side hung up; an old connection
/// would then cost the first call after the thaw.
const POOL_IDLE_LIMIT: Duration = Duration::from_secs(5);

/// Where and how HubSpot is called.
#[derive(Debug, Clone)]
pub struct HubSpotConfig {
    /// `https://api.hubapi.com`, or a simulator's address.
    pub base_url: Url,
    /// The versions of the API.
    pub versions: ApiVersions,
    /// Time limit of a call, at most [`CALL_TIME_LIMIT`].
    pub call_time_limit: Duration,
}

impl HubSpotConfig {
    /// The current versions and the full time limit.
    #[must_use]
    pub fn new(base_url: Url) -> Self {
        Self { base_url, versions: ApiVersions::default(), call_time_limit: CALL_TIME_LIMIT }
    }
}

/// The client, built once and borrowed: connections are shared by all portals.
#[derive(Debug, Clone)]
pub struct HubSpot {
    client: reqwest::Client,
    base_url: Url,
    versions: ApiVersions,
    send_time_limit: Duration,
}

impl HubSpot {
    /// Builds the client. Fails when the address cannot carry a path, the time limit is above [`CALL_TIME_LIMIT`] (leases
    /// count on it), or TLS cannot be set up.
    #[expect(clippy::disallowed_methods, reason = "the one place that builds the client, with every limit set")]
    pub fn new(config: HubSpotConfig) -> anyhow::Result<Self> {
        let HubSpotConfig { base_url, versions, call_time_limit } = config;
        anyhow::ensure!(matches!(base_url.scheme(), "http" | "https"), "HubSpot's address is no HTTP address");
        anyhow::ensure!(call_time_limit <= CALL_TIME_LIMIT, "a call's time limit is at most {CALL_TIME_LIMIT:?}");
        let client = reqwest::Client::builder()
            .user_agent(concat!("hubferry/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIME_LIMIT)
            .timeout(call_time_limit)
            .pool_idle_timeout(POOL_IDLE_LIMIT)
            // A redirected call would take the token to another place.
            .redirect(reqwest::redirect::Policy::none())
            // The client's own retries would make calls that nobody paid for.
            .retry(reqwest::retry::never())
            .no_proxy()
            .build()?;
        Ok(Self { client, base_url, versions, send_time_limit: call_time_limit.mul_f64(SEND_SHARE) })
    }

    /// The calls of one portal, under its access token.
    #[must_use]
    pub fn account<'a>(&'a self, portal_id: PortalId, token: &'a SecretString) -> Account<'a> {
        Account { hubspot: self, versions: self.versions, portal_id, token }
    }
}

/// One portal under one access token. Cheap to make; it borrows the client.
#[derive(Clone, Copy)]
pub struct Account<'a> {
    hubspot: &'a HubSpot,
    versions: ApiVersions,
    portal_id: PortalId,
    token: &'a SecretString,
}

impl<'a> Account<'a> {
    /// The same account in the API versions that its portal is pinned to.
    #[must_use]
    pub fn with_versions(self, versions: ApiVersions) -> Account<'a> {
        Account { versions, ..self }
    }

    /// The portal this account is.
    #[must_use]
    pub fn portal_id(&self) -> PortalId {
        self.portal_id
    }
}

impl fmt::Debug for Account<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Account").field("portal_id", &self.portal_id).finish_non_exhaustive()
    }
}
