//! Receives HubSpot's webhooks: verify, store, 200. Everything else happens later, from what is stored.
//!
//! HubSpot waits five seconds, and sends again up to ten times within a day whatever is not answered with 2xx. So a bad
//! notification is stored with its reason and answered with 200; 401 is for signatures, 503 for our own outages, and nothing
//! else goes wrong here. Source: HubSpot's webhooks guide.

mod answer;
mod gateway;
mod report;
mod secrets;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, RawQuery, State};
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use futures::FutureExt as _;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::adapters::db::{self, Db, DbFailure, NewDelivery, StoredDelivery};
use crate::clock;
use crate::model::hubspot_signature::{
    OLD_SIGNATURE_HEADER, OLD_VERSION_HEADER, OldSignatures, SIGNATURE_HEADER, SignatureError, SignatureHeaders,
    SignedRequest, TIMESTAMP_HEADER, Verified, WebhookApp, verify,
};
use crate::model::notification::{Notification, Quarantined, Sender, parse};

pub use answer::Answer;
pub use secrets::{SecretSource, Secrets};

/// Where the local stack takes deliveries.
pub const LOCAL_PATH: &str = "/webhooks/hubspot";

/// Lambda takes no more than 6 MB, and HubSpot's 100 notifications hold less.
pub const MOST_BYTES: usize = 6 * 1024 * 1024;

/// HubSpot waits 5 s. The rest is for the way there and back.
const STORE_TIME_LIMIT: Duration = Duration::from_millis(3_500);

/// Headers that are kept with a delivery.
const KEPT_HEADERS: [&str; 7] = [
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    OLD_SIGNATURE_HEADER,
    OLD_VERSION_HEADER,
    "content-type",
    "user-agent",
    "x-amzn-trace-id",
];

/// Longest value of a header that is kept, characters.
const LONGEST_HEADER: usize = 500;

/// What the webhook function works with. Built once.
#[derive(Debug, Clone)]
pub struct Webhook {
    db: Db,
    /// The public address without its query, as it is configured at HubSpot.
    url: Arc<str>,
    secrets: Arc<Secrets>,
    old_signatures: OldSignatures,
    failed_in_a_row: Arc<AtomicU64>,
}

/// How the webhook function is set up.
#[derive(Debug)]
pub struct WebhookSettings {
    /// The public address, as it is configured at HubSpot. Never taken from a request: behind a gateway that one is another.
    pub url: String,
    /// Where the secrets are.
    pub secrets: SecretSource,
    /// Older signatures that are accepted.
    pub old_signatures: OldSignatures,
}

/// A request, as it came.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its query as it was written, without the question mark.
    pub query: Option<&'a str>,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// The bytes of its body.
    pub body: &'a [u8],
}

impl Webhook {
    /// A receiver over this database.
    pub fn new(db: Db, settings: WebhookSettings) -> Self {
        let url = settings.url.split_once('?').map_or(&*settings.url, |(url, _)| url);
        Self {
            db,
            url: url.into(),
            secrets: Arc::new(Secrets::new(settings.secrets)),
            old_signatures: settings.old_signatures,
            failed_in_a_row: Arc::default(),
        }
    }

    /// The route of the local stack.
    pub fn router(self) -> Router {
        let slash = format!("{LOCAL_PATH}/");
        // A delivery to the other form of the path is answered too, by its signature: a redirect would lose it.
        Router::new()
            .route(LOCAL_PATH, any(receive))
            .route(&slash, any(receive))
            .layer(DefaultBodyLimit::max(MOST_BYTES))
            .with_state(self)
    }

    /// Answers a delivery at this instant. Whatever happens, it is an answer.
    pub async fn receive(&self, received: Received<'_>, now: Timestamp) -> Answer {
        let answer = whatever_happens(self.answer(received, now)).await;
        self.report(&answer);
        answer
    }

    async fn answer(&self, received: Received<'_>, now: Timestamp) -> Answer {
        if received.method != "POST" {
            return Answer::MethodNotAllowed;
        }
        if received.body.len() > MOST_BYTES {
            return Answer::TooLarge;
        }
        match self.verify(received, now).await {
            Ok((verified, app)) => self.keep(received, verified, &app, now).await,
            Err(NotVerified::NoSecrets) => Answer::Unavailable,
            Err(NotVerified::Signature(error)) => Answer::Refused(error),
        }
    }

    /// Checks the signature. What fits no known secret is checked once more against the secrets as they are by now.
    async fn verify(&self, received: Received<'_>, now: Timestamp) -> Result<(Verified, WebhookApp), NotVerified> {
        let url = match received.query {
            Some(query) if !query.is_empty() => format!("{}?{query}", self.url),
            _ => self.url.to_string(),
        };
        let all = |name| received.headers.get_all(name).iter().map(header_text).collect::<Vec<&str>>();
        let (signature, timestamp) = (all(SIGNATURE_HEADER), all(TIMESTAMP_HEADER));
        let (old_signature, old_version) = (all(OLD_SIGNATURE_HEADER), all(OLD_VERSION_HEADER));
        let headers = SignatureHeaders {
            signature: &signature,
            timestamp: &timestamp,
            old_signature: &old_signature,
            old_version: &old_version,
        };
        let request = SignedRequest { method: received.method, url: &url, body: received.body, headers };
        let check = |apps: &[WebhookApp]| {
            let verified = verify(&request, apps, self.old_signatures, now.as_millisecond())?;
            Ok((verified, apps[verified.app].clone()))
        };
        let apps = self.secrets.known().await.ok_or(NotVerified::NoSecrets)?;
        match check(&apps) {
            Err(SignatureError::NoSecretMatches) => match self.secrets.read_again().await {
                Some(apps) => check(&apps).map_err(NotVerified::Signature),
                None => Err(NotVerified::Signature(SignatureError::NoSecretMatches)),
            },
            other => other.map_err(NotVerified::Signature),
        }
    }

    async fn keep(&self, received: Received<'_>, verified: Verified, app: &WebhookApp, now: Timestamp) -> Answer {
        let sender = Sender { app_id: app.app_id, portal_id: app.portal_id };
        let parsed = parse(received.body, sender, now.as_millisecond());
        let (notifications, unreadable) = match parsed {
            Ok(notifications) if notifications.is_empty() => return Answer::Empty,
            Ok(notifications) => (notifications, None),
            Err(unreadable) => (Vec::new(), Some(unreadable)),
        };
        let delivery = NewDelivery {
            delivery_id: Uuid::new_v4(),
            headers: &kept_headers(received.headers),
            body: received.body,
            app_id: app.app_id,
            secret: verified.secret,
            version: verified.version,
            unreadable,
        };
        let store = store(&self.db, &delivery, &notifications);
        match tokio::time::timeout(STORE_TIME_LIMIT, store).await {
            Ok(Ok(stored)) => Answer::Stored { delivery_id: delivery.delivery_id, stored, unreadable },
            Ok(Err(failure)) => {
                tracing::error!(error = %failure, "A delivery of a webhook could not be stored.");
                Answer::Unavailable
            }
            Err(_) => {
                tracing::error!(limit = ?STORE_TIME_LIMIT, "A delivery of a webhook could not be stored in time.");
                Answer::Unavailable
            }
        }
    }
}

/// A panic is an outage of ours: HubSpot sends again what met it, and everything else goes on.
async fn whatever_happens(answer: impl Future<Output = Answer>) -> Answer {
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("A delivery of a webhook made the function panic.");
        Answer::Unavailable
    })
}

/// Why a request can't be taken as HubSpot's.
enum NotVerified {
    /// There are no secrets to be had now.
    NoSecrets,
    /// It is not HubSpot's, as far as can be seen.
    Signature(SignatureError),
}

/// The one handler of the local stack.
async fn receive(
    State(webhook): State<Webhook>,
    method: Method,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return Answer::unread(rejection.status()).into_response(),
    };
    let received = Received { method: method.as_str(), query: query.as_deref(), headers: &headers, body: &body };
    webhook.receive(received, clock::now()).await.into_response()
}

/// Two deliveries of the same wait for each other in one order, so that a deadlock takes somebody else.
async fn store(
    db: &Db,
    delivery: &NewDelivery<'_>,
    notifications: &[Result<Notification, Quarantined>],
) -> Result<StoredDelivery, DbFailure> {
    let connection = db.connection().await?;
    db::again_after_conflict(|| db::store_webhook_delivery(&*connection, delivery, notifications)).await
}

/// A header that is no text can't be part of a signature: it counts as an empty one.
fn header_text(value: &axum::http::HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}

fn kept_headers(headers: &HeaderMap) -> Value {
    let kept: Map<String, Value> = KEPT_HEADERS
        .iter()
        .filter_map(|name| {
            let text: String = header_text(headers.get(*name)?).chars().take(LONGEST_HEADER).collect();
            Some(((*name).to_owned(), json!(text)))
        })
        .collect();
    Value::Object(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_answered_like_an_outage() {
        assert_eq!(whatever_happens(async { panic!("for this test") }).await, Answer::Unavailable);
        assert_eq!(whatever_happens(async { Answer::Empty }).await, Answer::Empty);
    }
}
