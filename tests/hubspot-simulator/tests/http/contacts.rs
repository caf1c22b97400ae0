//! Single contacts, batch reads, archiving and erasing.

use reqwest::Method;
use serde_json::json;

use crate::hub::{Hub, READ, by_email};

const CONTACTS: &str = "/crm/v3/objects/contacts";

#[tokio::test]
async fn upsert_creates_then_updates_and_returns_folded_addresses() {
    let hub = Hub::start().await;
    let first = hub.upsert(json!([by_email("Ann@Example.test", json!({ "city": "Delft" }))])).await;
    let result = &first.results()[0];
    assert_eq!((first.status, result["new"].as_bool()), (200, Some(true)));
    assert_eq!(result["properties"]["email"], "ann@example.test");
    assert!(result["createdAt"].as_str().unwrap().ends_with('Z'));
    assert_eq!(result["archived"], false);
    let second = hub.upsert(json!([by_email(" ann@example.test", json!({ "city": "" }))])).await;
    assert_eq!(second.results()[0]["new"], false);
    assert_eq!(second.results()[0]["id"], result["id"]);
    let contact = hub.simulator.contact_by_email("ANN@example.test").unwrap();
    assert_eq!(contact.get("city"), None, "an empty string clears");
}

#[tokio::test]
async fn upsert_by_a_custom_unique_property_follows_a_changed_address() {
    let hub = Hub::start().await;
    assert_eq!(hub.create_unique_property("contact_key").await.status, 201);
    let row = |email: &str| json!([{ "id": "k-1", "idProperty": "contact_key", "properties": { "email": email } }]);
    let first = hub.upsert(row("old@example.test")).await;
    let second = hub.upsert(row("new@example.test")).await;
    assert_eq!(first.results()[0]["id"], second.results()[0]["id"]);
    assert!(hub.simulator.contact_by_email("old@example.test").is_none());
    assert_eq!(hub.simulator.contact_by("contact_key", "k-1").unwrap().get("email"), Some("new@example.test"));
}

#[tokio::test]
async fn batch_read_answers_207_with_one_group_of_unknown_ids() {
    let hub = Hub::start().await;
    let id = hub.contact("ann@example.test").await;
    let seen =
        hub.post(READ, json!({ "inputs": [{ "id": id }, { "id": "5" }, { "id": "x" }], "properties": ["city"] })).await;
    assert_eq!((seen.status, seen.json["numErrors"].as_u64()), (207, Some(1)));
    assert_eq!(seen.json["errors"][0]["category"], "OBJECT_NOT_FOUND");
    assert_eq!(seen.json["errors"][0]["context"]["ids"], json!(["5", "x"]));
    assert!(seen.results()[0]["properties"]["city"].is_null());
    let by_address = json!({ "inputs": [{ "id": "ANN@example.test" }], "idProperty": "email" });
    let seen = hub.post(READ, by_address).await;
    assert_eq!((seen.status, seen.results()[0]["id"].as_str()), (200, Some(id.as_str())));
}

#[tokio::test]
async fn batch_read_with_history_takes_fifty_inputs() {
    let hub = Hub::start().await;
    let inputs: Vec<_> = (1..=51).map(|id| json!({ "id": id.to_string() })).collect();
    let seen = hub.post(READ, json!({ "inputs": inputs, "propertiesWithHistory": ["email"] })).await;
    assert_eq!(seen.status, 400);
    assert_eq!(hub.post(READ, json!({ "inputs": inputs })).await.status, 207);
}

#[tokio::test]
async fn create_of_a_taken_address_is_a_409_that_names_the_id_in_its_text() {
    let hub = Hub::start().await;
    let id = hub.contact("ann@example.test").await;
    let seen = hub.post(CONTACTS, json!({ "properties": { "email": "ann@example.test" } })).await;
    assert_eq!((seen.status, seen.json["category"].as_str()), (409, Some("CONFLICT")));
    assert_eq!(seen.message(), format!("Contact already exists. Existing ID: {id}"));
}

#[tokio::test]
async fn additional_address_is_taken_too_and_resolves_to_its_contact() {
    let hub = Hub::start().await;
    let id = hub.contact("ann@example.test").await;
    let patch = json!({ "properties": { "hs_additional_emails": "second@example.test" } });
    assert_eq!(hub.patch(&format!("{CONTACTS}/{id}"), patch).await.status, 200);
    let create = hub.post(CONTACTS, json!({ "properties": { "email": "Second@example.test" } })).await;
    assert_eq!(create.status, 409);
    let upsert = hub.upsert(json!([by_email("second@example.test", json!({ "city": "Delft" }))])).await;
    assert_eq!(
        (upsert.results()[0]["id"].as_str(), upsert.results()[0]["new"].as_bool()),
        (Some(id.as_str()), Some(false))
    );
}

#[tokio::test]
async fn upsert_by_an_additional_address_keeps_the_primary_one_unless_it_is_written() {
    let hub = Hub::start().await;
    let create =
        json!({ "properties": { "email": "ann@example.test", "hs_additional_emails": "second@example.test" } });
    assert_eq!(hub.post(CONTACTS, create).await.status, 201);
    hub.upsert(json!([by_email("second@example.test", json!({ "city": "Delft" }))])).await;
    let contact = hub.simulator.contact_by_email("second@example.test").unwrap();
    assert_eq!(contact.get("email"), Some("ann@example.test"));
    hub.upsert(json!([by_email("second@example.test", json!({ "email": "second@example.test" }))])).await;
    let contact = hub.simulator.contact_by_email("ann@example.test").unwrap();
    assert_eq!(contact.get("email"), Some("second@example.test"));
    assert_eq!(contact.get("hs_additional_emails"), Some("ann@example.test"));
}

#[tokio::test]
async fn patch_never_creates() {
    let hub = Hub::start().await;
    let path = format!("{CONTACTS}/nobody%40example.test?idProperty=email");
    let seen = hub.patch(&path, json!({ "properties": { "city": "Delft" } })).await;
    assert_eq!(seen.status, 404);
    assert!(hub.simulator.contacts().is_empty());
}

#[tokio::test]
async fn address_in_the_path_is_decoded_exactly_once() {
    let hub = Hub::start().await;
    hub.contact("a+b@example.test").await;
    let once = hub.get(&format!("{CONTACTS}/a%2Bb%40example.test?idProperty=email&properties=city")).await;
    assert_eq!(once.status, 200);
    let twice = hub.get(&format!("{CONTACTS}/a%252Bb%2540example.test?idProperty=email")).await;
    assert_eq!(twice.status, 404);
    assert_eq!(twice.json["context"]["id"][0], "a%252Bb%2540example.test?idProperty=email");
}

#[tokio::test]
async fn archived_contact_frees_its_address_and_leaves_its_lists() {
    let hub = Hub::start().await;
    let id = hub.contact("ann@example.test").await;
    hub.put("/crm/lists/2026-03/101/memberships/add", json!([id])).await;
    let archive =
        hub.post(&format!("{CONTACTS}/batch/archive"), json!({ "inputs": [{ "id": id }, { "id": "5" }] })).await;
    assert_eq!((archive.status, archive.text.as_str()), (204, ""));
    assert_eq!(hub.get(&format!("{CONTACTS}/{id}")).await.status, 404);
    assert_eq!(hub.get(&format!("{CONTACTS}/{id}?archived=true")).await.json["archived"], true);
    assert!(hub.simulator.list_members(101).is_empty());
    assert_ne!(hub.contact("ann@example.test").await, id);
    assert_eq!(hub.delete(&format!("{CONTACTS}/{id}")).await.status, 204);
}

#[tokio::test]
async fn erased_address_cannot_come_back() {
    let hub = Hub::start().await;
    hub.contact("ann@example.test").await;
    let body = json!({ "objectId": "ann@example.test", "idProperty": "email" });
    assert_eq!(hub.post(&format!("{CONTACTS}/gdpr-delete"), body).await.status, 204);
    let again = hub.upsert(json!([by_email("ann@example.test", json!({}))])).await;
    assert_eq!((again.status, again.json["category"].as_str()), (400, Some("VALIDATION_ERROR")));
    assert!(hub.simulator.contacts().is_empty());
}

#[tokio::test]
async fn plain_list_pages_through_all_contacts() {
    let hub = Hub::start().await;
    for n in 0..3 {
        hub.contact(&format!("c{n}@example.test")).await;
    }
    let first = hub.get(&format!("{CONTACTS}?limit=2")).await;
    let after = first.json["paging"]["next"]["after"].as_str().unwrap();
    let second = hub.get(&format!("{CONTACTS}?limit=2&after={after}")).await;
    assert_eq!((first.results().len(), second.results().len()), (2, 1));
    assert!(second.json.get("paging").is_none());
}

#[tokio::test]
async fn tasks_are_records_too() {
    let hub = Hub::start().await;
    let body = json!({ "properties": { "hs_task_subject": "Call", "hs_timestamp": "2026-12-01T09:00:00Z" } });
    let seen = hub.post("/crm/objects/2026-03/tasks", body).await;
    assert_eq!((seen.status, seen.json["properties"]["hs_task_subject"].as_str()), (201, Some("Call")));
    let id = seen.json["id"].as_str().unwrap();
    let deleted = hub.send(Method::DELETE, &format!("/crm/v3/objects/tasks/{id}"), None).await.unwrap();
    assert_eq!(deleted.status, 204);
}
