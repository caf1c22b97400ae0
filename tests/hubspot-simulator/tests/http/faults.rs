//! Faults on demand.

use std::time::Duration;

use hubspot_simulator::{AccountConfig, Action, BurstLimit, Fault, Latency, Response, SimulatorConfig};
use reqwest::Method;
use serde_json::json;

use crate::hub::{Hub, UPSERT, by_email};

const ENDPOINT: &str = "contacts.batch_upsert";

fn inputs(email: &str) -> serde_json::Value {
    json!({ "inputs": [by_email(email, json!({}))] })
}

#[tokio::test]
async fn lost_answer_leaves_the_write_behind() {
    let hub = Hub::start().await;
    hub.simulator.add_fault(Fault::next(1, Action::LoseAnswer).on_endpoint(ENDPOINT));
    let lost = hub.send(Method::POST, UPSERT, Some(inputs("ann@example.test"))).await;
    assert!(lost.is_err(), "the connection closed without an answer");
    assert!(hub.simulator.contact_by_email("ann@example.test").is_some());
    let again = hub.post(UPSERT, inputs("ann@example.test")).await;
    assert_eq!(again.results()[0]["new"], false);
    let stats = hub.simulator.stats();
    assert_eq!(stats.endpoints[ENDPOINT]["lost_answer"], 1);
    assert_eq!(stats.highest_window, 2, "a lost answer counts");
}

#[tokio::test]
async fn cut_connection_writes_and_counts_nothing() {
    let hub = Hub::start().await;
    hub.simulator.add_fault(Fault::next(1, Action::Cut));
    assert!(hub.send(Method::POST, UPSERT, Some(inputs("ann@example.test"))).await.is_err());
    assert!(hub.simulator.contacts().is_empty());
    let stats = hub.simulator.stats();
    assert_eq!((stats.highest_window, stats.endpoints[ENDPOINT]["cut"]), (0, 1));
}

#[tokio::test]
async fn given_answer_replaces_processing_for_the_next_calls() {
    let hub = Hub::start().await;
    hub.simulator.add_fault(Fault::next(2, Action::locked()).on_method("POST").on_path("/batch/upsert"));
    for _ in 0..2 {
        let seen = hub.post(UPSERT, inputs("ann@example.test")).await;
        assert_eq!((seen.status, seen.json["category"].as_str()), (423, Some("LOCKED")));
        assert!(seen.header("x-hubspot-ratelimit-remaining").is_some());
    }
    assert!(hub.simulator.contacts().is_empty());
    assert_eq!(hub.post(UPSERT, inputs("ann@example.test")).await.status, 200);
}

#[tokio::test]
async fn a_fault_may_strike_one_account_only() {
    let other = AccountConfig::new(4712, "other-token");
    let accounts = vec![AccountConfig::default(), other];
    let mut hub = Hub::configured(SimulatorConfig { accounts, ..SimulatorConfig::default() }).await;
    hub.simulator.add_fault(Fault::always(Action::locked()).on_portal(4711));
    assert_eq!(hub.post(UPSERT, inputs("ann@example.test")).await.status, 423);
    hub.token = "other-token";
    assert_eq!(hub.post(UPSERT, inputs("ann@example.test")).await.status, 200);
}

#[tokio::test]
async fn a_wait_may_be_named_twice() {
    let hub = Hub::start().await;
    let headers = [("Retry-After", "5"), ("retry-after", "60")].map(|(name, wait)| (name.to_owned(), wait.to_owned()));
    let body = Some(json!({"status": "error"}));
    let twice = Response { status: 503, headers: headers.into(), body, body_raw: None };
    hub.simulator.add_fault(Fault::next(1, Action::Respond(twice)));
    let seen = hub.post(UPSERT, inputs("ann@example.test")).await;
    let mut waits: Vec<_> = seen.headers.get_all("retry-after").iter().map(|wait| wait.to_str().unwrap()).collect();
    waits.sort_unstable();
    assert_eq!(waits, ["5", "60"]);
}

#[tokio::test]
async fn answers_may_be_html_truncated_or_end_in_the_middle() {
    let hub = Hub::start().await;
    hub.simulator.add_fault(Fault::next(1, Action::Html(502)));
    let html = hub.post(UPSERT, inputs("ann@example.test")).await;
    assert!(html.status == 502 && html.text.starts_with("<html>"));
    assert!(hub.simulator.contacts().is_empty());
    hub.simulator.add_fault(Fault::next(1, Action::Truncate));
    let truncated = hub.post(UPSERT, inputs("ann@example.test")).await;
    assert!(truncated.status == 200 && truncated.json.is_null() && truncated.text.starts_with('{'));
    hub.simulator.add_fault(Fault::next(1, Action::CutBody));
    assert!(hub.send(Method::POST, UPSERT, Some(inputs("bob@example.test"))).await.is_err());
    assert_eq!(hub.simulator.contacts().len(), 2);
}

#[tokio::test]
async fn call_of_a_client_that_gave_up_is_still_processed() {
    let hub = Hub::start().await;
    hub.simulator.add_fault(Fault::next(1, Action::DelayMs(200)));
    let request = hub.client.post(format!("{}{UPSERT}", hub.simulator.base_url()));
    let request = request.bearer_auth(hub.token).json(&inputs("ann@example.test"));
    let client = tokio::spawn(request.send());
    // It counts when it comes, before the delay.
    until(|| hub.simulator.stats().highest_window == 1).await;
    client.abort();
    assert!(client.await.is_err(), "the client gave up before the answer");
    until(|| hub.simulator.contact_by_email("ann@example.test").is_some()).await;
}

async fn until(is_reached: impl Fn() -> bool) {
    let waiting = async {
        while !is_reached() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
}

#[tokio::test]
async fn share_strikes_about_that_part_of_the_calls() {
    let hub = Hub::with(AccountConfig { burst: None, ..AccountConfig::default() }).await;
    hub.simulator.add_fault(Fault::share(0.3, Action::respond(500, json!({ "status": "error" }))));
    for _ in 0..200 {
        hub.get("/crm/v3/objects/contacts").await;
    }
    let struck = hub.simulator.stats().with_status(500);
    assert!((30..=90).contains(&struck), "{struck} of 200");
}

#[tokio::test]
async fn respond_with_429_does_not_use_up_the_window() {
    let burst = Some(BurstLimit { calls: 1, window_ms: 10_000 });
    let hub = Hub::with(AccountConfig { burst, ..AccountConfig::default() }).await;
    hub.simulator.add_fault(Fault::next(1, Action::respond_raw(429, "<html>slow down</html>")));
    assert_eq!(hub.post(UPSERT, inputs("ann@example.test")).await.status, 429);
    assert_eq!(hub.post(UPSERT, inputs("ann@example.test")).await.status, 200);
}

#[tokio::test]
async fn fault_may_pick_a_row_and_let_calls_pass_first() {
    let hub = Hub::start().await;
    hub.simulator.add_fault(Fault::always(Action::migrating(60)).on_body("poison@example.test").after(1));
    assert_eq!(hub.post(UPSERT, inputs("poison@example.test")).await.status, 200);
    assert_eq!(hub.post(UPSERT, inputs("ann@example.test")).await.status, 200);
    let struck = hub.post(UPSERT, inputs("poison@example.test")).await;
    assert_eq!((struck.status, struck.header("retry-after")), (477, Some("60")));
    hub.simulator.clear_faults();
    assert_eq!(hub.post(UPSERT, inputs("poison@example.test")).await.status, 200);
}

#[tokio::test]
async fn faults_can_be_set_listed_and_cleared_over_http() {
    let mut hub = Hub::start().await;
    hub.token = "no token is needed";
    let faults = json!([
        { "endpoint": ENDPOINT, "next": 3, "action": { "respond": { "status": 503, "headers": { "Retry-After": "2" } } } },
        { "path": "/lists/", "share": 0.5, "action": "lose_answer" },
        { "action": { "delay_ms": 1 }, "method": "GET" },
    ]);
    let added = hub.post("/__simulator/faults", faults).await;
    assert_eq!((added.status, added.json["ids"].as_array().unwrap().len()), (201, 3));
    assert_eq!(hub.get("/__simulator/faults").await.json["1"]["next"], 3);
    hub.token = "simulator-token";
    let struck = hub.post(UPSERT, inputs("ann@example.test")).await;
    assert_eq!((struck.status, struck.header("retry-after"), struck.text.as_str()), (503, Some("2"), ""));
    assert_eq!(hub.delete("/__simulator/faults").await.status, 204);
    assert_eq!(hub.post(UPSERT, inputs("ann@example.test")).await.status, 200);
    assert_eq!(hub.post("/__simulator/faults", json!({ "action": "explode" })).await.status, 400);
}

#[tokio::test]
async fn latency_changes_no_answer() {
    let latency = Some(Latency { min_ms: 1, max_ms: 3 });
    let hub = Hub::configured(SimulatorConfig { latency, ..SimulatorConfig::default() }).await;
    assert_eq!(hub.post(UPSERT, inputs("ann@example.test")).await.status, 200);
}
