//! Account information, admin routes, the page, and the end of a simulator.

use hubspot_simulator::SubscriptionState;
use serde_json::json;

use crate::hub::Hub;

#[tokio::test]
async fn usage_names_the_api_quota_second() {
    let hub = Hub::start().await;
    let seen = hub.get("/account-info/2026-03/api-usage/daily/private-apps").await;
    let items = seen.results();
    assert_ne!(items[0]["name"], "private-apps-api-calls-daily");
    assert!(items[0]["resetsAt"].is_null());
    assert_eq!(
        (items[1]["name"].as_str(), items[1]["currentUsage"].as_u64()),
        (Some("private-apps-api-calls-daily"), Some(1))
    );
    assert_eq!(hub.get("/account-info/v3/details").await.json["portalId"], 4711);
}

#[tokio::test]
async fn people_act_through_admin_routes_without_token_or_count() {
    let mut hub = Hub::start().await;
    hub.token = "none";
    let seeded = hub
        .post(
            "/__simulator/contacts",
            json!({ "contacts": [
        { "properties": { "email": "ann@example.test" } }, { "properties": { "email": "bob@example.test" } },
    ] }),
        )
        .await;
    let (ann, bob) = (&seeded.json["ids"][0], &seeded.json["ids"][1]);
    let opt_out = json!({ "email": "ann@example.test", "subscriptionId": 1001, "at": "2026-01-02T03:04:05Z" });
    assert_eq!(hub.post("/__simulator/opt-out", opt_out).await.status, 200);
    assert_eq!(hub.simulator.status_of("ann@example.test", 1001), SubscriptionState::Unsubscribed);
    let changed_at = hub.simulator.account(4711).status_changed_at("ann@example.test", 1001).unwrap();
    assert_eq!(changed_at.to_string(), "2026-01-02T03:04:05Z");
    let opt_in = json!({ "email": "ann@example.test", "subscriptionId": 1001 });
    hub.post("/__simulator/opt-in", opt_in).await;
    assert_eq!(hub.simulator.status_of("ann@example.test", 1001), SubscriptionState::Subscribed);
    hub.post("/__simulator/opt-out", json!({ "email": "bob@example.test" })).await;
    assert_eq!(hub.simulator.status_of("bob@example.test", 1003), SubscriptionState::Unsubscribed);
    let merged = hub.post("/__simulator/merge", json!({ "primaryObjectId": ann, "objectIdToMerge": bob })).await;
    let found = hub.get("/__simulator/contacts?email=bob@example.test").await;
    assert_eq!(found.results()[0]["id"], merged.json["newObjectId"]);
    assert_eq!(hub.post("/__simulator/delete", json!({ "id": merged.json["newObjectId"] })).await.status, 200);
    assert!(hub.simulator.contacts().is_empty());
    assert_eq!(hub.simulator.stats().total, 0);
}

#[tokio::test]
async fn statistics_can_be_read_and_reset_over_http() {
    let hub = Hub::start().await;
    hub.contact("ann@example.test").await;
    let stats = hub.get("/__simulator/stats").await.json;
    assert_eq!((stats["total"].as_u64(), stats["highest_window"].as_u64()), (Some(1), Some(1)));
    assert_eq!(stats["endpoints"]["contacts.batch_upsert"]["200"], 1);
    assert_eq!(stats["timeline"], json!([{ "second": 0, "calls": 1 }]));
    assert_eq!(hub.post("/__simulator/stats/reset", json!({})).await.status, 204);
    assert_eq!(hub.simulator.stats().total, 0);
}

#[tokio::test]
async fn page_needs_nothing_from_elsewhere_and_polls_a_json_route() {
    let hub = Hub::start().await;
    hub.contact("ann@example.test").await;
    let page = hub.get("/").await;
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    assert!(!page.text.contains("https://") && !page.text.contains("src=\"http"));
    let live = hub.get("/__simulator/live?query=ANN").await.json;
    assert_eq!(live["contacts"]["total"], 1);
    assert_eq!(live["lists"].as_array().unwrap().len(), 3);
    assert_eq!(live["window"]["in_window"], 1);
    assert_eq!(hub.get("/__simulator/live?query=nobody").await.json["contacts"]["total"], 0);
}

#[tokio::test]
async fn dropped_simulator_closes_its_port_and_connections() {
    let hub = Hub::start().await;
    hub.contact("ann@example.test").await;
    let url = hub.simulator.base_url();
    let Hub { simulator, client, .. } = hub;
    drop(simulator);
    assert!(client.get(url).send().await.is_err());
}
