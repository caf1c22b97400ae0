//! What is stored of a delivery, and what follows from it.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use hubferry::adapters::db;
use hubferry::flows::webhook::{SecretSource, Webhook};
use serde_json::{Value, json};

use super::{Hooks, PORTAL, SECRET, app, change, now, send, settings, signed};
use crate::postgres_proxy::PostgresProxy;

#[tokio::test]
async fn a_delivery_is_stored_whole_with_one_event_for_the_worker() {
    let hooks = Hooks::new().await;
    let body = json!([change(json!({})), change(json!({"eventId": 2, "propertyName": "country"}))]).to_string();
    let answer = hooks.deliver(&body).await;
    assert_eq!((answer.status, answer.counts()), (200, [2, 0, 0]));
    let row = hooks.setting.ask("select * from hubferry.webhook_deliveries").await;
    assert_eq!(row.get::<_, &[u8]>("body"), body.as_bytes());
    assert_eq!((row.get::<_, i32>("notifications"), row.get::<_, i32>("fresh")), (2, 2));
    let kept: BTreeSet<String> = row.get::<_, Value>("headers").as_object().expect("headers").keys().cloned().collect();
    assert_eq!(
        kept,
        ["content-type", "x-hubspot-request-timestamp", "x-hubspot-signature-v3"].map(String::from).into()
    );

    let event = hooks.setting.ask("select * from hubferry.outbox_events").await;
    let delivery: uuid::Uuid = row.get("delivery_id");
    assert_eq!(event.get::<_, Value>("payload"), json!({"delivery_id": delivery, "portal_id": PORTAL}));
    assert_eq!(event.get::<_, &str>("dedupe_key"), format!("{delivery}:{PORTAL}"));
    let words = ["kind", "lane", "status"].map(|column| event.get::<_, String>(column));
    assert_eq!(words, ["webhook.delivery.v1", "inbound", "pending"]);
    assert_eq!(answer.body["delivery_id"], json!(delivery));

    let row = hooks.setting.ask("select * from hubferry.webhook_events where property_name = 'city'").await;
    assert_eq!((row.get::<_, i64>("portal_id"), row.get::<_, Option<i64>>("object_id")), (PORTAL, Some(90_210)));
    assert_eq!((row.get::<_, &str>("state"), row.get::<_, &str>("object_type")), ("received", "contact"));
    assert_eq!(row.get::<_, jiff::Timestamp>("occurred_at").as_millisecond(), 1_790_000_000_000);
    assert_eq!(row.get::<_, Option<&str>>("raw"), None);
}

#[tokio::test]
async fn storing_takes_one_round_trip() {
    let hooks = Hooks::new().await;
    let proxy = PostgresProxy::before(hooks.setting.url()).await;
    let db = db::Db::new(&proxy.url(hooks.setting.url()).into(), 1).expect("a URL");
    let router = Webhook::new(db, settings(SecretSource::Environment(vec![app(SECRET, None)]))).router();
    let mut spent = Vec::new();
    for event_id in 0..3 {
        let before = proxy.round_trips();
        let body = json!([change(json!({"eventId": event_id}))]).to_string();
        assert_eq!(send(&router, signed(SECRET, body.as_bytes(), now())).await.status, 200);
        spent.push(proxy.round_trips() - before);
    }
    // One for the statement, and one that tests the connection before it is used again.
    assert_eq!(spent[1..], [2, 2]);
}

#[tokio::test]
async fn the_number_of_an_event_is_not_its_identity() {
    let hooks = Hooks::new().await;
    let first = change(json!({}));
    let others =
        [change(json!({"objectId": 90_211})), change(json!({"propertyName": "country", "propertyValue": "NL"}))];
    let answer = hooks.store(&[first.clone(), others[0].clone(), others[1].clone(), first]).await;
    assert_eq!(answer.counts(), [3, 0, 1]);
    assert_eq!(hooks.rows().await, (1, 3, 1));
}

#[tokio::test]
async fn what_comes_again_is_known_in_whatever_batch_and_attempt_and_makes_no_event() {
    let hooks = Hooks::new().await;
    let numbered = |event_id: u32, attempt: u32| change(json!({"eventId": event_id, "attemptNumber": attempt}));
    assert_eq!(hooks.store(&[numbered(1, 0), numbered(2, 0)]).await.counts(), [2, 0, 0]);
    assert_eq!(hooks.store(&[numbered(2, 1), numbered(3, 0)]).await.counts(), [1, 0, 1]);
    assert_eq!(hooks.rows().await, (2, 3, 2));
    let again = hooks.store(&[numbered(3, 1), numbered(1, 2)]).await;
    assert_eq!(again.counts(), [0, 0, 2]);
    assert_eq!(hooks.rows().await, (3, 3, 2));
    assert_eq!(hooks.count("webhook_deliveries where body is null and fresh = 0").await, 1);
}

#[tokio::test]
async fn one_event_a_portal() {
    let hooks = Hooks::new().await;
    let sql = "insert into hubferry.portals (portal_id, name) values (4712, 'second')";
    hooks.setting.application().await.batch_execute(sql).await.expect("a portal");
    let second = |event_id: u32| change(json!({"eventId": event_id, "portalId": 4712}));
    hooks.store(&[change(json!({})), second(2), second(3)]).await;
    assert_eq!(hooks.rows().await, (1, 3, 2));
    assert_eq!(hooks.count("outbox_events where portal_id = 4712").await, 1);
}

#[tokio::test]
async fn a_portal_that_nobody_registered_is_kept_aside_both_times_the_test_button_is_pressed() {
    let hooks = Hooks::new().await;
    let sample = |occurred: i64| {
        json!({"eventId": 1, "subscriptionId": 12_345, "portalId": 62_515, "appId": 9001, "occurredAt": occurred, "objectId": 123,
               "subscriptionType": "contact.creation", "attemptNumber": 0, "changeSource": "CRM", "changeFlag": "NEW"})
    };
    for occurred in [1_790_000_000_000, 1_790_000_000_500] {
        assert_eq!(hooks.store(&[sample(occurred)]).await.counts(), [0, 1, 0]);
    }
    assert_eq!(hooks.reasons().await, ["unknown_portal", "unknown_portal"]);
    assert_eq!(hooks.rows().await, (2, 2, 0));
    assert_eq!(hooks.count("webhook_events where object_id = 123 and details ->> 'changeFlag' = 'NEW'").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_delivery_ten_times_at_once_is_one_row_a_notification_and_one_event() {
    let hooks = Hooks::new().await;
    let mut notifications: Vec<Value> = (0..100).map(|event_id| change(json!({"eventId": event_id}))).collect();
    let mut deliveries = Vec::new();
    for _ in 0..10 {
        // Each in another order, so that they meet at the keys.
        notifications.rotate_left(37);
        let body = json!(notifications).to_string();
        let router = hooks.router.clone();
        deliveries.push(tokio::spawn(async move { send(&router, signed(SECRET, body.as_bytes(), now())).await }));
    }
    let mut received = 0;
    for answer in join_all(deliveries).await {
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.body);
        received += answer.counts()[0];
    }
    assert_eq!(received, 100);
    assert_eq!(hooks.rows().await, (10, 100, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn overlapping_deliveries_at_once_store_each_notification_once() {
    let hooks = Hooks::new().await;
    let deliveries = (0..20_u32).map(|delivery| {
        // Each overlaps the next by half.
        let of = |place: u32| change(json!({"eventId": delivery * 25 + place}));
        let body = Value::from((0..50).rev().map(of).collect::<Vec<Value>>()).to_string();
        let router = hooks.router.clone();
        tokio::spawn(async move { send(&router, signed(SECRET, body.as_bytes(), now())).await.counts()[0] })
    });
    let received: i64 = join_all(deliveries).await.into_iter().map(|received| received.expect("an answer")).sum();
    assert_eq!((received, hooks.rows().await.1), (525, 525));
}

#[tokio::test]
async fn bodies_can_be_forgotten_sooner_than_rows_and_both_in_small_steps() {
    let hooks = Hooks::new().await;
    for event_id in 0..5 {
        hooks.store(&[change(json!({"eventId": event_id}))]).await;
    }
    let client = hooks.setting.db.connection().await.expect("a connection");
    let age = "update hubferry.webhook_deliveries set received_at = clock_timestamp() - interval '2 days'
               where delivery_id in (select delivery_id from hubferry.webhook_deliveries order by received_at limit 4)";
    client.batch_execute(age).await.expect("an update");
    let day = Duration::from_hours(24);
    let forget = async |most| db::forget_webhook_bodies(&*client, day, most).await.expect("a statement");
    assert_eq!((forget(3).await, forget(3).await, forget(3).await), (3, 1, 0));
    assert_eq!(hooks.count("webhook_deliveries where body is not null").await, 1);

    let delete = async |most| db::delete_webhook_deliveries(&*client, day, most).await.expect("a statement");
    assert_eq!(delete(3).await, 0, "what was not applied yet stays");
    let apply = "update hubferry.webhook_events set state = 'applied', settled_at = clock_timestamp()";
    client.batch_execute(apply).await.expect("an update");
    assert_eq!((delete(3).await, delete(3).await, delete(3).await), (3, 1, 0));
    assert_eq!((hooks.rows().await.0, hooks.rows().await.1), (1, 1));
}
