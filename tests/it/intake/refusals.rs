//! Requests that the door refuses, each by the name of its field, and none half-written.

use serde_json::{Value, json};

use super::{Intaking, subscribing, unsubscribing, with};
use crate::accepting::setting::{BRAND, UNMAPPED_PRODUCT};

/// A request with everything in it.
fn full() -> Value {
    json!({
        "brand": BRAND, "product": "newsletter", "lane": "bulk", "desired_state": "subscribed",
        "contact": {"key": "user-1", "email": "ada@example.test", "properties": {"firstname": "Ada"}},
        "consent": {"legal_basis": "NON_GDPR", "explanation": "asked", "given_at": "2026-05-04T09:30:00Z"},
    })
}

/// The full request without the member at this path.
fn without(path: &str) -> Value {
    let (parent, name) = path.rsplit_once('/').expect("a path begins with a slash");
    let mut request = full();
    let parent = request.pointer_mut(parent).and_then(Value::as_object_mut).expect("the path leads to an object");
    parent.remove(name).expect("the path leads somewhere");
    request
}

#[tokio::test]
async fn a_required_member_that_is_missing_is_named() {
    let intake = Intaking::new().await;
    for (path, code) in [
        ("/brand", "invalid_field"),
        ("/product", "invalid_field"),
        ("/desired_state", "invalid_field"),
        ("/contact", "invalid_field"),
        ("/contact/email", "invalid_email"),
        ("/consent", "invalid_consent"),
        ("/consent/legal_basis", "invalid_consent"),
        ("/consent/explanation", "invalid_consent"),
    ] {
        intake.refuse(&without(path), 422, code, &path[1..].replace('/', ".")).await;
    }
}

#[tokio::test]
async fn a_member_of_another_type_is_named() {
    let intake = Intaking::new().await;
    let values = [
        json!(null),
        json!(true),
        json!(5),
        json!("text"),
        json!([]),
        json!(["ada@example.test"]),
        json!({}),
        json!({"a": 1}),
    ];
    // Where it is, which of the values are of a type that is right there, and the fault of the others.
    for (path, right, code) in [
        ("/brand", &[3][..], "invalid_field"),
        ("/product", &[3], "invalid_field"),
        ("/desired_state", &[3], "invalid_field"),
        ("/lane", &[3], "invalid_lane"),
        ("/contact", &[6, 7], "invalid_field"),
        ("/contact/email", &[3], "invalid_email"),
        ("/contact/key", &[0, 3], "invalid_contact_key"),
        ("/contact/properties", &[0, 6, 7], "invalid_properties"),
        ("/contact/properties/firstname", &[0, 1, 2, 3], "invalid_properties"),
        ("/consent", &[6, 7], "invalid_consent"),
        ("/consent/legal_basis", &[3], "invalid_consent"),
        ("/consent/explanation", &[3], "invalid_consent"),
        ("/consent/given_at", &[0, 3], "invalid_consent"),
    ] {
        for (_, value) in values.iter().enumerate().filter(|(index, _)| !right.contains(index)) {
            intake.refuse(&with(full(), path, value.clone()), 422, code, &path[1..].replace('/', ".")).await;
        }
    }
}

#[tokio::test]
async fn a_member_that_nobody_knows_is_named() {
    let intake = Intaking::new().await;
    for path in ["/Brand", "/state", "/contact/mail", "/contact/idempotency_key", "/consent/by", "/contact/"] {
        intake.refuse(&with(full(), path, json!("x")), 422, "unknown_field", &path[1..].replace('/', ".")).await;
    }
    let long = "x".repeat(10_000);
    intake.refuse(&with(full(), &format!("/{long}"), json!(1)), 422, "unknown_field", &long[..100]).await;
}

#[tokio::test]
async fn a_product_that_can_not_be_subscribed_to_is_named() {
    let intake = Intaking::new().await;
    for product in ["nothing", "", "NEWSLETTER", "newsletter ", &"x".repeat(100_000)] {
        intake.refuse(&with(full(), "/product", json!(product)), 422, "unknown_product", "product").await;
    }
    let drafted = with(full(), "/product", json!(UNMAPPED_PRODUCT));
    intake.refuse(&drafted, 422, "no_active_mapping", "product").await;
}

#[tokio::test]
async fn a_brand_that_a_token_names_and_nobody_created_is_unknown() {
    let mut intake = Intaking::new().await;
    intake.token = intake.setting.token(&["ghost"]).await;
    intake.refuse(&with(full(), "/brand", json!("ghost")), 422, "unknown_brand", "brand").await;
}

#[tokio::test]
async fn a_state_or_lane_that_does_not_exist_is_named() {
    let intake = Intaking::new().await;
    for state in ["", "Subscribed", "subscribe", "pending", "subscribed "] {
        intake
            .refuse(&with(full(), "/desired_state", json!(state)), 422, "invalid_desired_state", "desired_state")
            .await;
    }
    for lane in ["", "inbound", "effects", "BULK"] {
        intake.refuse(&with(full(), "/lane", json!(lane)), 422, "invalid_lane", "lane").await;
    }
}

#[tokio::test]
async fn what_is_no_address_is_refused() {
    let intake = Intaking::new().await;
    let labels = ["a".repeat(63), "b".repeat(63), "c".repeat(49)].join(".");
    for address in [
        "",
        " ",
        "@",
        "ada",
        "ada@",
        "@example.test",
        "ada@example",
        "ada@@example.test",
        "ada@b@example.test",
        "ada example@example.test",
        "ada@exam ple.test",
        "ada\n@example.test",
        "ada@example.test\nbcc: grace@example.test",
        "ada@example.test, grace@example.test",
        "ada@example.test;grace@example.test",
        "Ada <ada@example.test>",
        "<ada@example.test>",
        "\"ada\"@example.test",
        "ada(work)@example.test",
        "mailto:ada@example.test",
        ".ada@example.test",
        "ada.@example.test",
        "a..da@example.test",
        "ada@.example.test",
        "ada@x..example.test",
        "ada@example.test.",
        "ada@-x.example.test",
        "ada@x-.example.test",
        "ada@exam_ple.test",
        "ada@127.0.0.1",
        "ada@[127.0.0.1]",
        "ada@example.1",
        "ada@ex*mple.test",
        "ann\u{ff20}example.test",
        "ann\u{ff20}x@example.test",
        "ann\u{a0}@example.test",
        "ann\u{200b}@example.test",
        "ann\u{202e}@example.test",
        "\u{feff}ann@example.test",
        "ann\u{3000}@example.test",
        "ann\u{85}@example.test",
        "ann\u{7f}@example.test",
        "ann@exa\u{200b}\u{301}mple.\u{2603}\u{fe0f}.",
        "ann@\u{202e}.test",
        &format!("{}@example.test", "l".repeat(65)),
        &format!("ada@{}.example.test", "d".repeat(64)),
        &format!("{}@{labels}.example.test", "l".repeat(64)),
        &"a".repeat(100_000),
        &format!("{}@example.test", ".a".repeat(50_000)),
    ] {
        intake.refuse(&with(full(), "/contact/email", json!(address)), 422, "invalid_email", "contact.email").await;
    }
}

#[tokio::test]
async fn a_contact_key_that_is_no_identifier_is_refused() {
    let intake = Intaking::new().await;
    for key in ["", " ", "-a", ".a", "a b", "ada@example.test", "kéy", "a\n", &"k".repeat(101)] {
        intake.refuse(&with(full(), "/contact/key", json!(key)), 422, "invalid_contact_key", "contact.key").await;
    }
    let longest = with(full(), "/contact/key", json!("A:/._-".to_owned() + &"9".repeat(94)));
    intake.accept("k", &longest).await.expect_accepted();
}

#[tokio::test]
async fn a_property_that_can_not_be_carried_is_named() {
    let intake = Intaking::new().await;
    for name in ["", "1st", "_x", "first name", "pröperty", "a.b", &"n".repeat(101)] {
        let request = with(full(), "/contact/properties", json!({"fine": 1, name: "x"}));
        intake.refuse(&request, 422, "invalid_properties", "contact.properties").await;
    }
    let long = with(full(), "/contact/properties/note", json!("x".repeat(65_537)));
    intake.refuse(&long, 422, "invalid_properties", "contact.properties.note").await;
    let longest_name = with(full(), "/contact/properties", json!({"n".repeat(100): "x"}));
    intake.accept("k", &longest_name).await.expect_accepted();
}

#[tokio::test]
async fn a_value_is_as_long_as_it_is_in_utf16_units_as_hubspot_measures_it() {
    let intake = Intaking::new().await;
    for long in ["🦊".repeat(32_769), "é".repeat(65_535) + "🦊"] {
        let request = with(full(), "/contact/properties", json!({"foxes": long}));
        intake.refuse(&request, 422, "invalid_properties", "contact.properties.foxes").await;
    }
    for (number, longest) in ["🦊".repeat(32_768), "é".repeat(65_534) + "🦊"].into_iter().enumerate() {
        let request = with(full(), "/contact/properties", json!({"foxes": longest}));
        intake.accept(&format!("longest-{number}"), &request).await.expect_accepted();
    }
}

#[tokio::test]
async fn a_consent_that_shows_nothing_is_refused() {
    let intake = Intaking::new().await;
    for basis in ["", "CONSENT", "consent_with_notice"] {
        intake
            .refuse(&with(full(), "/consent/legal_basis", json!(basis)), 422, "invalid_consent", "consent.legal_basis")
            .await;
    }
    for explanation in ["", "   ", &"x".repeat(1001)] {
        let request = with(full(), "/consent/explanation", json!(explanation));
        intake.refuse(&request, 422, "invalid_consent", "consent.explanation").await;
    }
    let longest = with(full(), "/consent/explanation", json!(format!("  {}\n{} ", "é".repeat(499), "x".repeat(500))));
    intake.accept("k", &longest).await.expect_accepted();
    let to_leave = with(unsubscribing("ada@example.test"), "/consent", json!({"legal_basis": "NON_GDPR"}));
    intake.refuse(&to_leave, 422, "invalid_consent", "consent.explanation").await;
}

#[tokio::test]
async fn a_consent_given_at_no_possible_instant_is_refused() {
    let intake = Intaking::new().await;
    let now = hubferry::clock::now();
    for given_at in [
        "",
        "now",
        "yesterday",
        "infinity",
        "1777887000",
        "2026-05-04",
        "2026-05-04 09:30:00Z",
        "2026-05-04T09:30:00",
        "2026-05-04T09:30Z",
        "2026-05-04T09:30:00 Z",
        "2026-05-04T09:30:00Z\n",
        "2026-05-04T09:30:00.Z",
        "2026-05-04T09:30:00.1234567890Z",
        "2026-05-04T09:30:00+0200",
        "2026-05-04T09:30:00 Europe/Amsterdam",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "2026-00-10T00:00:00Z",
        "2026-05-04T24:00:00Z",
        "2026-05-04T23:60:00Z",
        "2026-05-04T23:59:61Z",
        "2026-05-04T09:30:00+99:00",
        "2026-05-04T09:30:00+15:60",
        "2026-05-04T09:30:00-16:00",
        "20260504T093000Z",
        "\u{662}\u{660}26-05-04T09:30:00Z",
        "0000-01-01T00:00:00Z",
        "2004-12-31T23:59:59Z",
        "2005-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59Z",
        &(now + jiff::SignedDuration::from_mins(10)).to_string(),
    ] {
        let request = with(full(), "/consent/given_at", json!(given_at));
        intake.refuse(&request, 422, "invalid_consent", "consent.given_at").await;
    }
}

#[tokio::test]
async fn a_consent_reaches_the_event_in_one_form() {
    let intake = Intaking::new().await;
    let now = hubferry::clock::now();
    let a_moment_ahead = (now + jiff::SignedDuration::from_mins(1)).to_string();
    for (number, (given_at, expected)) in [
        ("2005-01-01T00:00:00Z", Some("2005-01-01T00:00:00Z")),
        ("2026-05-04T09:30:00.123456789+02:00", Some("2026-05-04T07:30:00.123457Z")),
        ("2026-05-04t09:30:00z", Some("2026-05-04T09:30:00Z")),
        ("2024-02-29T23:59:60Z", Some("2024-03-01T00:00:00Z")),
        ("2026-05-04T09:30:00-12:30", Some("2026-05-04T22:00:00Z")),
        (&a_moment_ahead, None),
    ]
    .into_iter()
    .enumerate()
    {
        let request = with(subscribing("ada@example.test"), "/consent/given_at", json!(given_at));
        intake.accept(&format!("k{number}"), &request).await.expect_accepted();
        let newest =
            "select payload #>> '{consent,given_at}' from hubferry.outbox_events order by sequence desc limit 1";
        let row = intake.setting.ask(newest).await;
        let stored: jiff::Timestamp = row.get::<_, &str>(0).parse().expect("an instant that a worker can read");
        if let Some(expected) = expected {
            assert_eq!(stored.to_string(), expected);
        }
    }
}

#[tokio::test]
async fn without_an_instant_consent_was_given_when_the_request_was_accepted() {
    let intake = Intaking::new().await;
    intake.accept("k", &subscribing("ada@example.test")).await.expect_accepted();
    let row = intake.setting.ask(
        "select (payload #>> '{consent,given_at}')::timestamptz between r.accepted_at - interval '1 s' and r.accepted_at + interval '1 s'
         from hubferry.outbox_events join hubferry.subscription_requests r using (event_id)",
    );
    assert!(row.await.get::<_, bool>(0));
}

#[tokio::test]
async fn a_character_that_can_not_be_stored_is_named_by_its_field() {
    let intake = Intaking::new().await;
    for path in
        ["/product", "/lane", "/contact/email", "/contact/key", "/contact/properties/firstname", "/consent/explanation"]
    {
        let request = with(full(), path, json!("a\u{0}b"));
        intake.refuse(&request, 422, "invalid_request", &path[1..].replace('/', ".")).await;
    }
    intake
        .refuse(
            &with(full(), "/contact/properties", json!({"a\u{0}": 1})),
            422,
            "invalid_request",
            "contact.properties",
        )
        .await;
    intake.refuse(&with(full(), "/a\u{0}", json!(1)), 422, "invalid_request", "").await;
    intake.refuse(&with(full(), "/brand", json!("acme\u{0}")), 403, "foreign_brand", "brand").await;
}

#[tokio::test]
async fn no_answer_repeats_an_address_or_a_property() {
    let intake = Intaking::new().await;
    let secret = "very-personal";
    for path in [
        "/contact/email",
        "/contact/key",
        "/desired_state",
        "/lane",
        "/product",
        "/consent/legal_basis",
        "/consent/given_at",
    ] {
        let answer = intake.accept("k", &with(full(), path, json!(format!("{secret} {secret}")))).await;
        assert_eq!(answer.status.as_u16(), 422, "{path}");
        assert!(!answer.body.to_string().contains(secret), "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn an_erased_contact_is_not_written_to_again() {
    let intake = Intaking::new().await;
    intake.accept("before", &full()).await.expect_accepted();
    let erase = "update hubferry.contacts set erased_at = now(), properties = '{}'";
    intake.setting.application().await.batch_execute(erase).await.expect("an update");
    intake.refuse(&full(), 409, "contact_erased", "contact.key").await;
    assert_eq!(intake.accept("before", &full()).await.status.as_u16(), 200, "what was accepted before stays so");
}
