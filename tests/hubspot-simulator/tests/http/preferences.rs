//! Subscription statuses.

use hubspot_simulator::{AccountConfig, SubscriptionState};
use serde_json::{Value, json};

use crate::hub::{Hub, Seen};

const STATUSES: &str = "/communication-preferences/2026-03/statuses";
const WRITE: &str = "/communication-preferences/2026-03/statuses/batch/write";
const READ: &str = "/communication-preferences/2026-03/statuses/batch/read?channel=EMAIL";

fn status(id: u64, state: &str) -> Value {
    json!({
        "subscriptionId": id, "statusState": state, "channel": "EMAIL",
        "legalBasis": "CONSENT_WITH_NOTICE", "legalBasisExplanation": "asked on the form",
    })
}

fn row(email: &str, id: u64, state: &str) -> Value {
    let mut row = status(id, state);
    row["subscriberIdString"] = email.into();
    row
}

async fn write(hub: &Hub, email: &str, id: u64, state: &str) -> Seen {
    hub.post(&format!("{STATUSES}/{email}"), status(id, state)).await
}

fn reason(seen: &Seen) -> &str {
    seen.results()[0]["setStatusSuccessReason"].as_str().unwrap()
}

#[tokio::test]
async fn write_says_what_happened() {
    let hub = Hub::start().await;
    let first = write(&hub, "Ann%40example.test", 1001, "SUBSCRIBED").await;
    assert_eq!((first.status, reason(&first)), (200, "REQUESTED_CHANGE_OCCURRED"));
    let shown = &first.results()[0];
    assert_eq!(shown["subscriberIdString"], "ann@example.test");
    assert_eq!((shown["status"].as_str(), shown["subscriptionId"].as_u64()), (Some("SUBSCRIBED"), Some(1001)));
    assert_eq!(shown["legalBasis"], "CONSENT_WITH_NOTICE");
    assert_eq!(reason(&write(&hub, "ann@example.test", 1001, "SUBSCRIBED").await), "NO_STATUS_CHANGE");
    assert_eq!(reason(&write(&hub, "ann@example.test", 1001, "UNSUBSCRIBED").await), "REQUESTED_CHANGE_OCCURRED");
    assert_eq!(reason(&write(&hub, "ann@example.test", 1001, "SUBSCRIBED").await), "RESUBSCRIBE_OCCURRED");
    assert_eq!(hub.simulator.status_of("ann@example.test", 1001), SubscriptionState::Subscribed);
}

#[tokio::test]
async fn repeated_status_keeps_its_timestamp() {
    let hub = Hub::start().await;
    let first = write(&hub, "ann@example.test", 1001, "UNSUBSCRIBED").await;
    hub.simulator.advance(std::time::Duration::from_mins(1));
    let second = write(&hub, "ann@example.test", 1001, "UNSUBSCRIBED").await;
    assert_eq!(first.results()[0]["timestamp"], second.results()[0]["timestamp"]);
}

#[tokio::test]
async fn single_read_shows_every_definition_and_wants_a_channel() {
    let hub = Hub::start().await;
    write(&hub, "ann@example.test", 1002, "UNSUBSCRIBED").await;
    let seen = hub.get(&format!("{STATUSES}/ann%40example.test?channel=EMAIL")).await;
    let states: Vec<_> = seen.results().iter().map(|found| found["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["NOT_SPECIFIED", "UNSUBSCRIBED", "NOT_SPECIFIED"]);
    assert_eq!(hub.get(&format!("{STATUSES}/ann%40example.test")).await.status, 400);
    let v4 = hub.get("/communication-preferences/v4/statuses/ann%40example.test?channel=EMAIL").await;
    assert_eq!(v4.status, 200);
}

#[tokio::test]
async fn unknown_subscription_type_is_refused() {
    let hub = Hub::start().await;
    let seen = write(&hub, "ann@example.test", 7, "SUBSCRIBED").await;
    assert_eq!((seen.status, seen.json["category"].as_str()), (400, Some("VALIDATION_ERROR")));
}

#[tokio::test]
async fn batch_write_answers_207_with_an_error_for_each_bad_row() {
    let hub = Hub::start().await;
    let rows = json!({ "inputs": [
        row("ann@example.test", 1001, "SUBSCRIBED"),
        row("ann@example.test", 1003, "UNSUBSCRIBED"),
        row("bob@example.test", 7, "SUBSCRIBED"),
        row("nobody", 1001, "SUBSCRIBED"),
    ] });
    let seen = hub.post(WRITE, rows).await;
    assert_eq!((seen.status, seen.results().len(), seen.json["numErrors"].as_u64()), (207, 2, Some(2)));
    let errors = seen.json["errors"].as_array().unwrap();
    assert_eq!(errors[0]["context"]["subscriberIdString"], json!(["bob@example.test"]));
    assert_eq!(errors[0]["context"]["subscriptionId"], json!(["7"]));
    assert_eq!(hub.simulator.status_of("ann@example.test", 1003), SubscriptionState::Unsubscribed);
}

#[tokio::test]
async fn batch_read_groups_statuses_by_address() {
    let hub = Hub::start().await;
    write(&hub, "ann@example.test", 1001, "SUBSCRIBED").await;
    let seen = hub.post(READ, json!({ "inputs": ["Ann@example.test", "bob@example.test", "nobody"] })).await;
    assert_eq!((seen.status, seen.results().len()), (207, 2));
    let ann = seen.results().iter().find(|found| found["subscriberIdString"] == "ann@example.test").unwrap();
    assert_eq!(ann["statuses"][0]["status"], "SUBSCRIBED");
    assert_eq!(ann["statuses"].as_array().unwrap().len(), 3);
    let addresses: Vec<String> = (0..101).map(|n| format!("c{n}@example.test")).collect();
    assert_eq!(hub.post(READ, json!({ "inputs": addresses })).await.status, 400);
}

#[tokio::test]
async fn account_without_batch_consent_answers_403_to_batches_only() {
    let hub = Hub::with(AccountConfig { batch_consent: false, ..AccountConfig::default() }).await;
    let seen = hub.post(READ, json!({ "inputs": ["ann@example.test"] })).await;
    assert_eq!((seen.status, seen.json["category"].as_str()), (403, Some("MISSING_SCOPES")));
    let scopes = &seen.json["errors"][0]["context"]["requiredGranularScopes"];
    assert_eq!(scopes[0], "communication_preferences.statuses.batch.read");
    let rows = json!({ "inputs": [row("ann@example.test", 1001, "SUBSCRIBED")] });
    assert_eq!(hub.post(WRITE, rows).await.status, 403);
    assert_eq!(write(&hub, "ann@example.test", 1001, "SUBSCRIBED").await.status, 200);
}

#[tokio::test]
async fn account_that_refuses_to_resubscribe_says_so_by_row() {
    let hub = Hub::with(AccountConfig { refuse_resubscribe: true, ..AccountConfig::default() }).await;
    hub.simulator.opt_out("out@example.test", Some(1001), None).unwrap();
    let single = write(&hub, "out@example.test", 1001, "SUBSCRIBED").await;
    assert_eq!(single.status, 400);
    assert_eq!(
        single.message(),
        "Subscription 1001 for out@example.test cannot be updated because they have unsubscribed"
    );
    let rows = json!({ "inputs": [
        row("out@example.test", 1001, "SUBSCRIBED"), row("ann@example.test", 1001, "SUBSCRIBED"),
    ] });
    let batch = hub.post(WRITE, rows).await;
    assert_eq!((batch.status, batch.results().len()), (207, 1));
}

#[tokio::test]
async fn opting_out_of_everything_is_wide_until_a_subscription_returns() {
    let hub = Hub::start().await;
    let all = format!("{STATUSES}/ann%40example.test/unsubscribe-all?channel=EMAIL");
    assert_eq!(hub.get(&all).await.results().len(), 0);
    assert_eq!(hub.post(&all, json!({})).await.results().len(), 0, "empty without verbose");
    let wide = hub.get(&all).await;
    assert_eq!(wide.results()[0]["wideStatusType"], "PORTAL_WIDE");
    for id in 1001..=1003 {
        assert_eq!(hub.simulator.status_of("ann@example.test", id), SubscriptionState::Unsubscribed);
    }
    assert_eq!(reason(&write(&hub, "ann@example.test", 1001, "SUBSCRIBED").await), "RESUBSCRIBE_OCCURRED");
    assert_eq!(hub.get(&all).await.results().len(), 0);
}

#[tokio::test]
async fn batches_opt_out_of_everything_and_read_it_back() {
    let hub = Hub::start().await;
    let path = format!("{STATUSES}/batch/unsubscribe-all?channel=EMAIL&verbose=true");
    let seen = hub.post(&path, json!({ "inputs": ["ann@example.test"] })).await;
    assert_eq!(seen.results()[0]["statuses"].as_array().unwrap().len(), 3);
    let path = format!("{STATUSES}/batch/unsubscribe-all/read?channel=EMAIL");
    let seen = hub.post(&path, json!({ "inputs": ["ann@example.test"] })).await;
    assert_eq!(seen.results()[0]["wideStatuses"][0]["status"], "UNSUBSCRIBED");
}

#[tokio::test]
async fn definitions_have_text_ids() {
    let hub = Hub::start().await;
    let seen = hub.get("/communication-preferences/v4/definitions").await;
    assert_eq!((seen.results().len(), seen.results()[0]["id"].as_str()), (3, Some("1001")));
    assert_eq!(seen.results()[0]["name"], "Newsletter");
}
