//! What an invocation has to bear: little time, and a panic.

use std::time::Duration;

use axum::http::Method;
use lambda_runtime_emulator::{Function, Instances, Outcome};
use serde_json::{Value, json};
use sqs_emulator::event_source::{self, EventSourceMapping};

use super::{AMPLE, Deployed, bootstrap, events, handler_of};
use crate::servers::redis_url;
use crate::world::WorldConfig;

/// A portal's window. A worker that waited for its calls whatever the time would be killed for it.
const WINDOW: Duration = Duration::from_mins(1);

/// Time enough for calls, were there any to be had.
const HALF_A_WINDOW: Duration = Duration::from_secs(30);

/// No call is begun so shortly before a deadline.
const SHORT: Duration = Duration::from_secs(12);

/// Calls of one contact: its record, two for its status, its segment.
const CALLS_OF_A_CONTACT: u32 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_answers_before_its_deadline_and_leaves_the_rest_for_later() {
    let config = WorldConfig { call_limit: CALLS_OF_A_CONTACT, call_window: WINDOW, ..WorldConfig::default() };
    let deployed = Deployed::with(config, &redis_url()).await;
    deployed.accept("ada@example.test", "subscribed", "interactive").await;
    deployed.drain().await;
    for (email, time, reason) in
        [("bob@example.test", HALF_A_WINDOW, "no_budget"), ("cy@example.test", SHORT, "no_time")]
    {
        deployed.accept(email, "subscribed", "interactive").await;
        assert_eq!(deployed.publish().await["queued"], 1);
        // Lambda kills what has not answered by then, and gives the batch back.
        let mapping = EventSourceMapping { function_timeout: time, ..deployed.world.mappings[0].clone() };
        let worker = handler_of(&deployed.worker);
        let summary = event_source::drain(&deployed.world.queues.client(), &mapping, &worker).await.unwrap();
        assert_eq!((summary.deleted, summary.failed), (1, 0), "{time:?}");
        let left = ("retry".to_owned(), Some(reason.to_owned()), 1);
        assert!(deployed.world.statuses().await.contains(&left), "{:?}", deployed.world.statuses().await);
        deployed.assert_nothing_is_left_open().await;
    }
    assert_eq!(deployed.worker.started(), 1);
    deployed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispatcher_polls_and_answers_before_its_deadline() {
    let deployed = Deployed::new().await;
    let answer = deployed.dispatcher.invoke(&events::tick(), SHORT).await.unwrap().answer().unwrap();
    assert!(answer["rounds"].as_u64().unwrap() >= 2, "{answer}");
    deployed.assert_nothing_is_left_open().await;
    deployed.end().await;
}

#[tokio::test]
async fn a_panic_is_an_error_of_its_invocation_and_the_process_serves_the_next() {
    let function = Instances::of(Function::new("panicking", bootstrap("panicking-function")));
    let outcome = function.invoke(&json!({"panic": "about ada@example.test"}), AMPLE).await.unwrap();
    let Outcome::Failed(error) = outcome else { panic!("no error: {outcome:?}") };
    assert_eq!(error.error_type, "FunctionPanicked");
    let next = function.invoke(&json!({"served": "next"}), AMPLE).await.unwrap();
    assert_eq!((next.answer().unwrap(), function.started()), (json!({"served": "next"}), 1));

    let lines = function.end().await;
    assert!(!format!("{lines:?} {}", error.message).contains("ada"), "what a panic says is personal: {lines:?}");
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = |line: &&Value| line["message"] == "The function panicked." && line["level"] == "ERROR";
    let told: Vec<&Value> = lines.iter().filter(told).collect();
    assert!(told.len() == 1 && told[0]["place"].as_str().unwrap().contains("panicking-function.rs"), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_makes_the_library_of_api_gateway_panic_costs_only_itself() {
    let deployed = Deployed::new().await;
    // It panics at a body that is no base64, before any handler is asked.
    let bearer = format!("Bearer {}", deployed.settings.bearer_token);
    let mut event = events::request(&Method::POST, "/v1/subscriptions", &[("authorization", &bearer)], "~~ada~~");
    event["isBase64Encoded"] = json!(true);
    let outcome = deployed.intake.invoke(&event, AMPLE).await.unwrap();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");

    deployed.accept("ada@example.test", "subscribed", "interactive").await;
    assert_eq!(deployed.intake.started(), 1);
    deployed.end().await;
}
