//! Genuine deliveries whose form is not what HubSpot's documentation shows. Each is answered with 200 and kept.

use axum::http::{HeaderMap, HeaderValue};
use hubferry::flows::webhook::MOST_BYTES;
use hubferry::model::notification::MOST_NOTIFICATIONS;
use serde_json::{Value, json};

use super::{Answer, Hooks, PORTAL, SECRET, change, now, send, signed};

/// `[{"portalId": 4711}]`, compressed.
const GZIP: [u8; 40] = [
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x8b, 0xae, 0x56, 0x2a, 0xc8, 0x2f, 0x2a, 0x49, 0xcc,
    0xf1, 0x4c, 0x51, 0xb2, 0x52, 0x30, 0x31, 0x37, 0x34, 0xac, 0x8d, 0x05, 0x00, 0x40, 0xf7, 0x28, 0x7e, 0x14, 0x00,
    0x00, 0x00,
];

impl Hooks {
    async fn deliver_with(&self, body: &[u8], headers: &[(&'static str, &str)]) -> Answer {
        let mut request = signed(SECRET, body, now());
        let more: HeaderMap = headers
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), HeaderValue::from_str(value).expect("a value")))
            .collect();
        request.headers_mut().extend(more);
        send(&self.router, request).await
    }

    async fn unreadable(&self) -> Vec<String> {
        let sql = "select coalesce(array_agg(distinct unreadable), '{}') from hubferry.webhook_deliveries
                   where unreadable is not null";
        self.setting.ask(sql).await.get(0)
    }
}

#[tokio::test]
async fn the_type_of_the_content_is_not_asked_for() {
    let hooks = Hooks::new().await;
    let types = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "nonsense", "", "image/png"];
    for (event_id, content_type) in types.into_iter().enumerate() {
        let body = json!([change(json!({"eventId": event_id}))]).to_string();
        let answer = hooks.deliver_with(body.as_bytes(), &[("content-type", content_type)]).await;
        assert_eq!((answer.status, answer.counts()), (200, [1, 0, 0]), "{content_type:?}");
    }
}

#[tokio::test]
async fn a_body_that_is_compressed_is_kept_as_it_came() {
    let hooks = Hooks::new().await;
    let answer = hooks.deliver_with(&GZIP, &[("content-encoding", "gzip")]).await;
    assert_eq!((answer.status, answer.counts()), (200, [0, 0, 0]));
    assert_eq!(hooks.unreadable().await, ["not_text"]);
    let body: Vec<u8> = hooks.setting.ask("select body from hubferry.webhook_deliveries").await.get(0);
    assert_eq!(body, GZIP);
    // The header alone, over a body that is not compressed, spoils nothing.
    let plain = json!([change(json!({}))]).to_string();
    let answer = hooks.deliver_with(plain.as_bytes(), &[("content-encoding", "gzip")]).await;
    assert_eq!(answer.counts(), [1, 0, 0]);
}

#[tokio::test]
async fn a_body_that_is_cut_off_anywhere_is_kept_unread() {
    let hooks = Hooks::new().await;
    let notification = change(json!({"propertyValue": "Zoë 🦊", "extra": {"a": [1, null, "\u{1}"]}}));
    let body = json!([notification, change(json!({"eventId": 2}))]).to_string().into_bytes();
    for length in 1..body.len() {
        let answer = hooks.deliver_with(&body[..length], &[]).await;
        assert_eq!((answer.status, answer.counts()), (200, [0, 0, 0]), "{length}");
    }
    assert_eq!(hooks.unreadable().await, ["not_json", "not_text"], "cut in a character, or elsewhere");
    assert_eq!(hooks.rows().await.1, 0);
    assert_eq!(hooks.deliver_with(&body, &[]).await.counts(), [2, 0, 0]);
}

#[tokio::test]
async fn numbers_as_text_and_text_as_numbers_say_the_same() {
    let hooks = Hooks::new().await;
    let same = [
        json!({}),
        json!({"portalId": PORTAL.to_string()}),
        json!({"occurredAt": "1790000000000"}),
        json!({"objectId": "90210"}),
        json!({"eventId": "880001"}),
        json!({"appId": "9001", "subscriptionId": "55001", "attemptNumber": "3"}),
        json!({"portalId": format!(" {PORTAL} "), "objectId": " 90210"}),
        json!({"isSensitive": "false"}),
    ];
    let delivery: Vec<Value> = same.into_iter().map(change).collect();
    assert_eq!(hooks.store(&delivery).await.counts(), [1, 0, 7]);
    let values = [json!(5), json!(5.50), json!(true), json!([1, "a"]), json!({"a": 1}), json!(""), Value::Null];
    let of = |(place, value): (usize, &Value)| change(json!({"eventId": 900 + place, "propertyValue": value}));
    let answer = hooks.store(&values.iter().enumerate().map(of).collect::<Vec<Value>>()).await;
    assert_eq!(answer.counts(), [7, 0, 0]);
    let sql = "select array_agg(property_value order by position) from hubferry.webhook_events where event_id ~ '^90'";
    let stored: Vec<Option<String>> = hooks.setting.ask(sql).await.get(0);
    let expected = [Some("5"), Some("5.5"), Some("true"), Some("[1,\"a\"]"), Some("{\"a\":1}"), Some(""), None];
    assert_eq!(stored.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn what_is_no_number_where_one_is_needed_costs_only_itself() {
    let hooks = Hooks::new().await;
    let bad = [
        (json!({"portalId": "4711x"}), "no_portal"),
        (json!({"portalId": 4711.5}), "no_portal"),
        (json!({"portalId": -4711}), "no_portal"),
        (json!({"portalId": [PORTAL]}), "no_portal"),
        (json!({"occurredAt": "2026-09-21T14:13:20Z"}), "no_occurred_at"),
        (json!({"occurredAt": 1.79e12}), "no_occurred_at"),
        (json!({"occurredAt": -1}), "occurred_at_out_of_range"),
        (json!({"occurredAt": "99999999999999"}), "occurred_at_out_of_range"),
        (json!({"objectId": 0}), "bad_object_id"),
        (json!({"objectId": "0x10"}), "bad_object_id"),
        (json!({"objectId": true}), "bad_object_id"),
        (json!({"propertyName": "n".repeat(300)}), "name_too_long"),
    ];
    let mut delivery: Vec<Value> = bad.iter().map(|(replaced, _)| change(replaced.clone())).collect();
    delivery.extend([json!(1), json!("text"), Value::Null, json!([change(json!({}))])]);
    delivery.push(change(json!({})));
    let answer = hooks.store(&delivery).await;
    assert_eq!(answer.counts(), [1, 16, 0]);
    let expected: Vec<&str> = bad.iter().map(|(_, reason)| *reason).chain(["not_an_object"; 4]).collect();
    assert_eq!(hooks.reasons().await, expected);
}

#[tokio::test]
async fn ten_thousand_elements_that_are_no_notifications_are_kept_each_with_its_reason() {
    let hooks = Hooks::new().await;
    let elements: Vec<Value> =
        (0..MOST_NOTIFICATIONS).map(|place| if place % 2 == 0 { json!(place) } else { json!({"n": place}) }).collect();
    let most = i64::try_from(MOST_NOTIFICATIONS).expect("a number");
    assert_eq!(hooks.store(&elements).await.counts(), [0, most, 0]);
    assert_eq!(hooks.store(&elements).await.counts(), [0, 0, most], "and known when they come again");
    assert_eq!(hooks.rows().await.2, 0);
}

#[tokio::test]
async fn depth_in_one_notification_harms_neither_it_nor_its_mates() {
    let hooks = Hooks::new().await;
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let objects = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let with = |event_id: u32, field: &str, value: &str| {
        let text = change(json!({"eventId": event_id, field: "HERE"})).to_string();
        text.replace("\"HERE\"", value)
    };
    let body = format!(
        "[{},{},{},{}]",
        with(1, "extra", &deep),
        with(2, "propertyValue", &objects),
        with(3, "objectId", &deep),
        change(json!({"eventId": 4}))
    );
    assert!(body.len() < MOST_BYTES);
    assert_eq!(hooks.deliver(&body).await.counts(), [3, 1, 0]);
    assert_eq!(hooks.reasons().await, ["bad_object_id"]);
    let sql = "select length(property_value) from hubferry.webhook_events where event_id = '2'";
    assert_eq!(usize::try_from(hooks.setting.ask(sql).await.get::<_, i32>(0)).expect("a length"), objects.len());
}
