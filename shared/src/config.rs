//! Configuration: read from the environment once, here and nowhere else. Everything missing or wrong is named at once.

use std::collections::HashMap;

use secrecy::SecretString;
use url::Url;

use crate::adapters::hubspot::{ApiVersions, Family};
use crate::adapters::sqs::QueueUrls;
use crate::flows::webhook::{SecretSource, WebhookSettings};
use crate::model::envelope::{SigningKey, SigningKeys};
use crate::model::hubspot_signature::{OldSignatures, WebhookApp, parse_apps};
use crate::model::ids::PortalId;

/// Where HubSpot is, unless told otherwise.
pub const DEFAULT_HUBSPOT_URL: &str = "https://api.hubapi.com";

/// Variables that move one family of HubSpot's API to another version than the current one.
const VERSION_VARIABLES: [(&str, Family); 5] = [
    ("HUBFERRY_HUBSPOT_VERSION_OBJECTS", Family::Objects),
    ("HUBFERRY_HUBSPOT_VERSION_COMMUNICATION_PREFERENCES", Family::CommunicationPreferences),
    ("HUBFERRY_HUBSPOT_VERSION_LISTS", Family::Lists),
    ("HUBFERRY_HUBSPOT_VERSION_PROPERTIES", Family::Properties),
    ("HUBFERRY_HUBSPOT_VERSION_ACCOUNT_INFO", Family::AccountInfo),
];

/// Variables that name the queues.
const INTERACTIVE_URL: &str = "HUBFERRY_QUEUE_INTERACTIVE_URL";
const BULK_URL: &str = "HUBFERRY_QUEUE_BULK_URL";
const INBOUND_URL: &str = "HUBFERRY_QUEUE_INBOUND_URL";

/// Variables, and what was wrong with those that were read so far.
#[derive(Clone, Default)]
pub struct Environment {
    variables: HashMap<String, String>,
    faults: Vec<String>,
}

/// HubSpot: where, which versions, and as whom.
#[derive(Debug, Clone)]
pub struct HubSpotSettings {
    /// Base URL.
    pub url: Url,
    /// Versions by family.
    pub versions: ApiVersions,
    /// Access tokens.
    pub tokens: HubSpotTokens,
}

/// Access tokens by portal.
#[derive(Debug, Clone)]
pub struct HubSpotTokens {
    /// Of every portal that has none of its own, from `HUBFERRY_HUBSPOT_TOKEN`.
    pub default: SecretString,
    /// By portal, from `HUBFERRY_HUBSPOT_TOKEN_<portal id>`.
    pub by_portal: HashMap<PortalId, SecretString>,
}

impl HubSpotTokens {
    /// The token to call a portal with.
    pub fn of(&self, portal: PortalId) -> &SecretString {
        self.by_portal.get(&portal).unwrap_or(&self.default)
    }
}

/// What is missing or wrong, all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the configuration is not complete:\n  {}", .0.join("\n  "))]
pub struct ConfigError(pub Vec<String>);

impl std::fmt::Debug for Environment {
    // Values are secrets as often as not.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("faults", &self.faults).finish_non_exhaustive()
    }
}

impl Environment {
    /// Reads the process's environment.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    pub fn read() -> Self {
        Self { variables: std::env::vars().collect(), faults: Vec::new() }
    }

    /// Uses these variables instead of the process's.
    pub fn of<const N: usize>(variables: [(&str, &str); N]) -> Self {
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Self { variables, faults: Vec::new() }
    }

    /// Adds variables that are not set yet, such as those of a file.
    pub fn add_defaults(&mut self, defaults: impl IntoIterator<Item = (String, String)>) {
        for (name, value) in defaults {
            self.variables.entry(name).or_insert(value);
        }
    }

    /// Sets a variable, as an option of the command line does.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// A variable that may be missing. An empty one counts as missing.
    pub fn optional(&self, name: &str) -> Option<String> {
        self.variables.get(name).filter(|value| !value.trim().is_empty()).cloned()
    }

    /// A variable that must be there.
    pub fn required(&mut self, name: &str, purpose: &str) -> String {
        self.optional(name).unwrap_or_else(|| {
            self.faults.push(format!("{name} is not set: {purpose}"));
            String::new()
        })
    }

    /// The URL of the database.
    pub fn database_url(&mut self) -> SecretString {
        self.required("HUBFERRY_DATABASE_URL", "the PostgreSQL database, postgres://user:password@host:port/database")
            .into()
    }

    /// The URL of Redis.
    pub fn redis_url(&mut self) -> SecretString {
        self.required("HUBFERRY_REDIS_URL", "the Redis that holds the call budget, redis://… or rediss://… (TLS)")
            .into()
    }

    /// The queues.
    pub fn queue_urls(&mut self) -> QueueUrls {
        QueueUrls {
            interactive: self.required(INTERACTIVE_URL, "the SQS queue for visitors who wait"),
            bulk: self.required(BULK_URL, "the SQS queue for imports"),
            inbound: self.required(INBOUND_URL, "the SQS queue for what webhooks report"),
        }
    }

    /// The queues, for those who only look at them; `None` unless all are named.
    pub fn known_queue_urls(&self) -> Option<QueueUrls> {
        Some(QueueUrls {
            interactive: self.optional(INTERACTIVE_URL)?,
            bulk: self.optional(BULK_URL)?,
            inbound: self.optional(INBOUND_URL)?,
        })
    }

    /// The keys that seal and open envelopes.
    pub fn signing_keys(&mut self) -> Option<SigningKeys> {
        let current =
            self.required("HUBFERRY_SIGNING_KEY", "the key that seals envelopes, whsec_ and 32 bytes in base64");
        let current = self.signing_key("HUBFERRY_SIGNING_KEY", Some(current).filter(|key| !key.is_empty()))?;
        let next = self.optional("HUBFERRY_SIGNING_KEY_NEXT");
        let next = self.signing_key("HUBFERRY_SIGNING_KEY_NEXT", next);
        Some(SigningKeys { current, next })
    }

    fn signing_key(&mut self, name: &str, text: Option<String>) -> Option<SigningKey> {
        match SigningKey::parse(&text?) {
            Ok(key) => Some(key),
            Err(error) => {
                self.faults.push(format!("{name} {error}"));
                None
            }
        }
    }

    /// HubSpot's place, versions and tokens.
    pub fn hubspot(&mut self) -> Option<HubSpotSettings> {
        let url = self.optional("HUBFERRY_HUBSPOT_URL").unwrap_or_else(|| DEFAULT_HUBSPOT_URL.into());
        let url =
            Url::parse(&url).map_err(|error| self.faults.push(format!("HUBFERRY_HUBSPOT_URL is no URL: {error}"))).ok();
        let versions = self.hubspot_versions();
        let by_portal = self.portal_tokens();
        let default = self.required("HUBFERRY_HUBSPOT_TOKEN", "an access token of the HubSpot portal").into();
        Some(HubSpotSettings { url: url?, versions, tokens: HubSpotTokens { default, by_portal } })
    }

    fn portal_tokens(&mut self) -> HashMap<PortalId, SecretString> {
        let mut tokens = HashMap::new();
        for (name, value) in &self.variables {
            let Some(portal) = name.strip_prefix("HUBFERRY_HUBSPOT_TOKEN_") else { continue };
            match portal.parse() {
                Ok(portal) if !value.trim().is_empty() => drop(tokens.insert(PortalId(portal), value.clone().into())),
                Ok(_) => {}
                Err(_) => self.faults.push(format!("{name} does not end with a portal id")),
            }
        }
        tokens
    }

    fn hubspot_versions(&mut self) -> ApiVersions {
        let mut versions = ApiVersions::default();
        for (name, family) in VERSION_VARIABLES {
            let Some(version) = self.optional(name) else { continue };
            match versions.with(family, &version) {
                Ok(changed) => versions = changed,
                Err(error) => self.faults.push(format!("{name}: {error}")),
            }
        }
        versions
    }

    /// The address and the secrets of HubSpot's webhooks.
    pub fn webhook(&mut self) -> Option<WebhookSettings> {
        let url = self.required("HUBFERRY_WEBHOOK_URL", "the public address that HubSpot posts its webhooks to");
        if !url.is_empty() && Url::parse(&url).is_err() {
            self.faults.push("HUBFERRY_WEBHOOK_URL is no URL".into());
        }
        let old_signatures = self.old_signatures();
        let secrets = match self.optional("HUBFERRY_WEBHOOK_SECRETS_FILE") {
            Some(path) => SecretSource::File(path.into()),
            None => SecretSource::Environment(self.webhook_apps()?),
        };
        Some(WebhookSettings { url, secrets, old_signatures })
    }

    /// The client secrets of the apps whose webhooks are taken.
    fn webhook_apps(&mut self) -> Option<Vec<WebhookApp>> {
        let text = self.required("HUBFERRY_WEBHOOK_SECRETS", "the client secrets that HubSpot signs webhooks with");
        if text.is_empty() {
            return None;
        }
        parse_apps(&text).map_err(|error| self.faults.push(format!("HUBFERRY_WEBHOOK_SECRETS {error}"))).ok()
    }

    fn old_signatures(&mut self) -> OldSignatures {
        let mut accepted = OldSignatures::default();
        let names = self.optional("HUBFERRY_WEBHOOK_OLD_SIGNATURES").unwrap_or_default();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "v1" => accepted.v1 = true,
                "v2" => accepted.v2 = true,
                _ => self.faults.push("HUBFERRY_WEBHOOK_OLD_SIGNATURES may be v1, v2 or v1,v2".into()),
            }
        }
        accepted
    }

    /// What a read found wrong. Call it after the last one, so that everything is named at once.
    pub fn finish(self) -> Result<(), ConfigError> {
        if self.faults.is_empty() { Ok(()) } else { Err(ConfigError(self.faults)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_missing_is_named_at_once() {
        let mut environment = Environment::of([("HUBFERRY_SIGNING_KEY", "secret"), ("HUBFERRY_REDIS_URL", " ")]);
        environment.database_url();
        environment.redis_url();
        assert!(environment.signing_keys().is_none());
        let ConfigError(faults) = environment.finish().unwrap_err();
        assert_eq!(faults.len(), 3);
        assert!(faults[0].starts_with("HUBFERRY_DATABASE_URL is not set"));
        assert!(faults[1].starts_with("HUBFERRY_REDIS_URL is not set"));
        assert!(faults[2].starts_with("HUBFERRY_SIGNING_KEY is no signing key"));
    }

    #[test]
    fn a_portal_may_have_a_token_of_its_own() {
        let mut environment = Environment::of([("HUBFERRY_HUBSPOT_TOKEN", "a"), ("HUBFERRY_HUBSPOT_TOKEN_4711", "b")]);
        let settings = environment.hubspot().unwrap();
        assert_eq!(settings.tokens.by_portal.keys().collect::<Vec<_>>(), [&PortalId(4711)]);
        assert_eq!(settings.versions, ApiVersions::default());
        assert!(environment.finish().is_ok());
    }

    #[test]
    fn a_portal_token_without_a_portal_id_is_named_and_an_empty_one_is_missing() {
        let mut environment = Environment::of([
            ("HUBFERRY_HUBSPOT_TOKEN", "a"),
            ("HUBFERRY_HUBSPOT_TOKEN_4711", " "),
            ("HUBFERRY_HUBSPOT_TOKEN_acme", "b"),
        ]);
        assert!(environment.hubspot().unwrap().tokens.by_portal.is_empty());
        let ConfigError(faults) = environment.finish().unwrap_err();
        assert_eq!(faults, ["HUBFERRY_HUBSPOT_TOKEN_acme does not end with a portal id"]);
    }

    #[test]
    fn a_version_that_hubspot_does_not_have_is_refused_by_name() {
        let mut environment =
            Environment::of([("HUBFERRY_HUBSPOT_TOKEN", "a"), ("HUBFERRY_HUBSPOT_VERSION_LISTS", "latest")]);
        environment.hubspot();
        let ConfigError(faults) = environment.finish().unwrap_err();
        assert!(faults[0].starts_with("HUBFERRY_HUBSPOT_VERSION_LISTS"));
    }

    #[test]
    fn webhooks_need_an_address_and_secrets_and_neither_is_shown_when_it_is_wrong() {
        let mut environment = Environment::default();
        assert!(environment.webhook().is_none());
        let ConfigError(faults) = environment.finish().unwrap_err();
        assert_eq!(faults.len(), 2);
        let mut environment = Environment::of([
            ("HUBFERRY_WEBHOOK_URL", "no address"),
            ("HUBFERRY_WEBHOOK_SECRETS", r#"[{"currant": "a-secret-that-is-long"}]"#),
            ("HUBFERRY_WEBHOOK_OLD_SIGNATURES", "v1,v4"),
        ]);
        environment.webhook();
        let ConfigError(faults) = environment.finish().unwrap_err();
        assert!(faults.len() == 3 && !faults.join(" ").contains("secret-that"), "{faults:?}");
        let mut environment = Environment::of([
            ("HUBFERRY_WEBHOOK_URL", "https://hooks.example.test/hubspot"),
            ("HUBFERRY_WEBHOOK_SECRETS_FILE", "/run/secrets/webhooks.json"),
            ("HUBFERRY_WEBHOOK_OLD_SIGNATURES", "v2"),
        ]);
        let settings = environment.webhook().unwrap();
        assert_eq!(settings.old_signatures, OldSignatures { v1: false, v2: true });
        assert!(matches!(settings.secrets, SecretSource::File(_)));
        assert!(environment.finish().is_ok());
    }

    #[test]
    fn what_is_set_wins_over_a_default() {
        let mut environment = Environment::of([("HUBFERRY_REDIS_URL", "redis://set")]);
        environment
            .add_defaults([("HUBFERRY_REDIS_URL".into(), "redis://file".into()), ("OTHER".into(), "file".into())]);
        assert_eq!(environment.optional("HUBFERRY_REDIS_URL").as_deref(), Some("redis://set"));
        assert_eq!(environment.optional("OTHER").as_deref(), Some("file"));
    }
}
