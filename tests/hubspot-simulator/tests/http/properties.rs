//! Values and definitions of properties.

use serde_json::{Value, json};

use crate::hub::{Hub, by_email};

const PROPERTIES: &str = "/crm/properties/2026-03/contacts";

/// Writes one value and gives the code of its refusal, or the stored value.
async fn write(hub: &Hub, property: &str, value: &str) -> Result<Option<String>, String> {
    let mut properties = serde_json::Map::new();
    properties.insert(property.to_owned(), value.into());
    let seen = hub.upsert(json!([by_email("ann@example.test", Value::Object(properties))])).await;
    if seen.status == 200 {
        let contact = hub.simulator.contact_by_email("ann@example.test").unwrap();
        return Ok(contact.get(property).map(str::to_owned));
    }
    let embedded = seen.message().strip_prefix("Property values were not valid: ").unwrap();
    let problems: Value = serde_json::from_str(embedded).unwrap();
    Err(problems[0]["error"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn date_takes_a_civil_date_or_midnight_utc_only() {
    let hub = Hub::start().await;
    let invalid = Err("INVALID_DATE".to_owned());
    let stored = Ok(Some("2000-03-26".to_owned()));
    assert_eq!(write(&hub, "birthday", "2000-03-26").await, stored);
    assert_eq!(write(&hub, "birthday", "954028800000").await, stored);
    for value in ["954025200000", "954028800", "2000-03-26T14:00:00Z", "26-03-2000"] {
        assert_eq!(write(&hub, "birthday", value).await, invalid, "{value}");
    }
}

#[tokio::test]
async fn refused_date_says_how_far_it_is_from_midnight() {
    let hub = Hub::start().await;
    let seen = hub.upsert(json!([by_email("d@example.test", json!({ "birthday": "954025200000" }))])).await;
    assert!(seen.message().contains("954025200000 is at 23:0:0.0 UTC, not midnight!"), "{}", seen.message());
}

#[tokio::test]
async fn edges_of_anything_but_a_string_must_be_clean() {
    let hub = Hub::start().await;
    let ragged = Err("LEADING_TRAILING_WHITESPACE".to_owned());
    assert_eq!(write(&hub, "lifecyclestage", "lead\u{a0}").await, ragged);
    assert_eq!(write(&hub, "lifecyclestage", "\u{200b}lead").await, ragged);
    assert_eq!(write(&hub, "numemployees", " 12").await, ragged);
    assert_eq!(write(&hub, "birthday", "2026-01-01\n").await, ragged);
    assert_eq!(write(&hub, "city", " Delft ").await, Ok(Some(" Delft ".to_owned())));
}

#[tokio::test]
async fn wrong_values_have_their_own_codes() {
    let hub = Hub::start().await;
    assert_eq!(write(&hub, "lifecyclestage", "friend").await, Err("INVALID_OPTION".to_owned()));
    assert_eq!(write(&hub, "numemployees", "many").await, Err("INVALID_LONG".to_owned()));
    assert_eq!(write(&hub, "hs_object_id", "1").await, Err("READ_ONLY_VALUE".to_owned()));
    assert_eq!(write(&hub, "nothing_like_it", "1").await, Err("PROPERTY_DOESNT_EXIST".to_owned()));
}

#[tokio::test]
async fn value_of_65536_characters_is_the_longest() {
    let hub = Hub::start().await;
    let longest = "x".repeat(65_536);
    assert_eq!(write(&hub, "address", &longest).await, Ok(Some(longest.clone())));
    assert_eq!(write(&hub, "address", &format!("{longest}x")).await, Err("VALUE_TOO_LONG".to_owned()));
}

#[tokio::test]
async fn lifecycle_stage_goes_forward_only_until_it_is_cleared() {
    let hub = Hub::start().await;
    let stage = |stage: &str| Ok(Some(stage.to_owned()));
    assert_eq!(write(&hub, "lifecyclestage", "customer").await, stage("customer"));
    assert_eq!(write(&hub, "lifecyclestage", "lead").await, stage("customer"), "200, and nothing changed");
    assert_eq!(write(&hub, "lifecyclestage", "").await, Ok(None));
    assert_eq!(write(&hub, "lifecyclestage", "lead").await, stage("lead"));
}

#[tokio::test]
async fn numbers_booleans_and_null_are_taken_for_their_text() {
    let hub = Hub::start().await;
    hub.upsert(json!([by_email("ann@example.test", json!({ "numemployees": 12, "city": "Delft" }))])).await;
    hub.upsert(json!([by_email("ann@example.test", json!({ "city": null }))])).await;
    let contact = hub.simulator.contact_by_email("ann@example.test").unwrap();
    assert_eq!((contact.get("numemployees"), contact.get("city")), (Some("12"), None));
}

#[tokio::test]
async fn created_property_can_be_written_and_creating_it_again_is_a_conflict() {
    let hub = Hub::start().await;
    let first = hub.create_unique_property("contact_key").await;
    assert_eq!((first.status, first.json["hasUniqueValue"].as_bool()), (201, Some(true)));
    let again = hub.create_unique_property("contact_key").await;
    assert_eq!((again.status, again.json["category"].as_str()), (409, Some("OBJECT_ALREADY_EXISTS")));
    assert_eq!(again.json["subCategory"], "Properties.PROPERTY_WITH_NAME_EXISTS");
    assert_eq!(hub.get(&format!("{PROPERTIES}/contact_key")).await.json["type"], "string");
    assert_eq!(hub.get("/crm/v3/properties/contacts/nothing_like_it").await.status, 404);
    let names: Vec<Value> = hub.get(PROPERTIES).await.results().iter().map(|found| found["name"].clone()).collect();
    assert!(names.contains(&"contact_key".into()) && names.contains(&"hs_language".into()));
}

#[tokio::test]
async fn eleventh_property_with_unique_values_is_refused() {
    let hub = Hub::start().await;
    for n in 0..10 {
        assert_eq!(hub.create_unique_property(&format!("key_{n}")).await.status, 201);
    }
    assert_eq!(hub.create_unique_property("key_10").await.status, 400);
}

#[tokio::test]
async fn groups_can_be_created_and_a_property_needs_one() {
    let hub = Hub::start().await;
    let property = json!({ "name": "p", "label": "P", "groupName": "ours", "type": "string", "fieldType": "text" });
    assert_eq!(hub.post(PROPERTIES, property.clone()).await.status, 400);
    let group = json!({ "name": "ours", "label": "Ours" });
    assert_eq!(hub.post(&format!("{PROPERTIES}/groups"), group.clone()).await.status, 201);
    assert_eq!(hub.post(&format!("{PROPERTIES}/groups"), group).await.status, 409);
    assert_eq!(hub.get(&format!("{PROPERTIES}/groups/ours")).await.json["label"], "Ours");
    assert_eq!(hub.get(&format!("{PROPERTIES}/groups")).await.results().len(), 2);
    assert_eq!(hub.post(PROPERTIES, property).await.status, 201);
}
