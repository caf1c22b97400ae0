//! Search and its lag.

use std::time::Duration;

use serde_json::{Value, json};

use crate::hub::{Hub, by_email};

const SEARCH: &str = "/crm/objects/2026-03/contacts/search";

fn filter(property: &str, operator: &str, value: Value) -> Value {
    let mut filter = json!({ "propertyName": property, "operator": operator });
    if value.is_array() {
        filter["values"] = value;
    } else if !value.is_null() {
        filter["value"] = value;
    }
    json!({ "filterGroups": [{ "filters": [filter] }] })
}

#[tokio::test]
async fn search_lags_behind_writes_while_batch_read_does_not() {
    let hub = Hub::start().await;
    let id = hub.contact("ann@example.test").await;
    let by_address = filter("email", "EQ", "ann@example.test".into());
    assert_eq!(hub.post(SEARCH, by_address.clone()).await.json["total"], 0);
    let read = hub.post(crate::hub::READ, json!({ "inputs": [{ "id": id }] })).await;
    assert_eq!(read.results().len(), 1);
    hub.simulator.advance(Duration::from_secs(3));
    assert_eq!(hub.post(SEARCH, by_address).await.json["total"], 1);
}

#[tokio::test]
async fn filters_compare_values_and_lists_in_lower_case() {
    let hub = Hub::start().await;
    hub.upsert(json!([
        by_email("ann@example.test", json!({ "city": "Delft", "numemployees": "5" })),
        by_email("bob@example.test", json!({ "city": "Breda", "numemployees": "40" })),
        by_email("cas@example.test", json!({})),
    ]))
    .await;
    hub.simulator.advance(Duration::from_secs(3));
    let cases = [
        (filter("city", "HAS_PROPERTY", Value::Null), 2),
        (filter("city", "NOT_HAS_PROPERTY", Value::Null), 1),
        (filter("city", "IN", json!(["delft", "breda"])), 2),
        (filter("city", "IN", json!(["Delft"])), 0),
        (filter("numemployees", "GT", "6".into()), 1),
    ];
    for (request, expected) in cases {
        let seen = hub.post(SEARCH, request.clone()).await;
        assert_eq!(seen.json["total"], expected, "{request}");
        hub.simulator.advance(Duration::from_secs(1));
    }
}

#[tokio::test]
async fn search_never_pages_beyond_ten_thousand() {
    let hub = Hub::start().await;
    assert_eq!(hub.post(SEARCH, json!({ "limit": 200, "after": "9900" })).await.status, 400);
    assert_eq!(hub.post(SEARCH, json!({ "limit": 201 })).await.status, 400);
}
