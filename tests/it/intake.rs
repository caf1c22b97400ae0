//! The intake, as its callers see it. Every answer is held against the description of the interface.

mod anything;
mod authorising;
mod batches;
mod document;
mod erasing;
mod malformed;
mod outage;
mod refusals;
mod wire;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use hubferry::flows::intake::Intake;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::accepting::setting::{BRAND, Setting, subscribing, unsubscribing, with};

const SINGLE: &str = "/v1/subscriptions";
const BATCH: &str = "/v1/subscriptions/batch";

/// Far above any answer of the intake.
const MOST_ANSWER_BYTES: usize = 1024 * 1024;

/// An intake over a database of its own, and a caller with a token for one brand.
struct Intaking {
    setting: Setting,
    router: Router,
    token: String,
}

/// What came back, already held against the description.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

impl Intaking {
    async fn new() -> Self {
        let setting = Setting::new().await;
        let router = Intake::new(setting.db.clone()).router();
        let token = setting.token(&[BRAND]).await;
        Self { setting, router, token }
    }

    /// Sends a single request under a key, and checks that schema and door agree about it.
    async fn accept(&self, key: &str, request: &Value) -> Answer {
        let call = self.call(Method::POST, SINGLE).header("idempotency-key", key);
        let answer = self.send(call.body(Body::from(request.to_string())).expect("a request")).await;
        document::check_agreement(SINGLE, request, answer.fault());
        answer
    }

    /// Sends a body as it is.
    async fn send_body(&self, path: &str, body: impl Into<Body>) -> Answer {
        let call = self.call(Method::POST, path).header("idempotency-key", "a-key");
        self.send(call.body(body.into()).expect("a request")).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(self.call(Method::GET, path).body(Body::empty()).expect("a request")).await
    }

    /// A call with the caller's token.
    fn call(&self, method: Method, path: &str) -> axum::http::request::Builder {
        let authorization = format!("Bearer {}", self.token);
        Request::builder().method(method).uri(path).header(header::AUTHORIZATION, authorization)
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        send(&self.router, request).await
    }

    /// Sends what is to be refused; panics unless the answer has this status, code and field, and nothing was written.
    async fn refuse(&self, request: &Value, status: u16, code: &str, field: &str) {
        let before = self.setting.rows().await;
        let answer = self.accept("a-key", request).await;
        answer.expect_problem(status, code, Some(field));
        assert_eq!(self.setting.rows().await, before, "{code} at {field} left something behind");
    }
}

/// Sends a request, and holds the answer against the description of the interface.
async fn send(router: &Router, request: Request<Body>) -> Answer {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = router.clone().oneshot(request).await.expect("a router answers");
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, MOST_ANSWER_BYTES).await.expect("a whole answer");
    let body = serde_json::from_slice(&bytes).expect("every answer is JSON");
    document::check_answer(&method, &path, parts.status, &parts.headers, &body);
    Answer { status: parts.status, headers: parts.headers, body }
}

impl Answer {
    /// Code and field of a problem.
    fn fault(&self) -> Option<(&str, &str)> {
        self.body["code"].as_str().map(|code| (code, self.body["field"].as_str().unwrap_or_default()))
    }

    fn expect_problem(&self, status: u16, code: &str, field: Option<&str>) {
        let found = (self.status.as_u16(), self.body["code"].as_str(), self.body["field"].as_str());
        assert_eq!(found, (status, Some(code), field), "{}", self.body);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.body["status"], status);
    }

    fn expect_accepted(&self) -> &Value {
        assert_eq!(self.status, StatusCode::ACCEPTED, "{}", self.body);
        assert_eq!(self.body["replayed"], false);
        &self.body
    }

    /// The first receipt, word for word but for `replayed`.
    fn expect_replay_of(&self, first: &Value) {
        assert_eq!(self.status, StatusCode::OK, "{}", self.body);
        assert_eq!(self.body, with(first.clone(), "/replayed", json!(true)));
    }
}

#[tokio::test]
async fn an_accepted_request_is_answered_with_its_receipt_and_can_be_followed() {
    let intake = Intaking::new().await;
    let answer = intake.accept("sign-up-1", &subscribing("ada@example.test")).await;
    let receipt = answer.expect_accepted();
    assert_eq!((&receipt["sequence"], &receipt["status"]), (&json!(1), &json!("accepted")));

    let location = answer.headers[header::LOCATION].to_str().expect("a path");
    let status = intake.get(location).await;
    assert_eq!(status.status, StatusCode::OK);
    assert_eq!(status.body["request_id"], receipt["request_id"]);
    assert_eq!(status.body["event_id"], receipt["event_id"]);
    assert_eq!((&status.body["status"], &status.body["finished_at"]), (&json!("pending"), &Value::Null));
}

#[tokio::test]
async fn a_repeat_gets_the_first_receipt_and_writes_nothing() {
    let intake = Intaking::new().await;
    let request = subscribing("ada@example.test");
    let first = intake.accept("k", &request).await;
    let rows = intake.setting.rows().await;
    intake.accept("k", &request).await.expect_replay_of(first.expect_accepted());
    assert_eq!(intake.setting.rows().await, rows);
}

#[tokio::test]
async fn a_repeat_is_answered_from_its_receipt_even_when_the_mapping_is_gone() {
    let intake = Intaking::new().await;
    let request = subscribing("ada@example.test");
    let first = intake.accept("k", &request).await;
    let retire = "update hubferry.mappings set state = 'retired', retired_at = now() where state = 'active'";
    intake.setting.application().await.batch_execute(retire).await.expect("an update");
    intake.accept("k", &request).await.expect_replay_of(first.expect_accepted());
    intake.accept("new", &request).await.expect_problem(422, "no_active_mapping", Some("product"));
}

#[tokio::test]
async fn the_same_key_with_another_request_is_a_conflict() {
    let intake = Intaking::new().await;
    let request =
        with(subscribing("ada@example.test"), "/contact/properties", json!({"firstname": "Ada", "visits": 1}));
    intake.accept("k", &request).await.expect_accepted();
    let rows = intake.setting.rows().await;
    let others = [
        subscribing("ada@example.test"),
        unsubscribing("ada@example.test"),
        with(request.clone(), "/contact/email", json!("adb@example.test")),
        with(request.clone(), "/contact/key", json!("user-1")),
        with(request.clone(), "/contact/properties/visits", json!("1")),
        with(request.clone(), "/contact/properties/firstname", json!("ada")),
        with(request.clone(), "/consent/explanation", json!("said so")),
        with(request, "/consent/given_at", json!("2026-05-04T09:30:00Z")),
    ];
    for other in others {
        intake.accept("k", &other).await.expect_problem(409, "idempotency_conflict", Some("Idempotency-Key"));
    }
    assert_eq!(intake.setting.rows().await, rows);
}

#[tokio::test]
async fn a_repeat_that_has_become_malformed_is_refused_and_not_replayed() {
    let intake = Intaking::new().await;
    let request = subscribing("ada@example.test");
    intake.accept("k", &request).await.expect_accepted();
    let typo = with(request, "/lanes", json!("bulk"));
    intake.accept("k", &typo).await.expect_problem(422, "unknown_field", Some("lanes"));
}

#[tokio::test]
async fn the_trace_of_the_caller_travels_with_the_event() {
    let intake = Intaking::new().await;
    let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = intake.call(Method::POST, SINGLE).header("idempotency-key", "k").header("traceparent", given);
    let request = call.body(Body::from(subscribing("ada@example.test").to_string())).expect("a request");
    intake.send(request).await.expect_accepted();
    let row = intake.setting.ask("select traceparent from hubferry.outbox_events").await;
    assert_eq!(row.get::<_, &str>(0), given);
}
