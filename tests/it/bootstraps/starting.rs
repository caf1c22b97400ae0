//! How functions start: without servers, and not without their variables.

use std::net::TcpListener;

use axum::http::Method;
use lambda_runtime_emulator::{Outcome, Sandbox};
use serde_json::{Value, json};
use url::Url;

use super::{AMPLE, Deployed, ONE_ROUND, events};
use crate::postgres_proxy::PostgresProxy;

const FUNCTIONS: [&str; 6] = ["intake", "webhook", "dispatcher", "worker", "reconciler", "migrate"];

/// What each function can't do without.
const REQUIRED: [(&str, &[&str]); 6] = [
    ("intake", &["HUBFERRY_DATABASE_URL"]),
    ("webhook", &["HUBFERRY_DATABASE_URL", "HUBFERRY_WEBHOOK_URL", "HUBFERRY_WEBHOOK_SECRETS"]),
    (
        "dispatcher",
        &[
            "HUBFERRY_DATABASE_URL",
            "HUBFERRY_SIGNING_KEY",
            "HUBFERRY_QUEUE_INTERACTIVE_URL",
            "HUBFERRY_QUEUE_BULK_URL",
            "HUBFERRY_QUEUE_INBOUND_URL",
        ],
    ),
    ("worker", &["HUBFERRY_DATABASE_URL", "HUBFERRY_SIGNING_KEY", "HUBFERRY_REDIS_URL", "HUBFERRY_HUBSPOT_TOKEN"]),
    ("reconciler", &["HUBFERRY_DATABASE_URL"]),
    ("migrate", &["HUBFERRY_DATABASE_URL"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn functions_start_while_the_database_is_away_say_so_and_serve_once_it_is_back() {
    let mut deployed = Deployed::new().await;
    let database_url = deployed.settings.database_url.clone();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut away: Url = database_url.parse().unwrap();
    away.set_port(Some(port)).unwrap();
    deployed.settings.database_url = away.into();
    let mut sandboxes = Vec::new();
    for name in FUNCTIONS {
        let sandbox = Sandbox::start(&deployed.settings.function(name)).await.unwrap();
        sandbox.ready().await.unwrap_or_else(|error| panic!("{name} does not start: {error:#}"));
        sandboxes.push(sandbox);
    }
    let bearer = format!("Bearer {}", deployed.settings.bearer_token);
    let request = events::request(
        &Method::POST,
        "/v1/subscriptions",
        &[("authorization", &bearer), ("idempotency-key", "a")],
        "{}",
    );
    let delivery = || events::delivery(&[json!({"eventId": 1})]);
    let given = |name: &str| match name {
        "intake" => request.clone(),
        "webhook" => delivery(),
        "worker" => sealed_message(),
        _ => events::tick(),
    };
    let time_of = |name: &str| if name == "dispatcher" { ONE_ROUND } else { AMPLE };

    for (name, sandbox) in FUNCTIONS.into_iter().zip(&mut sandboxes) {
        let outcome = sandbox.invoke(&given(name), time_of(name)).await;
        match name {
            "intake" | "webhook" => assert_eq!(outcome.answer().unwrap()["statusCode"], 503, "{name}"),
            "dispatcher" => assert_eq!(outcome.answer().unwrap()["rounds"], 0),
            _ => assert!(
                matches!(&outcome, Outcome::Failed(error) if error.error_type.ends_with("Failed")),
                "{name}: {outcome:?}"
            ),
        }
    }
    let _proxy = PostgresProxy::at(port, &database_url).await;
    for (name, sandbox) in FUNCTIONS.into_iter().zip(&mut sandboxes) {
        let answer = sandbox.invoke(&given(name), time_of(name)).await.answer().unwrap();
        match name {
            // What was sent is no request; who says so has read the token.
            "intake" => assert_eq!(answer["statusCode"], 422, "{answer}"),
            "webhook" => assert_eq!(answer["statusCode"], 200, "{answer}"),
            "dispatcher" => assert_eq!(answer["rounds"], 1, "{answer}"),
            _ => {}
        }
    }
    let mut lines = Vec::new();
    for sandbox in sandboxes {
        lines.extend(sandbox.end().await);
    }
    deployed.settings.assert_discreet(&lines);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_that_is_missing_is_named_in_the_log_and_the_process_ends() {
    let deployed = Deployed::new().await;
    for (name, variables) in REQUIRED {
        let complete = deployed.settings.function(name);
        for variable in variables {
            let sandbox = Sandbox::start(&complete.clone().without(variable)).await.unwrap();
            assert_eq!(sandbox.ended().await.and_then(|status| status.code()), Some(1), "{name} without {variable}");
            let lines = sandbox.end().await;
            let named = |line: &Value| {
                let error = line["error"].as_str().unwrap_or_default();
                line["level"] == "ERROR" && error.contains(&format!("{variable} is not set"))
            };
            let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert!(lines.len() == 1 && named(&lines[0]), "{name} without {variable}: {lines:?}");
        }
    }
    deployed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_that_can_t_be_read_is_named_and_not_shown() {
    let deployed = Deployed::new().await;
    for (name, variable) in [
        ("worker", "HUBFERRY_SIGNING_KEY"),
        ("webhook", "HUBFERRY_WEBHOOK_SECRETS"),
        ("intake", "HUBFERRY_DATABASE_URL"),
    ] {
        let function = deployed.settings.function(name).with(variable, "[{a-mistyped-secret");
        let sandbox = Sandbox::start(&function).await.unwrap();
        assert_eq!(sandbox.ended().await.and_then(|status| status.code()), Some(1), "{name} with a bad {variable}");
        let text = sandbox.end().await.join("\n");
        assert!(text.contains(variable) && !text.contains("mistyped"), "{text}");
    }
    deployed.end().await;
}

/// A batch with a message that the worker's key opens, of an event that nobody knows.
fn sealed_message() -> Value {
    use hubferry::model::envelope::{SigningKey, seal};
    use hubferry::model::ids::EventId;
    let key = SigningKey::parse(crate::world::SIGNING_KEY).unwrap();
    let sealed = seal(EventId(uuid::Uuid::new_v4()), &key, hubferry::clock::now().as_second());
    let mut event = events::messages();
    event["Records"].as_array_mut().unwrap().truncate(1);
    event["Records"][0]["body"] = json!(sealed.body);
    let attributes =
        [("webhook-id", sealed.id), ("webhook-timestamp", sealed.timestamp), ("webhook-signature", sealed.signature)];
    for (name, value) in attributes {
        event["Records"][0]["messageAttributes"][name] =
            json!({"stringValue": value, "stringListValues": [], "binaryListValues": [], "dataType": "String"});
    }
    event
}
