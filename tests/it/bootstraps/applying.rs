//! The way of an event, through bootstraps.

use axum::http::Method;
use hubspot_simulator::SubscriptionState;
use serde_json::{Value, json};

use super::{AMPLE, Deployed, events};

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_accepted_published_and_applied_by_three_processes() {
    let deployed = Deployed::new().await;
    let receipt = deployed.accept("ada@example.test", "subscribed", "interactive").await;

    assert_eq!(deployed.publish().await["queued"], 1);
    deployed.work_off_queues().await;

    let contact = deployed.world.hubspot.contact_by_email("ada@example.test").unwrap();
    assert_eq!(contact.get("firstname"), Some("Ada"));
    assert_eq!(deployed.world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Subscribed);
    let path = format!("/v1/requests/{}", receipt["request_id"].as_str().unwrap());
    let bearer = format!("Bearer {}", deployed.settings.bearer_token);
    let event = events::request(&Method::GET, &path, &[("authorization", &bearer)], "");
    let (status, state) = deployed.answer(&deployed.intake, &event).await;
    assert_eq!((status, &state["status"]), (200, &json!("synced")), "{state}");
    deployed.assert_nothing_is_left_open().await;
    let lines = deployed.end().await;
    assert!(lines.iter().any(|line| line.contains("A batch ended.")), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_in_base64_is_the_same_request() {
    let deployed = Deployed::new().await;
    let bearer = format!("Bearer {}", deployed.settings.bearer_token);
    let body = json!({
        "brand": "acme", "product": "newsletter", "contact": {"email": "zoe@example.test", "properties": {"firstname": "Zoë"}},
        "desired_state": "subscribed", "consent": {"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "form"},
    });
    let headers = [("authorization", &*bearer), ("idempotency-key", "zoe-1")];
    let plain = events::request(&Method::POST, "/v1/subscriptions", &headers, &body.to_string());
    let (first, receipt) = deployed.answer(&deployed.intake, &events::in_base64(plain.clone())).await;
    let (second, replay) = deployed.answer(&deployed.intake, &plain).await;

    assert_eq!((first, second), (202, 200), "{receipt} {replay}");
    assert_eq!(receipt["request_id"], replay["request_id"]);
    deployed.drain().await;
    let contact = deployed.world.hubspot.contact_by_email("zoe@example.test").unwrap();
    assert_eq!(contact.get("firstname"), Some("Zoë"));
    deployed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hubspot_reports_is_stored_published_and_projected() {
    let deployed = Deployed::new().await;
    let notification = |event: i64, property: &str, value: &str| {
        json!({
            "eventId": event, "subscriptionId": 55_001, "portalId": deployed.world.portal.0, "appId": 9001,
            "occurredAt": 1_790_000_000_000_i64 + event, "subscriptionType": "contact.propertyChange", "attemptNumber": 0,
            "objectId": 90_210, "changeSource": "CRM_UI", "propertyName": property, "propertyValue": value,
        })
    };
    let batch = [
        notification(1, "city", "Utrecht"),
        notification(2, "city", "’s-Hertogenbosch"),
        notification(3, "zip", "5211"),
    ];
    let (status, answer) = deployed.deliver(&batch).await;
    assert_eq!((status, &answer["received"]), (200, &json!(3)), "{answer}");
    let again = events::in_base64(events::delivery(&batch));
    let (status, answer) = deployed.answer(&deployed.webhook, &again).await;
    assert_eq!((status, &answer["repeated"]), (200, &json!(3)), "{answer}");

    deployed.drain().await;
    let sql = "select property, value from hubferry.crm_values where object_id = 90210 order by property";
    let rows = deployed.world.db.connection().await.unwrap().query(sql, &[]).await.unwrap();
    let values: Vec<(String, Option<String>)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(values, [("city".into(), Some("’s-Hertogenbosch".into())), ("zip".into(), Some("5211".into()))]);
    deployed.assert_nothing_is_left_open().await;
    deployed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_hubspot_did_not_sign_is_refused() {
    let deployed = Deployed::new().await;
    let mut event = events::delivery(&[json!({"eventId": 1})]);
    event["body"] = json!("[]");
    let (status, answer) = deployed.answer(&deployed.webhook, &event).await;
    assert_eq!(status, 401, "{answer}");
    deployed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_batch_as_lambda_writes_it_the_message_of_ours_is_worked_and_the_others_are_acknowledged() {
    let deployed = Deployed::new().await;
    deployed.accept("ada@example.test", "subscribed", "interactive").await;
    deployed.publish().await;
    let sent = deployed.world.queues.messages("interactive").remove(0);
    let mut event = events::messages();
    event["Records"][0]["body"] = json!(sent.body);
    for (name, value) in &sent.message_attributes {
        event["Records"][0]["messageAttributes"][name] = json!({
            "stringValue": value.string_value, "stringListValues": [], "binaryListValues": [], "dataType": "String",
        });
    }
    let answer = deployed.worker.invoke(&event, AMPLE).await.unwrap().answer().unwrap();

    assert_eq!(answer, json!({"batchItemFailures": []}));
    assert_eq!(deployed.world.statuses().await, [("synced".into(), None, 1)]);
    let lines = deployed.end().await;
    assert_eq!(lines.iter().filter(|line| line.contains("it is quarantined")).count(), 2, "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reconciler_brings_back_what_a_lost_message_left() {
    let deployed = Deployed::new().await;
    deployed.accept("ada@example.test", "subscribed", "interactive").await;
    deployed.publish().await;
    deployed.world.queues.clear_queue("interactive");
    deployed.world.sql("update hubferry.outbox_events set queued_at = queued_at - interval '1 hour'").await;

    let repaired = deployed.reconciler.invoke(&events::tick(), AMPLE).await.unwrap().answer().unwrap();
    assert_eq!(repaired["republished"], 1, "{repaired}");
    deployed.drain().await;
    assert_eq!(deployed.world.statuses().await, [("synced".into(), None, 1)]);
    deployed.assert_nothing_is_left_open().await;
    deployed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn migrations_are_run_once_by_whoever_deploys() {
    let deployed = Deployed::new().await;
    let migrate = async || deployed.migrate.invoke(&Value::Null, AMPLE).await.unwrap().answer().unwrap();
    deployed.world.sql("drop schema hubferry cascade").await;
    let first = migrate().await;
    let second = migrate().await;

    assert!(first["applied"].as_array().unwrap().len() > 10, "{first}");
    assert_eq!((&second["applied"], &second["version"]), (&json!([]), &first["version"]));
    deployed.end().await;
}
