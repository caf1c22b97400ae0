//! HubSpot's webhooks, as HubSpot sends them: through the function's own handler, into a real database.

mod bent;
mod command;
mod corpus;
mod lanes;
mod load;
mod local;
mod node_client;
mod outage;
mod pruning;
mod stopped;
mod storing;
mod unusual;
mod verifying;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use hubferry::adapters::db::Db;
use hubferry::flows::webhook::{LOCAL_PATH, SecretSource, Webhook, WebhookSettings};
use hubferry::model::hubspot_signature::{ClientSecrets, OldSignatures, WebhookApp, sign_v3};
use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::accepting::setting::Setting;

/// The public address as HubSpot knows it, which is nowhere near the test.
const URL: &str = "https://hooks.example.test/hubspot/webhooks";

const SECRET: &str = "a-client-secret-that-only-tests-know";

/// The portal that the setting registers.
const PORTAL: i64 = 4711;

/// Far above any answer.
const MOST_ANSWER_BYTES: usize = 64 * 1024;

/// A receiver over a database of its own.
struct Hooks {
    setting: Setting,
    webhook: Webhook,
    router: Router,
}

/// What came back.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl Hooks {
    async fn new() -> Self {
        Self::with(settings(SecretSource::Environment(vec![app(SECRET, None)]))).await
    }

    async fn with(settings: WebhookSettings) -> Self {
        let setting = Setting::new().await;
        let webhook = Webhook::new(setting.db.clone(), settings);
        Self { router: webhook.clone().router(), setting, webhook }
    }

    /// Delivers as HubSpot does.
    async fn deliver(&self, body: &str) -> Answer {
        send(&self.router, signed(SECRET, body.as_bytes(), now())).await
    }

    /// Delivers these notifications; panics unless they are stored.
    async fn store(&self, notifications: &[Value]) -> Answer {
        let answer = self.deliver(&json!(notifications).to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer
    }

    /// One number from the database.
    async fn count(&self, what: &str) -> i64 {
        self.setting.ask(&format!("select count(*) from hubferry.{what}")).await.get(0)
    }

    /// Deliveries, notifications and events that there are.
    async fn rows(&self) -> (i64, i64, i64) {
        (
            self.count("webhook_deliveries").await,
            self.count("webhook_events").await,
            self.count("outbox_events where kind = 'webhook.delivery.v1'").await,
        )
    }

    /// Reasons of what is quarantined, in the order in which they came.
    async fn reasons(&self) -> Vec<String> {
        let sql = "select coalesce(array_agg(reason order by position), '{}')
                   from hubferry.webhook_events where state = 'quarantined'";
        self.setting.ask(sql).await.get(0)
    }
}

impl Answer {
    fn expect_problem(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.body);
        assert_eq!(self.headers["content-type"], "application/problem+json");
    }

    /// Received, quarantined and repeated.
    fn counts(&self) -> [i64; 3] {
        ["received", "quarantined", "repeated"].map(|name| self.body[name].as_i64().expect("a count"))
    }
}

fn settings(secrets: SecretSource) -> WebhookSettings {
    WebhookSettings { url: URL.into(), secrets, old_signatures: OldSignatures::default() }
}

fn app(current: &str, next: Option<&str>) -> WebhookApp {
    let secrets = ClientSecrets { current: current.into(), next: next.map(SecretString::from) };
    WebhookApp { app_id: None, portal_id: None, secrets }
}

/// The instant by this machine's clock.
fn now() -> Timestamp {
    hubferry::clock::now()
}

/// A request that is signed as HubSpot signs.
fn signed(secret: &str, body: &[u8], at: Timestamp) -> Request<Body> {
    let timestamp = at.as_millisecond().to_string();
    let signature = sign_v3(&secret.into(), "POST", URL, body, &timestamp);
    let request = Request::post(LOCAL_PATH)
        .header("content-type", "application/json")
        .header("x-hubspot-request-timestamp", timestamp)
        .header("x-hubspot-signature-v3", signature);
    request.body(Body::from(body.to_vec())).expect("a request")
}

async fn send(router: &Router, request: Request<Body>) -> Answer {
    let (parts, body) = router.clone().oneshot(request).await.expect("a router answers").into_parts();
    let bytes = to_bytes(body, MOST_ANSWER_BYTES).await.expect("a whole answer");
    let body = serde_json::from_slice(&bytes).expect("every answer is JSON");
    assert_ne!(parts.status, StatusCode::INTERNAL_SERVER_ERROR);
    Answer { status: parts.status.as_u16(), headers: parts.headers, body }
}

/// A property change of the registered portal with some fields replaced; null takes one away.
fn change(replaced: Value) -> Value {
    let mut notification = json!({
        "eventId": 880_001, "subscriptionId": 55_001, "portalId": PORTAL, "appId": 9001,
        "occurredAt": 1_790_000_000_000_i64, "subscriptionType": "contact.propertyChange", "attemptNumber": 0,
        "objectId": 90_210, "changeSource": "CRM_UI", "propertyName": "city", "propertyValue": "Utrecht",
    });
    let (Value::Object(fields), Value::Object(replaced)) = (&mut notification, replaced) else { panic!("not objects") };
    fields.extend(replaced);
    notification
}

/// A receiver whose database would be at this port.
fn webhook_at(port: u16) -> Router {
    let url = format!("postgres://hubferry:secret@127.0.0.1:{port}/hubferry");
    let db = Db::new(&SecretString::from(url), 2).expect("a URL that can be read");
    Webhook::new(db, settings(SecretSource::Environment(vec![app(SECRET, None)]))).router()
}
