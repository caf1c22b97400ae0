//! Rolling windows, headers and accounts.

use std::time::Duration;

use hubspot_simulator::{AccountConfig, BurstLimit, SimulatorConfig};
use serde_json::json;

use crate::hub::Hub;

const LIST: &str = "/crm/objects/2026-03/contacts";

fn narrow(calls: u32) -> AccountConfig {
    AccountConfig { burst: Some(BurstLimit { calls, window_ms: 10_000 }), ..AccountConfig::default() }
}

#[tokio::test]
async fn call_above_the_window_is_refused_until_the_oldest_call_is_one_window_old() {
    let hub = Hub::with(narrow(3)).await;
    assert_eq!(hub.get(LIST).await.status, 200);
    hub.simulator.advance(Duration::from_secs(6));
    assert_eq!(hub.get(LIST).await.status, 200);
    assert_eq!(hub.get(LIST).await.status, 200);
    let refused = hub.get(LIST).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json["policyName"], "TEN_SECONDLY_ROLLING");
    assert_eq!(refused.json["category"], "RATE_LIMITS");
    assert_eq!(refused.message(), "You have reached your ten_secondly_rolling limit.");
    hub.simulator.advance(Duration::from_secs(4));
    assert_eq!(hub.get(LIST).await.status, 200, "the first call has left, two remain");
    assert_eq!(hub.get(LIST).await.status, 429, "a fixed window would have let this pass");
}

#[tokio::test]
async fn refused_call_does_not_count_into_the_window() {
    let hub = Hub::with(narrow(1)).await;
    hub.get(LIST).await;
    hub.simulator.advance(Duration::from_secs(9));
    assert_eq!(hub.get(LIST).await.status, 429);
    hub.simulator.advance(Duration::from_secs(1));
    assert_eq!(hub.get(LIST).await.status, 200);
    let stats = hub.simulator.stats();
    assert_eq!((stats.total, stats.answered_429, stats.highest_window), (3, 1, 1));
    assert_eq!(stats.calls_with("contacts.list", 200), 2);
    assert_eq!(stats.accounts.values().next().unwrap().counted, 2);
}

#[tokio::test]
async fn every_answer_has_the_headers_of_the_limit() {
    let hub = Hub::start().await;
    let seen = hub.get(LIST).await;
    assert_eq!(seen.header("x-hubspot-ratelimit-max"), Some("190"));
    assert_eq!(seen.header("x-hubspot-ratelimit-remaining"), Some("189"));
    assert_eq!(seen.header("x-hubspot-ratelimit-interval-milliseconds"), Some("10000"));
    assert_eq!(seen.header("x-hubspot-ratelimit-daily"), Some("625000"));
    assert_eq!(seen.header("x-hubspot-ratelimit-daily-remaining"), Some("624999"));
    assert!(seen.header("x-hubspot-correlation-id").is_some());
}

#[tokio::test]
async fn error_body_and_header_name_the_same_correlation_id() {
    let hub = Hub::start().await;
    let seen = hub.get("/crm/objects/2026-03/contacts/1").await;
    assert_eq!(seen.status, 404);
    assert_eq!(seen.json["correlationId"].as_str(), seen.header("x-hubspot-correlation-id"));
}

#[tokio::test]
async fn search_has_a_limit_of_its_own_and_no_burst_headers() {
    let hub = Hub::with(narrow(1)).await;
    let search = "/crm/objects/2026-03/contacts/search";
    for _ in 0..5 {
        let seen = hub.post(search, json!({})).await;
        assert_eq!(seen.status, 200);
        assert_eq!(seen.header("x-hubspot-ratelimit-max"), None);
        assert!(seen.header("x-hubspot-ratelimit-daily").is_some());
    }
    let refused = hub.post(search, json!({})).await;
    assert_eq!((refused.status, refused.json["policyName"].as_str()), (429, Some("SECONDLY")));
    assert_eq!(hub.get(LIST).await.status, 200, "searches are not in the burst window");
    hub.simulator.advance(Duration::from_secs(1));
    assert_eq!(hub.post(search, json!({})).await.status, 200);
}

#[tokio::test]
async fn daily_limit_refuses_with_its_own_policy_until_midnight() {
    let hub = Hub::with(AccountConfig { daily: Some(1), ..AccountConfig::default() }).await;
    assert_eq!(hub.get(LIST).await.status, 200);
    let refused = hub.get(LIST).await;
    assert_eq!((refused.status, refused.json["policyName"].as_str()), (429, Some("DAILY")));
    hub.simulator.advance(Duration::from_hours(24));
    assert_eq!(hub.get(LIST).await.status, 200);
}

#[tokio::test]
async fn unknown_token_is_refused_and_counts_nowhere() {
    let mut hub = Hub::start().await;
    hub.token = "another";
    let seen = hub.get(LIST).await;
    assert_eq!((seen.status, seen.json["category"].as_str()), (401, Some("INVALID_AUTHENTICATION")));
    assert_eq!(hub.simulator.stats().accounts.values().next().unwrap().counted, 0);
}

#[tokio::test]
async fn accounts_share_neither_records_nor_windows() {
    let second =
        AccountConfig { burst: Some(BurstLimit { calls: 1, window_ms: 10_000 }), ..AccountConfig::new(9, "nine") };
    let accounts = vec![AccountConfig::default(), second];
    let mut hub = Hub::configured(SimulatorConfig { accounts, ..SimulatorConfig::default() }).await;
    hub.contact("ann@example.test").await;
    hub.token = "nine";
    assert_eq!(hub.get(LIST).await.results().len(), 0);
    assert_eq!(hub.get(LIST).await.status, 429);
    hub.token = "simulator-token";
    assert_eq!(hub.get(LIST).await.results().len(), 1);
    assert_eq!(hub.simulator.account(9).contacts().len(), 0);
}

#[tokio::test]
async fn window_holds_under_concurrent_callers() {
    let hub = Hub::with(narrow(20)).await;
    let calls = (0..60).map(|_| hub.get(LIST));
    let seen = futures::future::join_all(calls).await;
    assert_eq!(seen.iter().filter(|seen| seen.status == 200).count(), 20);
    let stats = hub.simulator.stats();
    assert_eq!((stats.highest_window, stats.answered_429, stats.total), (20, 40, 60));
    let timeline: u64 = stats.timeline.iter().map(|bucket| bucket.calls).sum();
    assert_eq!(timeline, 20);
}

#[tokio::test]
async fn unknown_path_is_a_counted_404() {
    let hub = Hub::start().await;
    let seen = hub.get("/contacts/v1/lists/all").await;
    assert_eq!(seen.status, 404);
    assert_eq!(hub.simulator.stats().calls_with("unknown", 404), 1);
    assert_eq!(hub.simulator.stats().highest_window, 1);
}
