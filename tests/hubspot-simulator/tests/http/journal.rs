//! State that survives a restart.

use std::{fs::OpenOptions, io::Write, path::Path};

use hubspot_simulator::{SimulatorConfig, SubscriptionState};
use serde_json::json;

use crate::hub::{Hub, by_email};

async fn hub_on(path: &Path) -> Hub {
    let state_file = Some(path.to_owned());
    Hub::configured(SimulatorConfig { state_file, ..SimulatorConfig::default() }).await
}

#[tokio::test]
async fn state_file_brings_everything_back_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.jsonl");
    let hub = hub_on(&path).await;
    hub.create_unique_property("contact_key").await;
    let key = json!([{ "id": "k-1", "idProperty": "contact_key", "properties": { "email": "ann@example.test" } }]);
    hub.upsert(key.clone()).await;
    let bob = hub.contact("bob@example.test").await;
    let cas = hub.contact("cas@example.test").await;
    hub.put("/crm/lists/2026-03/101/memberships/add", json!([bob, cas])).await;
    hub.simulator.merge(bob.parse().unwrap(), cas.parse().unwrap()).unwrap();
    hub.simulator.opt_out("ann@example.test", Some(1002), None).unwrap();
    let list = json!({ "name": "Brand new", "objectTypeId": "0-1", "processingType": "MANUAL" });
    hub.post("/crm/lists/2026-03", list).await;
    let before = hub.get("/__simulator/state").await.json;
    hub.simulator.stop().await;

    let hub = hub_on(&path).await;
    assert_eq!(hub.get("/__simulator/state").await.json, before);
    assert_eq!(hub.simulator.status_of("ann@example.test", 1002), SubscriptionState::Unsubscribed);
    assert_eq!(hub.upsert(key).await.results()[0]["new"], false);
    let alias = hub.get(&format!("/crm/v3/objects/contacts/{cas}")).await;
    assert_eq!(alias.status, 200);
    let fresh: u64 = hub.contact("dan@example.test").await.parse().unwrap();
    assert!(fresh > alias.json["id"].as_str().unwrap().parse().unwrap(), "ids are never used twice");
}

#[tokio::test]
async fn torn_last_line_is_dropped_and_writing_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.jsonl");
    let hub = hub_on(&path).await;
    hub.contact("ann@example.test").await;
    hub.simulator.stop().await;
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(br#"{"portal":4711,"change":"record","obj"#).unwrap();

    let hub = hub_on(&path).await;
    assert_eq!(hub.simulator.contacts().len(), 1);
    hub.contact("bob@example.test").await;
    hub.simulator.stop().await;
    assert_eq!(hub_on(&path).await.simulator.contacts().len(), 2);
}

#[tokio::test]
async fn refused_batch_leaves_nothing_in_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.jsonl");
    let hub = hub_on(&path).await;
    let rows = json!([by_email("ann@example.test", json!({})), by_email("nobody", json!({}))]);
    assert_eq!(hub.upsert(rows).await.status, 400);
    hub.simulator.stop().await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
}

#[tokio::test]
async fn long_journal_is_written_afresh_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.jsonl");
    let hub = hub_on(&path).await;
    hub.contact("ann@example.test").await;
    hub.simulator.stop().await;
    let line = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, line.repeat(20_001)).unwrap();

    let hub = hub_on(&path).await;
    assert_eq!(hub.simulator.contacts().len(), 1);
    hub.simulator.stop().await;
    let lines = std::fs::read_to_string(&path).unwrap().lines().count();
    assert!(lines < 100, "{lines} lines are left");
    assert_eq!(hub_on(&path).await.simulator.contacts().len(), 1);
}
