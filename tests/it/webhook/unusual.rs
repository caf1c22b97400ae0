//! Bodies that HubSpot should not send, and those it does send now and then. Signed, so they are answered with 200.

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request};
use hubferry::flows::webhook::{LOCAL_PATH, MOST_BYTES};
use hubferry::model::notification::MOST_NOTIFICATIONS;
use serde_json::{Value, json};

use super::{Hooks, PORTAL, SECRET, change, now, send, signed};

#[tokio::test]
async fn one_bad_notification_of_a_hundred_costs_only_itself() {
    let hooks = Hooks::new().await;
    let notifications: Vec<Value> = (1..=100)
        .map(|place| match place {
            37 => change(json!({"eventId": place, "subscriptionType": null})),
            52 => change(json!({"eventId": place, "occurredAt": "soon"})),
            81 => change(json!({"eventId": place, "portalId": PORTAL + 1})),
            _ => change(json!({"eventId": place})),
        })
        .collect();
    assert_eq!(hooks.store(&notifications).await.counts(), [97, 3, 0]);
    assert_eq!(hooks.reasons().await, ["no_type", "no_occurred_at", "unknown_portal"]);
    let row = hooks.setting.ask("select position, raw from hubferry.webhook_events where reason = 'no_type'").await;
    let raw: Value = serde_json::from_str(row.get("raw")).expect("JSON");
    assert_eq!((row.get::<_, i32>("position"), &raw), (37, &notifications[36]));
    assert_eq!(hooks.rows().await.2, 1);
}

#[tokio::test]
async fn nothing_is_stored_of_a_delivery_that_holds_nothing() {
    let hooks = Hooks::new().await;
    for body in ["", "[]", "null", "  "] {
        assert_eq!(hooks.deliver(body).await.counts(), [0, 0, 0], "{body:?}");
    }
    assert_eq!(hooks.rows().await, (0, 0, 0));
}

#[tokio::test]
async fn a_single_object_is_a_batch_of_one_and_more_than_a_hundred_are_taken() {
    let hooks = Hooks::new().await;
    assert_eq!(hooks.deliver(&change(json!({})).to_string()).await.counts(), [1, 0, 0]);
    let many: Vec<Value> = (0..101).map(|event_id| change(json!({"eventId": event_id}))).collect();
    assert_eq!(hooks.store(&many).await.counts(), [101, 0, 0]);
    assert_eq!(hooks.deliver("{}").await.counts(), [0, 1, 0]);
}

#[tokio::test]
async fn ids_beyond_what_a_double_holds_stay_what_they_are() {
    let hooks = Hooks::new().await;
    let ids = ["2147483648", "9007199254740993", "\"9007199254740993\"", "9223372036854775807", "18446744073709551616"];
    let notification = |(event_id, id): (usize, &&str)| {
        let text = change(json!({"eventId": event_id, "objectId": "ID"})).to_string();
        text.replace("\"ID\"", id)
    };
    let body = format!("[{}]", ids.iter().enumerate().map(notification).collect::<Vec<String>>().join(","));
    assert_eq!(hooks.deliver(&body).await.counts(), [4, 1, 0]);
    let sql = "select array_agg(object_id order by position) from hubferry.webhook_events where state = 'received'";
    let stored: Vec<i64> = hooks.setting.ask(sql).await.get(0);
    assert_eq!(stored, [2_147_483_648, 9_007_199_254_740_993, 9_007_199_254_740_993, i64::MAX]);
    assert_eq!(hooks.reasons().await, ["bad_object_id"]);
    assert_eq!(hooks.count("webhook_events where raw like '%18446744073709551616%'").await, 1);
}

#[tokio::test]
async fn unknown_fields_and_types_are_taken_beside_known_ones() {
    let hooks = Hooks::new().await;
    let notifications = [
        change(json!({"subscriptionType": "contact.creation", "changeFlag": "NEW", "propertyName": null})),
        change(
            json!({"subscriptionType": "object.propertyChange", "objectTypeId": "0-1", "isSensitive": false, "sourceId": "userId:17"}),
        ),
        change(json!({"subscriptionType": "object.creation", "objectTypeId": "0-3", "objectId": 77})),
        change(json!({"subscriptionType": "contact.somethingNew", "extra": {"a": [1, {"b": null}]}})),
    ];
    assert_eq!(hooks.store(&notifications).await.counts(), [4, 0, 0]);
    let sql = "select array_agg(object_type order by position) from hubferry.webhook_events";
    assert_eq!(hooks.setting.ask(sql).await.get::<_, Vec<String>>(0), ["contact", "contact", "deal", "contact"]);
    assert_eq!(hooks.count("webhook_deliveries where convert_from(body, 'UTF8') like '%extra%somethingNew%'").await, 1);
}

#[tokio::test]
async fn every_kind_of_notification_is_kept_with_what_the_projection_needs() {
    let hooks = Hooks::new().await;
    let of = |kind: &str, more: Value| {
        let mut notification =
            json!({"portalId": PORTAL, "occurredAt": 1_790_000_000_000_i64, "subscriptionType": kind});
        notification.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        notification
    };
    let notifications = [
        of(
            "contact.merge",
            json!({"primaryObjectId": 90_210, "mergedObjectIds": [90_211, 90_212], "newObjectId": 90_300}),
        ),
        of("contact.deletion", json!({"objectId": 90_211})),
        of("contact.restore", json!({"objectId": 90_211})),
        of("contact.privacyDeletion", json!({"objectId": 90_210})),
        of("contact.associationChange", json!({"fromObjectId": 1, "toObjectId": 2, "associationRemoved": true})),
        of("conversation.newMessage", json!({"objectId": 5, "messageId": "m", "messageType": "COMMENT"})),
    ];
    assert_eq!(hooks.store(&notifications).await.counts(), [6, 0, 0]);
    let row = hooks
        .setting
        .ask("select object_id, details from hubferry.webhook_events where subscription_type = 'contact.merge'")
        .await;
    assert_eq!(row.get::<_, i64>(0), 90_210);
    assert_eq!(
        row.get::<_, Value>(1),
        json!({"primaryObjectId": 90_210, "mergedObjectIds": [90_211, 90_212], "newObjectId": 90_300})
    );
}

#[tokio::test]
async fn text_that_the_database_cannot_hold_is_quarantined_as_it_came() {
    let hooks = Hooks::new().await;
    let nul = change(json!({"propertyValue": "a\0b"})).to_string();
    let half = change(json!({"propertyValue": "HALF"})).to_string().replace("HALF", "\\ud83e");
    let good = change(json!({"eventId": 2}));
    assert_eq!(hooks.deliver(&format!("[{nul},{half},{good}]")).await.counts(), [1, 2, 0]);
    assert_eq!(hooks.reasons().await, ["unstorable_text", "unstorable_text"]);
    let sql = "select array_agg(raw order by position) from hubferry.webhook_events where state = 'quarantined'";
    assert_eq!(hooks.setting.ask(sql).await.get::<_, Vec<String>>(0), [nul, half]);
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_kept_with_its_reason() {
    let hooks = Hooks::new().await;
    let bodies: [(&[u8], &str); 5] = [
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "not_text"),
        (b"[{\"portalId\":4711,", "not_json"),
        (b"<html></html>", "not_json"),
        (b"\"text\"", "not_a_list"),
        (b"4711", "not_a_list"),
    ];
    for (body, _) in bodies {
        let mut request = signed(SECRET, body, now());
        request.headers_mut().insert("content-type", HeaderValue::from_static("text/html"));
        assert_eq!(send(&hooks.router, request).await.counts(), [0, 0, 0]);
    }
    let sql = "select array_agg(unreadable order by received_at), array_agg(body order by received_at) from hubferry.webhook_deliveries";
    let row = hooks.setting.ask(sql).await;
    assert_eq!(row.get::<_, Vec<String>>(0), bodies.map(|(_, reason)| reason));
    assert_eq!(row.get::<_, Vec<Vec<u8>>>(1), bodies.map(|(body, _)| body.to_vec()));
    assert_eq!(hooks.rows().await.2, 0);
}

#[tokio::test]
async fn thousands_of_notifications_are_stored_and_far_too_many_kept_unread() {
    let hooks = Hooks::new().await;
    let many: Vec<Value> = (0..MOST_NOTIFICATIONS)
        .map(|event_id| {
            json!({"eventId": event_id, "portalId": PORTAL,
        "occurredAt": 1_790_000_000_000_i64, "subscriptionType": "contact.creation", "objectId": event_id + 1})
        })
        .collect();
    let most = i64::try_from(MOST_NOTIFICATIONS).expect("a number");
    assert_eq!(hooks.store(&many).await.counts(), [most, 0, 0]);
    assert_eq!(hooks.rows().await, (1, most, 1));
    let more = format!("[{}]", vec!["{}"; MOST_NOTIFICATIONS + 1].join(","));
    assert_eq!(hooks.deliver(&more).await.counts(), [0, 0, 0]);
    assert_eq!(hooks.count("webhook_deliveries where unreadable = 'too_many'").await, 1);
}

#[tokio::test]
async fn the_largest_body_is_stored_and_a_larger_one_refused_before_it_is_read() {
    let hooks = Hooks::new().await;
    let empty = json!([change(json!({"propertyValue": ""}))]).to_string().len();
    let largest = json!([change(json!({"propertyValue": "x".repeat(MOST_BYTES - empty)}))]).to_string();
    assert_eq!(largest.len(), MOST_BYTES);
    assert_eq!(hooks.deliver(&largest).await.counts(), [1, 0, 0]);
    hooks.deliver(&format!("{largest} ")).await.expect_problem(413, "body_too_large");
    let deep = "[".repeat(1_000_000);
    assert_eq!(hooks.deliver(&deep).await.counts(), [0, 0, 0]);
    let deep = format!("{deep}{}", "]".repeat(1_000_000));
    assert_eq!(hooks.deliver(&deep).await.counts(), [0, 1, 0]);
}

#[tokio::test]
async fn webhooks_are_posted() {
    let hooks = Hooks::new().await;
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let request = Request::builder().method(method).uri(LOCAL_PATH).body(Body::empty()).expect("a request");
        let answer = send(&hooks.router, request).await;
        answer.expect_problem(405, "method_not_allowed");
        assert_eq!(answer.headers["allow"], "POST");
    }
}
