//! Rows of a batch: trace ids, all or nothing, duplicates, order.

use serde_json::{Value, json};

use crate::hub::{Hub, UPSERT, by_email, traced};

#[tokio::test]
async fn bad_row_with_trace_ids_fails_alone() {
    let hub = Hub::start().await;
    let rows = json!([
        traced("e1", "a@example.test", json!({})),
        traced("e2", "not-an-email", json!({})),
        traced("e3", "c@example.test", json!({ "nothing_like_it": "x" })),
        traced("e4", "d@example.test", json!({})),
    ]);
    let seen = hub.upsert(rows).await;
    assert_eq!((seen.status, seen.json["numErrors"].as_u64()), (207, Some(2)));
    let mut written: Vec<_> = seen.results().iter().map(|row| row["objectWriteTraceId"].as_str().unwrap()).collect();
    written.sort_unstable();
    assert_eq!(written, ["e1", "e4"]);
    let errors = seen.json["errors"].as_array().unwrap();
    assert_eq!(errors[0]["context"]["objectWriteTraceId"], json!(["e2"]));
    assert_eq!(errors[0]["category"], "VALIDATION_ERROR");
    assert!(errors[0]["message"].as_str().unwrap().contains("INVALID_EMAIL"));
    assert!(errors[1]["message"].as_str().unwrap().contains("PROPERTY_DOESNT_EXIST"));
    assert_eq!(hub.simulator.contacts().len(), 2);
}

#[tokio::test]
async fn bad_row_without_trace_ids_undoes_the_whole_batch() {
    let hub = Hub::start().await;
    hub.upsert(json!([by_email("old@example.test", json!({ "city": "Delft" }))])).await;
    let rows = json!([
        by_email("old@example.test", json!({ "city": "Breda" })),
        by_email("new@example.test", json!({})),
        by_email("kim@example.invalid", json!({})),
    ]);
    let seen = hub.upsert(rows).await;
    assert_eq!((seen.status, seen.json["category"].as_str()), (400, Some("VALIDATION_ERROR")));
    let embedded = seen.message().strip_prefix("Property values were not valid: ").unwrap();
    let problems: Value = serde_json::from_str(embedded).unwrap();
    assert_eq!(problems[0]["error"], "INVALID_EMAIL");
    assert_eq!(problems[0]["name"], "email");
    assert_eq!(problems[0]["isValid"], false);
    assert_eq!(hub.simulator.contacts().len(), 1);
    let old = hub.simulator.contact_by_email("old@example.test").unwrap();
    assert_eq!(old.get("city"), Some("Delft"));
}

#[tokio::test]
async fn row_that_takes_another_contacts_address_is_a_conflict_of_its_own() {
    let hub = Hub::start().await;
    hub.create_unique_property("contact_key").await;
    let id = hub.contact("taken@example.test").await;
    let rows = json!([
        { "id": "k-1", "idProperty": "contact_key", "objectWriteTraceId": "t1", "properties": { "email": "taken@example.test" } },
        { "id": "k-2", "idProperty": "contact_key", "objectWriteTraceId": "t2", "properties": { "email": "free@example.test" } },
    ]);
    let seen = hub.upsert(rows).await;
    assert_eq!(seen.status, 207);
    let error = &seen.json["errors"][0];
    assert_eq!(error["category"], "CONFLICT");
    assert_eq!(error["message"], format!("Contact already exists. Existing ID: {id}"));
    assert_eq!(error["context"]["objectWriteTraceId"], json!(["t1"]));
    assert_eq!(seen.results()[0]["objectWriteTraceId"], "t2");
}

#[tokio::test]
async fn results_come_back_shuffled_and_the_same_for_the_same_seed() {
    let rows: Vec<Value> = (0..20).map(|n| by_email(&format!("c{n}@example.test"), json!({}))).collect();
    let mut orders = Vec::new();
    for _ in 0..2 {
        let hub = Hub::start().await;
        let seen = hub.upsert(json!(rows)).await;
        let order: Vec<String> =
            seen.results().iter().map(|row| row["properties"]["email"].as_str().unwrap().to_owned()).collect();
        orders.push(order);
    }
    let sent: Vec<String> = (0..20).map(|n| format!("c{n}@example.test")).collect();
    assert_ne!(orders[0], sent);
    assert_eq!(orders[0], orders[1]);
}

#[tokio::test]
async fn batch_of_101_and_batch_of_none_are_refused() {
    let hub = Hub::start().await;
    let rows: Vec<Value> = (0..101).map(|n| by_email(&format!("c{n}@example.test"), json!({}))).collect();
    assert_eq!(hub.upsert(json!(rows)).await.status, 400);
    assert_eq!(hub.upsert(json!([])).await.status, 400);
    assert_eq!(hub.upsert(json!(rows[..100])).await.status, 200);
    assert_eq!(hub.simulator.contacts().len(), 100);
}

#[tokio::test]
async fn same_address_twice_refuses_the_batch_even_with_trace_ids() {
    let hub = Hub::start().await;
    let rows = json!([
        traced("1", "ann@example.test", json!({})),
        traced("2", " Ann@Example.test", json!({})),
        traced("3", "bob@example.test", json!({})),
    ]);
    let seen = hub.upsert(rows).await;
    assert_eq!((seen.status, seen.json["category"].as_str()), (400, Some("VALIDATION_ERROR")));
    assert_eq!(seen.json["context"]["ids"], json!(["ann@example.test"]));
    assert!(hub.simulator.contacts().is_empty());
}

#[tokio::test]
async fn row_without_an_id_refuses_the_batch_and_a_malformed_one_fails_alone() {
    let hub = Hub::start().await;
    let blank =
        json!({ "idProperty": "email", "objectWriteTraceId": "1", "properties": { "email": "a@example.test" } });
    assert_eq!(hub.upsert(json!([blank])).await.status, 400);
    let malformed = traced("1", "nobody", json!({ "email": "a@example.test" }));
    assert_eq!(hub.upsert(json!([malformed])).await.json["numErrors"], 1);
    assert!(hub.simulator.contacts().is_empty());
}

#[tokio::test]
async fn rows_with_different_id_properties_refuse_the_batch() {
    let hub = Hub::start().await;
    hub.create_unique_property("contact_key").await;
    let mut other = by_email("b@example.test", json!({}));
    other["idProperty"] = "contact_key".into();
    let seen = hub.upsert(json!([by_email("a@example.test", json!({})), other])).await;
    assert_eq!(seen.status, 400);
}

#[tokio::test]
async fn upsert_by_a_property_without_unique_values_is_refused() {
    let hub = Hub::start().await;
    let seen = hub.upsert(json!([{ "id": "Ann", "idProperty": "firstname", "properties": {} }])).await;
    assert_eq!(seen.status, 400);
    assert!(seen.message().contains("non-unique property"));
}

#[tokio::test]
async fn batch_create_answers_201_and_reports_conflicts_by_row() {
    let hub = Hub::start().await;
    hub.contact("ann@example.test").await;
    let path = "/crm/v3/objects/contacts/batch/create";
    let row = |trace: &str, email: &str| json!({ "properties": { "email": email }, "objectWriteTraceId": trace });
    let inputs = json!({ "inputs": [row("1", "ann@example.test"), row("2", "bob@example.test")] });
    let mixed = hub.post(path, inputs).await;
    assert_eq!((mixed.status, mixed.results().len()), (207, 1));
    assert_eq!(mixed.json["errors"][0]["category"], "CONFLICT");
    let untraced = hub.post(path, json!({ "inputs": [{ "properties": { "email": "ann@example.test" } }] })).await;
    assert_eq!(untraced.status, 409);
    let fresh = hub.post(path, json!({ "inputs": [{ "properties": { "email": "eve@example.test" } }] })).await;
    assert_eq!(fresh.status, 201);
}

#[tokio::test]
async fn batch_update_leaves_out_contacts_addressed_by_email() {
    let hub = Hub::start().await;
    let id = hub.contact("ann@example.test").await;
    let path = UPSERT.replace("upsert", "update");
    let by_id = json!({ "inputs": [{ "id": id, "properties": { "city": "Delft" } }] });
    assert_eq!(hub.post(&path, by_id).await.results().len(), 1);
    let by_address = json!({ "inputs": [by_email("ann@example.test", json!({ "city": "Breda" }))] });
    let seen = hub.post(&path, by_address).await;
    assert_eq!((seen.status, seen.results().len()), (200, 0));
    let unknown = json!({ "inputs": [{ "id": "5", "properties": { "city": "Breda" } }] });
    let seen = hub.post(&path, unknown).await;
    assert_eq!((seen.status, seen.json["errors"][0]["context"]["ids"][0].as_str()), (207, Some("5")));
}

#[tokio::test]
async fn ten_thousand_contacts_are_no_problem() {
    let hub = Hub::start().await;
    for batch in 0..100 {
        let rows: Vec<Value> = (0..100)
            .map(|n| traced(&n.to_string(), &format!("c{batch}-{n}@example.test"), json!({ "city": "Delft" })))
            .collect();
        assert_eq!(hub.upsert(json!(rows)).await.status, 200);
    }
    assert_eq!(hub.simulator.contacts().len(), 10_000);
}
