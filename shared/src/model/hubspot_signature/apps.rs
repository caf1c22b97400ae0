//! The apps that may deliver, and their secrets, as an operator writes them down.

use secrecy::SecretString;
use serde::Deserialize;

use super::ClientSecrets;

/// Every secret is tried with every request: far more than anybody's apps, and a bound on that work.
const MOST_APPS: usize = 50;

/// HubSpot's client secrets are UUIDs of 36 characters. A short one is a typing error, or can be guessed.
const LEAST_SECRET_LENGTH: usize = 16;

/// An app that delivers, and what its secret is good for.
#[derive(Debug, Clone)]
pub struct WebhookApp {
    /// HubSpot's id of the app: what it signs is taken for this app only.
    pub app_id: Option<i64>,
    /// The one portal that it delivers for: what it signs about another one is not believed.
    pub portal_id: Option<i64>,
    /// Its secrets.
    pub secrets: ClientSecrets,
}

/// Why a list of apps can't be used. Shows nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppsError {
    /// Not the expected form.
    #[error(r#"is not a JSON list such as [{{"app_id": 9001, "portal_id": 4711, "current": "…", "next": "…"}}]"#)]
    Malformed,
    /// Nobody could deliver.
    #[error("names no app")]
    Empty,
    /// More than are tried.
    #[error("names more than {MOST_APPS} apps")]
    TooMany,
    /// A secret that is no secret.
    #[error("has a secret of fewer than {LEAST_SECRET_LENGTH} characters")]
    ShortSecret,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    app_id: Option<i64>,
    #[serde(default)]
    portal_id: Option<i64>,
    current: String,
    #[serde(default)]
    next: Option<String>,
}

/// Reads `[{"app_id": 9001, "portal_id": 4711, "current": "…", "next": "…"}]`; all but `current` may be left out.
pub fn parse_apps(text: &str) -> Result<Vec<WebhookApp>, AppsError> {
    let entries: Vec<Entry> = serde_json::from_str(text).map_err(|_| AppsError::Malformed)?;
    match entries.len() {
        0 => return Err(AppsError::Empty),
        1..=MOST_APPS => {}
        _ => return Err(AppsError::TooMany),
    }
    entries
        .into_iter()
        .map(|entry| {
            let next = entry.next.map(|next| next.trim().to_owned()).filter(|next| !next.is_empty());
            let secrets =
                ClientSecrets { current: secret(&entry.current)?, next: next.as_deref().map(secret).transpose()? };
            Ok(WebhookApp { app_id: entry.app_id, portal_id: entry.portal_id, secrets })
        })
        .collect()
}

fn secret(text: &str) -> Result<SecretString, AppsError> {
    let text = text.trim();
    if text.len() < LEAST_SECRET_LENGTH { Err(AppsError::ShortSecret) } else { Ok(text.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_apps_is_read_and_everything_but_the_secret_may_be_left_out() {
        let text = r#"[{"current": "a-secret-of-the-first-app"},
                       {"app_id": 9001, "portal_id": 4711, "current": " another-long-secret ", "next": "the-one-that-follows"},
                       {"current": "a-secret-of-the-third-app", "next": ""}]"#;
        let apps = parse_apps(text).unwrap();
        assert_eq!(
            apps.iter().map(|app| (app.app_id, app.portal_id)).collect::<Vec<_>>(),
            [(None, None), (Some(9001), Some(4711)), (None, None)]
        );
        assert_eq!(apps.iter().map(|app| app.secrets.next.is_some()).collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn what_is_wrong_is_named_without_the_secret() {
        let many = format!("[{}]", vec![r#"{"current": "a-secret-that-is-long"}"#; MOST_APPS + 1].join(","));
        for (text, expected) in [
            ("", AppsError::Malformed),
            (r#"{"current": "a-secret-that-is-long"}"#, AppsError::Malformed),
            (r#"[{"secret": "a-secret-that-is-long"}]"#, AppsError::Malformed),
            (r#"[{"current": "a-secret-that-is-long", "portal": 1}]"#, AppsError::Malformed),
            ("[]", AppsError::Empty),
            (r#"[{"current": "short"}]"#, AppsError::ShortSecret),
            (r#"[{"current": "a-secret-that-is-long", "next": "short"}]"#, AppsError::ShortSecret),
            (&many, AppsError::TooMany),
        ] {
            let error = parse_apps(text).unwrap_err();
            assert_eq!(error, expected, "{text}");
            assert!(!error.to_string().contains("secret-that"));
        }
    }
}
