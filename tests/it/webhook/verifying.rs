//! Who is believed.

use axum::body::Body;
use axum::http::{HeaderValue, Request};
use hubferry::flows::webhook::{LOCAL_PATH, SecretSource, Webhook};
use hubferry::model::hubspot_signature::{OldSignatures, WebhookApp, sign_v3};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Hooks, PORTAL, SECRET, URL, app, change, now, send, settings, signed};

/// The instant of requests that are played with a clock of their own.
const AT: &str = "1790000001000";
const NOW_MS: i64 = 1_790_000_002_000;

/// What API Gateway hands a function, signed over this address with the timestamp of the header.
fn event(path: &str, query: &str, signed_url: &str, body: &str) -> Value {
    json!({
        "version": "2.0", "rawPath": path, "rawQueryString": query,
        "headers": {
            "content-type": "application/json", "x-hubspot-request-timestamp": AT,
            "x-hubspot-signature-v3": sign_v3(&SECRET.into(), "POST", signed_url, body.as_bytes(), AT),
        },
        "requestContext": {"http": {"method": "POST", "path": path}, "stage": "$default"},
        "body": body, "isBase64Encoded": false,
    })
}

fn one_change() -> String {
    json!([change(json!({}))]).to_string()
}

/// The status of the response to an event.
async fn status(webhook: &Webhook, event: &Value) -> u64 {
    let response = webhook.handle(event, Timestamp::from_millisecond(NOW_MS).expect("an instant")).await;
    let body: Value = serde_json::from_str(response["body"].as_str().expect("a body")).expect("JSON");
    assert!(response["headers"]["content-type"].as_str().expect("a type").ends_with("json"), "{body}");
    response["statusCode"].as_u64().expect("a status")
}

#[tokio::test]
async fn a_delivery_without_a_genuine_signature_is_refused_and_leaves_nothing() {
    let hooks = Hooks::new().await;
    let body = one_change();
    let unsigned = Request::post(LOCAL_PATH).body(Body::from(body.clone())).expect("a request");
    let mut tampered = signed(SECRET, body.as_bytes(), now());
    *tampered.body_mut() = Body::from(body.replace("Utrecht", "Nijmegen"));
    let foreign = signed("a-secret-that-is-not-the-app-s-own", body.as_bytes(), now());
    for request in [unsigned, tampered, foreign] {
        let answer = send(&hooks.router, request).await;
        answer.expect_problem(401, "bad_signature");
        assert!(!answer.body.to_string().contains(SECRET));
    }
    assert_eq!(hooks.rows().await, (0, 0, 0));
    assert_eq!(send(&hooks.router, signed(SECRET, body.as_bytes(), now())).await.status, 200);
    assert_eq!(hooks.rows().await, (1, 1, 1));
}

#[tokio::test]
async fn only_twelve_escapes_of_the_query_are_decoded() {
    let hooks = Hooks::new().await;
    let query = "src=hs%3Aapp%2Fv1&tag=%28blue%29&sp=a%20b&x=%252F&q='&e=";
    let signed_over = format!("{URL}?src=hs:app/v1&tag=(blue)&sp=a%20b&x=%252F&q='&e=");
    let genuine = event("/hubspot/webhooks", query, &signed_over, &one_change());
    assert_eq!(status(&hooks.webhook, &genuine).await, 200);
    // Over the address as it came, decoded all the way, or without its query.
    let wholly = format!("{URL}?src=hs:app/v1&tag=(blue)&sp=a b&x=%2F&q='&e=");
    for other in [&wholly, URL] {
        let mac_over = event("/hubspot/webhooks", query, other, &one_change());
        assert_eq!(status(&hooks.webhook, &mac_over).await, 401, "{other}");
    }
}

#[tokio::test]
async fn the_configured_address_counts_whatever_path_a_stage_or_a_slash_makes_of_it() {
    let hooks = Hooks::new().await;
    for path in ["/hubspot/webhooks", "/prod/hubspot/webhooks", "/hubspot/webhooks/"] {
        assert_eq!(status(&hooks.webhook, &event(path, "", URL, &one_change())).await, 200, "{path}");
        let over_slash = event(path, "", &format!("{URL}/"), &one_change());
        assert_eq!(status(&hooks.webhook, &over_slash).await, 401, "{path}");
    }
    for path in ["/", "/webhooks", "/nothubspot/webhooks", "/hubspot/webhooks/more", ""] {
        assert_eq!(status(&hooks.webhook, &event(path, "", URL, &one_change())).await, 404, "{path}");
    }
    let mut get = event("/hubspot/webhooks", "", URL, &one_change());
    get["requestContext"]["http"]["method"] = json!("GET");
    assert_eq!(status(&hooks.webhook, &get).await, 405);
}

#[tokio::test]
async fn a_timestamp_is_taken_by_its_text_and_only_as_thirteen_digits() {
    let hooks = Hooks::new().await;
    let body = one_change();
    for (timestamp, expected) in [
        (AT, 200),
        ("1790000001000.0", 401),
        (" 1790000001000", 401),
        ("+1790000001000", 401),
        ("abc", 401),
        ("", 401),
        ("1790000001", 401),
        ("99999999999999999999", 401),
        ("1789999642000", 401),
        ("1790000063000", 401),
    ] {
        let mut event = event("/hubspot/webhooks", "", URL, &body);
        event["headers"]["x-hubspot-request-timestamp"] = json!(timestamp);
        event["headers"]["x-hubspot-signature-v3"] =
            json!(sign_v3(&SECRET.into(), "POST", URL, body.as_bytes(), timestamp));
        assert_eq!(status(&hooks.webhook, &event).await, expected, "{timestamp:?}");
    }
}

#[tokio::test]
async fn the_bytes_of_the_body_count_also_when_the_gateway_encoded_them() {
    use base64::Engine as _;
    let hooks = Hooks::new().await;
    let body = json!([change(json!({"propertyValue": "Zoë 🦊 naïve — İstanbul"}))]).to_string();
    let plain = event("/hubspot/webhooks", "", URL, &body);
    let mut encoded = plain.clone();
    encoded["body"] = json!(base64::engine::general_purpose::STANDARD.encode(&body));
    encoded["isBase64Encoded"] = json!(true);
    assert_eq!(status(&hooks.webhook, &encoded).await, 200);
    assert_eq!(status(&hooks.webhook, &plain).await, 200);
    assert_eq!(hooks.count("webhook_events where property_value = 'Zoë 🦊 naïve — İstanbul'").await, 1);

    let mut escaped = plain;
    escaped["body"] = json!(body.replace('ë', "\\u00eb"));
    assert_eq!(status(&hooks.webhook, &escaped).await, 401);
    encoded["body"] = json!("no base64 %%%");
    assert_eq!(status(&hooks.webhook, &encoded).await, 503);
}

#[tokio::test]
async fn signature_headers_that_are_missing_bent_or_doubled_are_refused() {
    let hooks = Hooks::new().await;
    let body = one_change();
    let genuine = event("/hubspot/webhooks", "", URL, &body);
    let good = genuine["headers"]["x-hubspot-signature-v3"].as_str().expect("a signature").to_owned();
    let joined = format!("{good}, AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    let bent = [
        Value::Null,
        json!(""),
        json!("abc"),
        json!("%%%"),
        json!("eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eA=="),
        json!(joined),
    ];
    for value in bent {
        let mut event = genuine.clone();
        event["headers"]["x-hubspot-signature-v3"] = value.clone();
        assert_eq!(status(&hooks.webhook, &event).await, 401, "{value}");
    }
    let mut elsewhere = genuine.clone();
    let timestamp = elsewhere["headers"]["x-hubspot-request-timestamp"].take();
    elsewhere["headers"]["x-hubspot-signature-timestamp"] = timestamp;
    assert_eq!(status(&hooks.webhook, &elsewhere).await, 401);

    let mut listed = genuine.clone();
    let headers = listed["headers"].as_object().expect("headers").clone();
    let lists: Value = headers.iter().map(|(name, value)| (name.clone(), json!([value]))).collect();
    listed["multiValueHeaders"] = lists;
    assert_eq!(status(&hooks.webhook, &listed).await, 200);
    listed["multiValueHeaders"]["x-hubspot-signature-v3"] = json!([good, good]);
    assert_eq!(status(&hooks.webhook, &listed).await, 401);

    let mut upper = genuine;
    let value = upper["headers"]["x-hubspot-signature-v3"].take();
    upper["headers"]["X-HubSpot-Signature-V3"] = value;
    assert_eq!(status(&hooks.webhook, &upper).await, 200);
    let mut twice = signed(SECRET, body.as_bytes(), now());
    twice.headers_mut().append("x-hubspot-signature-v3", HeaderValue::from_static("x"));
    send(&hooks.router, twice).await.expect_problem(401, "bad_signature");
}

#[tokio::test]
async fn the_next_secret_is_good_beside_the_current_one_and_shows_in_what_is_stored() {
    let next = "the-secret-that-comes-after-it";
    let hooks = Hooks::with(settings(SecretSource::Environment(vec![app(SECRET, Some(next))]))).await;
    for (secret, event_id) in [(SECRET, 1), (next, 2)] {
        let body = json!([change(json!({"eventId": event_id}))]).to_string();
        assert_eq!(send(&hooks.router, signed(secret, body.as_bytes(), now())).await.status, 200);
    }
    assert_eq!(hooks.count("webhook_deliveries where secret = 'current' and signature_version = 'v3'").await, 1);
    assert_eq!(hooks.count("webhook_deliveries where secret = 'next'").await, 1);
}

#[tokio::test]
async fn secrets_in_a_file_change_without_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("secrets.json");
    let hooks = Hooks::with(settings(SecretSource::File(path.clone()))).await;
    let deliver = async |secret: &str| send(&hooks.router, signed(secret, one_change().as_bytes(), now())).await.status;
    // Nothing to check with is not the caller's fault.
    assert_eq!(deliver(SECRET).await, 503);
    let write = |secret: &str| {
        std::fs::write(&path, json!([{"current": secret}]).to_string()).expect("a file");
    };
    write(SECRET);
    assert_eq!(deliver(SECRET).await, 200);
    let renewed = "the-secret-that-HubSpot-renewed";
    write(renewed);
    // Read again on failure, though not more than once a second.
    let until = tokio::time::Instant::now() + crate::accepting::setting::FAR_TOO_LONG;
    while deliver(renewed).await != 200 {
        assert!(tokio::time::Instant::now() < until, "the new secret is never read");
        tokio::task::yield_now().await;
    }
    assert_eq!(deliver(SECRET).await, 401);
    std::fs::write(&path, "[{]").expect("a file");
    assert_eq!(deliver(renewed).await, 200, "a file that can't be read takes nothing away");
}

#[tokio::test]
async fn an_app_speaks_for_itself_and_for_its_portal_only() {
    let of_portal = WebhookApp { portal_id: Some(PORTAL + 1), ..app("the-secret-of-another-portal", None) };
    let of_app = WebhookApp { app_id: Some(9002), ..app("the-secret-of-another-app", None) };
    let hooks = Hooks::with(settings(SecretSource::Environment(vec![of_portal, of_app, app(SECRET, None)]))).await;
    for (secret, event_id) in [("the-secret-of-another-portal", 1), ("the-secret-of-another-app", 2)] {
        let body = json!([change(json!({"eventId": event_id}))]).to_string();
        assert_eq!(send(&hooks.router, signed(secret, body.as_bytes(), now())).await.counts(), [0, 1, 0]);
    }
    let mut reasons = hooks.reasons().await;
    reasons.sort();
    assert_eq!(reasons, ["foreign_app", "foreign_portal"]);
    assert_eq!(hooks.rows().await.2, 0);
    assert_eq!(hooks.store(&[change(json!({"eventId": 3}))]).await.counts(), [1, 0, 0]);
}

#[tokio::test]
async fn older_signatures_are_refused_unless_they_are_asked_for() {
    // SHA-256 of the secret and the body, as the specification of v1 has it.
    let (secret, body) = (
        "yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy",
        r#"[{"eventId":1,"subscriptionId":12345,"portalId":62515,"occurredAt":1564113600000,"subscriptionType":"contact.creation","attemptNumber":0,"objectId":123,"changeSource":"CRM","changeFlag":"NEW","appId":54321}]"#,
    );
    let request = || {
        let signature = "232db2615f3d666fe21a8ec971ac7b5402d33b9a925784df3ca654d05f4817de";
        let request = Request::post(LOCAL_PATH).header("x-hubspot-signature", signature);
        request.header("x-hubspot-signature-version", "v1").body(Body::from(body)).expect("a request")
    };
    let source = || SecretSource::Environment(vec![app(secret, None)]);
    let hooks = Hooks::with(settings(source())).await;
    send(&hooks.router, request()).await.expect_problem(401, "bad_signature");
    let old_signatures = OldSignatures { v1: true, v2: false };
    let lenient = Webhook::new(
        hooks.setting.db.clone(),
        hubferry::flows::webhook::WebhookSettings { old_signatures, ..settings(source()) },
    );
    assert_eq!(send(&lenient.router(), request()).await.status, 200);
    assert_eq!(hooks.count("webhook_deliveries where signature_version = 'v1'").await, 1);
}

#[tokio::test]
async fn a_delivery_that_was_captured_is_no_good_after_five_minutes() {
    let hooks = Hooks::new().await;
    let body = one_change();
    for (minutes, expected) in [(-6, 401), (-4, 200), (2, 401)] {
        let at = now() + SignedDuration::from_mins(minutes);
        assert_eq!(send(&hooks.router, signed(SECRET, body.as_bytes(), at)).await.status, expected, "{minutes}");
    }
}
