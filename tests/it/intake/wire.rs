//! One meaning in other bytes: is it one request, one contact, one event?

use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::json;

use super::{Intaking, SINGLE, subscribing, unsubscribing, with};
use crate::accepting::setting::BRAND;

#[tokio::test]
async fn key_order_spacing_accents_numbers_instants_and_lane_do_not_make_another_request() {
    let intake = Intaking::new().await;
    let send = async |body: &str| {
        let call = intake.call(Method::POST, SINGLE).header("idempotency-key", "k");
        intake.send(call.body(Body::from(body.to_owned())).expect("a request")).await
    };
    let first = send(
        r#"{"brand":"acme","product":"newsletter","contact":{"email":"ada@example.test","properties":{"name":"José","share":0.0010}},
            "desired_state":"subscribed","consent":{"legal_basis":"NON_GDPR","explanation":"Zoë","given_at":"2026-05-04T09:30:00Z"}}"#,
    )
    .await;
    let receipt = first.expect_accepted();
    for same in [
        "{\n\t\"lane\": \"bulk\", \"consent\": {\"given_at\": \"2026-05-04T11:30:00.000+02:00\", \"explanation\": \"Zoe\u{308}\",
          \"legal_basis\": \"NON_GDPR\"}, \"desired_state\": \"subscribed\",
          \"contact\": {\"properties\": {\"share\": 1e-3, \"name\": \"Jose\u{301}\"}, \"key\": null, \"email\": \" ADA@Example.TEST\\t\"},
          \"product\": \"newsletter\", \"brand\": \"acme\"}",
        r#"{"brand":"first one loses","brand":"acme","product":"newsletter","contact":{"email":"ada@example.test",
            "properties":{"name":"Jos\u00e9","share":0.001}},"desired_state":"subscribed",
            "consent":{"legal_basis":"NON_GDPR","explanation":"Zo\u00eb","given_at":"2026-05-04t09:30:00z"}}"#,
    ] {
        send(same).await.expect_replay_of(receipt);
    }
    let counts = intake.setting.ask(
        "select (select count(*) from hubferry.contacts), (select count(*) from hubferry.outbox_events),
                (select properties ->> 'name' from hubferry.contacts)",
    );
    let row = counts.await;
    assert_eq!((row.get(0), row.get(1), row.get(2)), (1_i64, 1_i64, "José"), "what is stored keeps the caller's form");
}

#[tokio::test]
async fn one_address_in_several_spellings_is_one_contact() {
    let intake = Intaking::new().await;
    let spellings: [&[&str]; 4] = [
        &["ann@example.test", " Ann@Example.test ", "ANN@EXAMPLE.TEST\r\n"],
        &[
            "ann@xn--exmple-cua.example.test",
            "ann@exämple.example.test",
            "Ann@EXÄMPLE.example.test",
            "ann@exa\u{308}mple.example.test",
        ],
        &["jos\u{e9}@example.test", "jose\u{301}@example.test"],
        &["\u{130}ris@example.test"],
    ];
    let mut sent = 0;
    for spelling in spellings.iter().copied().flatten() {
        sent += 1;
        let answer = intake.accept(&format!("k{sent}"), &unsubscribing(spelling)).await;
        answer.expect_accepted();
    }
    intake.accept("iris", &unsubscribing("iris@example.test")).await.expect_accepted();
    let row = intake.setting.ask("select count(*), count(distinct email) from hubferry.contacts").await;
    let groups = i64::try_from(spellings.len()).expect("a few") + 1;
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (groups, groups));
}

#[tokio::test]
async fn every_address_that_mail_can_be_sent_to_is_accepted() {
    let intake = Intaking::new().await;
    let labels = ["a".repeat(63), "b".repeat(63), "c".repeat(48)].join(".");
    let longest = format!("{}@{labels}.example.test", "l".repeat(64));
    assert_eq!(longest.len(), 254);
    let addresses = [
        "a@b.example.test",
        "a+b@example.test",
        "o'neil/x@example.test",
        "q?#@example.test",
        "ü@example.test",
        "!#$%&'*+-/=?^_`{|}~@example.test",
        "1@1.example.test",
        "first.last@a-b.example.test",
        "ada@xn--bcher-kva.xn--p1ai",
        &longest,
    ];
    for (number, address) in addresses.iter().enumerate() {
        let answer = intake.accept(&format!("k{number}"), &subscribing(address)).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{address}: {}", answer.body);
    }
}

#[tokio::test]
async fn every_kind_of_property_is_stored_as_it_was_sent() {
    let intake = Intaking::new().await;
    let properties = json!({
        "text": "line\nbreak, \"quotes\", \\ and 😀", "empty": "", "nothing": null, "yes": true, "small": -1.5, "big": u64::MAX,
        "bigger": 1.5e300, "longest": "é".repeat(65_536), "A_1": i64::MIN,
    });
    let request = with(subscribing("ada@example.test"), "/contact/properties", properties.clone());
    intake.accept("k", &request).await.expect_accepted();
    let row = intake.setting.ask("select properties from hubferry.contacts").await;
    let stored: serde_json::Value = row.get(0);
    assert_eq!(stored, properties);
}

#[tokio::test]
async fn everything_that_may_be_left_out_may_be_null_where_that_is_said() {
    let intake = Intaking::new().await;
    let nulls = json!({
        "brand": BRAND, "product": "newsletter", "desired_state": "unsubscribed", "consent": null,
        "contact": {"email": "ada@example.test", "key": null, "properties": null},
    });
    let first = intake.accept("k", &nulls).await;
    intake.accept("k", &unsubscribing("ada@example.test")).await.expect_replay_of(first.expect_accepted());
}

#[tokio::test]
async fn a_number_beyond_64_bits_is_rounded_to_a_double_and_not_refused() {
    let intake = Intaking::new().await;
    let body = unsubscribing("ada@example.test").to_string().replace(
        r#""contact":{"#,
        r#""contact":{"properties":{"whole":18446744073709551615,"more":18446744073709551616,"long":0.12345678901234567890},"#,
    );
    let call =
        intake.call(Method::POST, SINGLE).header("idempotency-key", "k").body(Body::from(body)).expect("a request");
    intake.send(call).await.expect_accepted();
    let stored = "select properties ->> 'whole', properties ->> 'more', properties ->> 'long' from hubferry.contacts";
    let row = intake.setting.ask(stored).await;
    let stored: Vec<&str> = (0..3).map(|column| row.get(column)).collect();
    assert_eq!(stored, ["18446744073709551615", "18446744073709552000", "0.12345678901234568"]);
}
