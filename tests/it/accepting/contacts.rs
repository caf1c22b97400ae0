//! Whose request it is, and what is known of that contact afterwards.

use serde_json::{Value, json};

use super::setting::{Setting, keyed, subscribing, unsubscribing, with};
use super::{accept, accept_many};

fn of(key: &str, email: &str, properties: &Value) -> Value {
    with(with(unsubscribing(email), "/contact/key", json!(key)), "/contact/properties", properties.clone())
}

/// Key, address and properties of every contact, by key.
async fn contacts(setting: &Setting) -> Vec<(String, String, Value)> {
    let sql = "select contact_key, email, properties from hubferry.contacts order by contact_key";
    let rows = setting.application().await.query(sql, &[]).await.expect("rows");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[tokio::test]
async fn properties_are_merged_by_name_and_the_newest_value_wins() {
    let setting = Setting::new().await;
    let application = setting.application().await;
    accept(&application, "1", &of("u1", "ada@example.test", &json!({"a": 1, "b": 1, "c": 1}))).await.expect("accepted");
    let requests = [
        keyed("2", of("u1", "ada@example.test", &json!({"b": 2, "c": 2, "d": "x"}))),
        keyed("3", of("u1", "ada@example.test", &json!({"c": null}))),
        keyed("4", unsubscribing("ada@example.test")),
        keyed("bad", of("u1", "ada@example.test", &json!({"a": {}}))),
        keyed("1", of("u1", "ada@example.test", &json!({"a": 9}))),
    ];
    let codes: Vec<_> = accept_many(&application, &requests).await.into_iter().map(Result::err).collect();
    let expected = [None, None, None, Some("invalid_properties".to_owned()), Some("idempotency_conflict".to_owned())];
    assert_eq!(codes, expected);
    let merged = json!({"a": 1, "b": 2, "c": null, "d": "x"});
    assert_eq!(contacts(&setting).await, [("u1".to_owned(), "ada@example.test".to_owned(), merged)]);
}

#[tokio::test]
async fn a_changed_address_changes_the_contact_of_its_key() {
    let setting = Setting::new().await;
    let application = setting.application().await;
    let first = accept(&application, "1", &of("u1", "ada@example.test", &json!({"a": 1}))).await.expect("accepted");
    let second = accept(&application, "2", &of("u1", "lovelace@example.test", &json!({}))).await.expect("accepted");
    assert_eq!((first.sequence, second.sequence), (1, 2), "one stream");
    assert_eq!(contacts(&setting).await, [("u1".to_owned(), "lovelace@example.test".to_owned(), json!({"a": 1}))]);

    // Without a key the address finds whoever has it now.
    let third = accept(&application, "3", &unsubscribing("lovelace@example.test")).await.expect("accepted");
    assert_eq!(third.sequence, 3);
    let stranger = accept(&application, "4", &unsubscribing("ada@example.test")).await.expect("accepted");
    assert_eq!((stranger.sequence, contacts(&setting).await.len()), (1, 2));
}

#[tokio::test]
async fn in_one_batch_the_last_address_of_a_key_stays() {
    let setting = Setting::new().await;
    let application = setting.application().await;
    let requests = [
        keyed("1", of("u1", "a@example.test", &json!({"n": 1}))),
        keyed("2", of("u1", "b@example.test", &json!({"n": 2}))),
        keyed("3", of("u1", "c@example.test", &json!({"n": 3}))),
    ];
    let sequences: Vec<i64> = accept_many(&application, &requests)
        .await
        .into_iter()
        .map(|receipt| receipt.expect("accepted").sequence)
        .collect();
    assert_eq!(sequences, [1, 2, 3]);
    assert_eq!(contacts(&setting).await, [("u1".to_owned(), "c@example.test".to_owned(), json!({"n": 3}))]);
}

#[tokio::test]
async fn a_contact_that_the_application_keyed_is_preferred_to_one_of_ours() {
    let setting = Setting::new().await;
    let application = setting.application().await;
    accept(&application, "1", &unsubscribing("ada@example.test")).await.expect("accepted");
    accept(&application, "2", &of("u1", "ada@example.test", &json!({}))).await.expect("accepted");
    let third = accept(&application, "3", &subscribing("ada@example.test")).await.expect("accepted");
    assert_eq!(third.sequence, 2, "the stream of u1");
}

#[tokio::test]
async fn an_old_request_that_is_replayed_changes_no_contact() {
    let setting = Setting::new().await;
    let application = setting.application().await;
    let old = of("u1", "old@example.test", &json!({"a": "old"}));
    accept(&application, "1", &old).await.expect("accepted");
    accept(&application, "2", &of("u1", "new@example.test", &json!({"a": "new"}))).await.expect("accepted");
    assert!(accept(&application, "1", &old).await.expect("replayed").replayed);
    assert_eq!(contacts(&setting).await, [("u1".to_owned(), "new@example.test".to_owned(), json!({"a": "new"}))]);
}

#[tokio::test]
async fn the_lane_does_not_make_another_request() {
    let setting = Setting::new().await;
    let application = setting.application().await;
    let request = |lane: &str| keyed("k", with(unsubscribing("ada@example.test"), "/lane", json!(lane)));
    let requests = [keyed("k", unsubscribing("ada@example.test")), request("interactive"), request("bulk")];
    let receipts = accept_many(&application, &requests).await;
    let replayed: Vec<bool> = receipts.into_iter().map(|receipt| receipt.expect("an answer").replayed).collect();
    assert_eq!(replayed, [false, true, true]);
}

#[tokio::test]
async fn numbers_that_are_equal_are_equal_requests_at_the_door_too() {
    let setting = Setting::new().await;
    let application = setting.application().await;
    let sql = |number: &str| {
        format!(
            "select replayed from hubferry.accept_subscription('acme', 'newsletter', 'k',
                 '{{\"email\": \"ada@example.test\", \"properties\": {{\"n\": {number}}}}}', 'unsubscribed')"
        )
    };
    for (number, replayed) in [("0.0010", false), ("0.001", true), ("1e-3", true), ("0.00100000000000000000000", true)]
    {
        let row = application.query_one(&sql(number), &[]).await.expect("an answer");
        assert_eq!(row.get::<_, bool>(0), replayed, "{number}");
    }
    application.query_one(&sql("0.0010000000000000000000001"), &[]).await.expect_err("another number");
    assert_eq!(setting.ask("select properties ->> 'n' from hubferry.contacts").await.get::<_, &str>(0), "0.0010");
}
