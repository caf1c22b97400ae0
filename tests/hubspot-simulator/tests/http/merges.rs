//! Merges and what they leave behind.

use serde_json::json;

use crate::hub::{Hub, READ, UPSERT, by_email};

const CONTACTS: &str = "/crm/v3/objects/contacts";

async fn merged(hub: &Hub) -> (String, String, String) {
    let primary = hub.contact("ann@example.test").await;
    let other = hub.contact("bob@example.test").await;
    hub.put("/crm/lists/2026-03/101/memberships/add", json!([other])).await;
    let body = json!({ "primaryObjectId": primary, "objectIdToMerge": other });
    let seen = hub.post(&format!("{CONTACTS}/merge"), body).await;
    assert_eq!(seen.status, 200, "{}", seen.text);
    (primary, other, seen.json["id"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn merge_makes_a_new_id_that_takes_over_addresses_and_lists() {
    let hub = Hub::start().await;
    let (primary, other, survivor) = merged(&hub).await;
    assert!(survivor != primary && survivor != other);
    let contact = hub.simulator.contact_by_email("bob@example.test").unwrap();
    assert_eq!(contact.id.to_string(), survivor);
    assert_eq!(contact.get("email"), Some("ann@example.test"));
    assert_eq!(contact.get("hs_additional_emails"), Some("bob@example.test"));
    assert_eq!(contact.get("hs_merged_object_ids"), Some(format!("{primary};{other}").as_str()));
    assert!(hub.simulator.list_members(101).contains(&contact.id));
    assert_eq!(hub.simulator.contacts().len(), 1);
}

#[tokio::test]
async fn batch_update_leaves_out_a_merged_away_id_silently() {
    let hub = Hub::start().await;
    let (primary, _, survivor) = merged(&hub).await;
    let inputs = json!({ "inputs": [
        { "id": primary, "properties": { "city": "Delft" } },
        { "id": survivor, "properties": { "city": "Breda" } },
    ] });
    let seen = hub.post(&UPSERT.replace("upsert", "update"), inputs).await;
    assert_eq!((seen.status, seen.results().len()), (200, 1));
    assert!(seen.json.get("errors").is_none());
    assert_eq!(seen.results()[0]["id"], survivor.as_str());
}

#[tokio::test]
async fn read_by_a_merged_away_id_gives_the_survivor_and_a_patch_does_not() {
    let hub = Hub::start().await;
    let (primary, _, survivor) = merged(&hub).await;
    assert_eq!(hub.get(&format!("{CONTACTS}/{primary}")).await.json["id"], survivor.as_str());
    let read = hub.post(READ, json!({ "inputs": [{ "id": primary }] })).await;
    assert_eq!(read.results()[0]["id"], survivor.as_str());
    let patch = hub.patch(&format!("{CONTACTS}/{primary}"), json!({ "properties": { "city": "Delft" } })).await;
    assert_eq!(patch.status, 404);
}

#[tokio::test]
async fn merged_away_id_is_missing_from_lists() {
    let hub = Hub::start().await;
    let (primary, ..) = merged(&hub).await;
    let seen = hub.put("/crm/lists/2026-03/102/memberships/add", json!([primary])).await;
    assert_eq!(seen.json, json!({ "recordIdsMissing": [primary] }));
}

#[tokio::test]
async fn upsert_by_a_merged_in_address_reaches_the_survivor() {
    let hub = Hub::start().await;
    let (_, _, survivor) = merged(&hub).await;
    let seen = hub.upsert(json!([by_email("bob@example.test", json!({ "city": "Delft" }))])).await;
    assert_eq!(seen.results()[0]["id"], survivor.as_str());
}
