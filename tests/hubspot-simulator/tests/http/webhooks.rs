//! What the simulator reports of its own changes, and how.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, http::StatusCode, routing::post};
use hubspot_simulator::{WebhookConfig, WebhookStats};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::hub::Hub;

const SECRET: &str = "a-secret-for-tests";

/// A retry that HubSpot would make after a minute is made after six milliseconds.
const FAST: f64 = 0.000_1;

/// What came in, and how the next ones are answered.
#[derive(Clone, Default)]
struct Inbox {
    deliveries: Arc<Mutex<Vec<Vec<Value>>>>,
    signatures: Arc<Mutex<BTreeSet<String>>>,
    failures: Arc<Mutex<usize>>,
}

impl Inbox {
    /// Listens, and gives its address.
    async fn listen(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/webhooks/hubspot", listener.local_addr().unwrap());
        let router = Router::new().route("/webhooks/hubspot", post(take)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    fn notifications(&self) -> Vec<Value> {
        self.deliveries.lock().unwrap().iter().flatten().cloned().collect()
    }

    fn kinds(&self) -> Vec<String> {
        let mut kinds: Vec<String> =
            self.notifications().iter().map(|one| one["subscriptionType"].as_str().unwrap().to_owned()).collect();
        kinds.sort();
        kinds
    }

    /// The newest value by contact and property.
    fn projection(&self) -> BTreeMap<(u64, String), String> {
        let mut newest = BTreeMap::new();
        for one in self.notifications() {
            if let Some(name) = one["propertyName"].as_str() {
                let key = (one["objectId"].as_u64().unwrap(), name.to_owned());
                let order = (one["occurredAt"].as_i64().unwrap(), one["eventId"].as_u64().unwrap());
                let value = one["propertyValue"].as_str().unwrap().to_owned();
                let held = newest.entry(key).or_insert_with(|| (order, value.clone()));
                if held.0 <= order {
                    *held = (order, value);
                }
            }
        }
        newest.into_iter().map(|(key, (_, value))| (key, value)).collect()
    }
}

async fn take(State(inbox): State<Inbox>, headers: HeaderMap, body: Bytes) -> StatusCode {
    assert!(headers["x-hubspot-request-timestamp"].to_str().unwrap().len() == 13);
    let signature = headers["x-hubspot-signature-v3"].to_str().unwrap().to_owned();
    inbox.signatures.lock().unwrap().insert(signature);
    let mut failures = inbox.failures.lock().unwrap();
    if *failures > 0 {
        *failures -= 1;
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    drop(failures);
    inbox.deliveries.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
    StatusCode::OK
}

/// Returns once nothing waits and nothing is under way.
async fn settled(hub: &Hub) -> WebhookStats {
    let settled = async {
        loop {
            let stats = hub.simulator.webhook_stats();
            if (stats.pending, stats.waiting, stats.in_flight) == (0, 0, 0) {
                return stats;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), settled).await.unwrap()
}

fn contacts(count: usize, first_name: &str) -> Value {
    let inputs: Vec<Value> = (0..count)
        .map(|place| {
            let email = format!("person-{place}@example.test");
            json!({"id": email, "idProperty": "email", "properties": {"email": email, "firstname": first_name}})
        })
        .collect();
    json!({"inputs": inputs})
}

#[tokio::test]
async fn nothing_is_reported_unless_it_is_switched_on_and_then_only_what_changes() {
    let hub = Hub::start().await;
    let inbox = Inbox::default();
    let ada = hub.simulator.seed_contact(&[("email", "ada@example.test"), ("firstname", "Ada")]).unwrap();
    let body = json!({"target": inbox.listen().await, "secret": SECRET});
    assert_eq!(hub.post("/__simulator/webhooks", body).await.status, 204);
    let path = format!("/crm/v3/objects/contacts/{ada}");
    hub.patch(&path, json!({"properties": {"firstname": "Ada", "city": "London"}})).await;
    settled(&hub).await;
    let found = inbox.notifications();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["subscriptionType"], &found[0]["objectId"]), (&json!("contact.propertyChange"), &json!(ada)));
    assert_eq!((&found[0]["propertyName"], &found[0]["propertyValue"]), (&json!("city"), &json!("London")));
    assert_eq!((&found[0]["portalId"], &found[0]["attemptNumber"]), (&json!(4711), &json!(0)));
    hub.delete("/__simulator/webhooks").await;
    hub.patch(&path, json!({"properties": {"city": "Paris"}})).await;
    assert_eq!(hub.get("/__simulator/webhooks").await.json["pending"], 0);
    assert_eq!(inbox.notifications().len(), 1);
}

#[tokio::test]
async fn creations_changes_deletions_merges_and_erasures_are_reported() {
    let hub = Hub::start().await;
    let inbox = Inbox::default();
    hub.simulator.send_webhooks(Some(WebhookConfig::new(inbox.listen().await, SECRET)));
    let seed = |email: &str| hub.simulator.seed_contact(&[("email", email)]).unwrap();
    let (ada, grace, joan, mary) =
        (seed("ada@example.test"), seed("grace@example.test"), seed("joan@example.test"), seed("mary@example.test"));
    hub.simulator.delete(joan).unwrap();
    let survivor = hub.simulator.merge(ada, grace).unwrap();
    hub.post("/crm/v3/objects/contacts/gdpr-delete", json!({"objectId": mary.to_string()})).await;
    settled(&hub).await;
    let expected = [
        vec!["contact.creation"; 4],
        vec!["contact.deletion"; 3],
        vec!["contact.merge"],
        vec!["contact.privacyDeletion"],
        vec!["contact.propertyChange"; 4],
    ];
    assert_eq!(inbox.kinds(), expected.concat());
    let all = inbox.notifications();
    let merge = all.iter().find(|one| one["subscriptionType"] == "contact.merge").unwrap();
    let ids = ["objectId", "primaryObjectId", "mergedObjectIds", "newObjectId"].map(|name| &merge[name]);
    assert_eq!(ids, [&json!(ada), &json!(ada), &json!([grace]), &json!(survivor)]);
}

#[tokio::test]
async fn batches_shuffled_repeated_and_lost_still_tell_the_newest_of_everything() {
    let hub = Hub::start().await;
    let inbox = Inbox::default();
    let config = WebhookConfig {
        repeat_share: 0.2,
        lost_share: 0.3,
        retry_scale: FAST,
        ..WebhookConfig::new(inbox.listen().await, SECRET)
    };
    hub.simulator.send_webhooks(Some(config));
    for name in ["Ada", "Grace", "Joan"] {
        for _ in 0..3 {
            assert_eq!(hub.post("/crm/v3/objects/contacts/batch/upsert", contacts(100, name)).await.status, 200);
        }
    }
    let stats = settled(&hub).await;
    let deliveries = inbox.deliveries.lock().unwrap().clone();
    assert!(deliveries.iter().all(|delivery| (1..=100).contains(&delivery.len())));
    assert!(stats.highest_in_flight <= 10 && stats.failed > 0 && stats.given_up == 0, "{stats:?}");
    let attempts: BTreeSet<i64> =
        inbox.notifications().iter().map(|one| one["attemptNumber"].as_i64().unwrap()).collect();
    assert!(attempts.len() > 1, "what was lost comes again: {attempts:?}");
    let events = inbox.notifications();
    let mut ids: Vec<u64> = events.iter().map(|one| one["eventId"].as_u64().unwrap()).collect();
    assert!(!ids.is_sorted(), "in any order");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 100 * (1 + 2) + 100 * 2, "creations, first values, and two changes");
    assert!(events.len() > ids.len());
    for contact in hub.simulator.contacts() {
        for (name, value) in &contact.properties {
            assert_eq!(inbox.projection().get(&(contact.id.0, name.clone())), Some(value), "{name}");
        }
    }
}

#[tokio::test]
async fn what_fails_is_sent_again_with_a_signature_of_its_own_and_given_up_after_ten_more_tries() {
    let hub = Hub::start().await;
    let inbox = Inbox::default();
    let config = WebhookConfig { retry_scale: FAST, ..WebhookConfig::new(inbox.listen().await, SECRET) };
    hub.simulator.send_webhooks(Some(config));
    *inbox.failures.lock().unwrap() = 2;
    hub.simulator.seed_contact(&[("email", "ada@example.test")]).unwrap();
    let stats = settled(&hub).await;
    assert_eq!((stats.requests, stats.failed, stats.given_up), (3, 2, 0));
    assert_eq!(stats.statuses, [(200, 1), (503, 2)].into());
    assert_eq!(inbox.signatures.lock().unwrap().len(), 3);
    assert!(inbox.notifications().iter().all(|one| one["attemptNumber"] == 2));

    *inbox.failures.lock().unwrap() = usize::MAX;
    hub.simulator.seed_contact(&[("email", "grace@example.test")]).unwrap();
    let stats = settled(&hub).await;
    assert_eq!((stats.requests, stats.failed, stats.given_up), (14, 13, 1));
}

#[tokio::test]
async fn the_tries_are_spread_over_a_day_of_the_simulators_clock() {
    let hub = Hub::start().await;
    let inbox = Inbox::default();
    hub.simulator.send_webhooks(Some(WebhookConfig::new(inbox.listen().await, SECRET)));
    *inbox.failures.lock().unwrap() = 1;
    hub.simulator.seed_contact(&[("email", "ada@example.test")]).unwrap();
    while hub.simulator.webhook_stats().waiting == 0 {
        tokio::task::yield_now().await;
    }
    assert!(inbox.notifications().is_empty());
    hub.simulator.advance(Duration::from_mins(1));
    settled(&hub).await;
    assert_eq!(inbox.notifications().len(), 2);
}
