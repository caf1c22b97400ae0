//! Events as AWS writes them, with data of our own.

use axum::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hubferry::model::hubspot_signature::sign_v3;
use serde_json::{Value, json};

use super::{WEBHOOK_SECRET, WEBHOOK_URL};

/// What API Gateway makes of a request with this body.
pub(super) fn request(method: &Method, path: &str, headers: &[(&str, &str)], body: &str) -> Value {
    let mut event: Value = serde_json::from_str(include_str!("fixtures/api-gateway.json")).unwrap();
    event["rawPath"] = json!(path);
    event["requestContext"]["http"]["path"] = json!(path);
    event["requestContext"]["http"]["method"] = json!(method.as_str());
    for (name, value) in headers {
        event["headers"][*name] = json!(value);
    }
    event["headers"]["content-length"] = json!(body.len().to_string());
    event["body"] = json!(body);
    event
}

/// The same, as API Gateway passes on a body whose type it takes for binary.
pub(super) fn in_base64(mut event: Value) -> Value {
    event["body"] = json!(STANDARD.encode(event["body"].as_str().unwrap()));
    event["isBase64Encoded"] = json!(true);
    event
}

/// What API Gateway makes of a delivery that HubSpot signed just now.
pub(super) fn delivery(notifications: &[Value]) -> Value {
    let body = json!(notifications).to_string();
    let timestamp = hubferry::clock::now().as_millisecond().to_string();
    let signature = sign_v3(&WEBHOOK_SECRET.into(), "POST", WEBHOOK_URL, body.as_bytes(), &timestamp);
    let headers = [("x-hubspot-request-timestamp", &*timestamp), ("x-hubspot-signature-v3", &signature)];
    let mut event = request(&Method::POST, "/webhooks/hubspot", &headers, &body);
    event["routeKey"] = json!("POST /webhooks/hubspot");
    event["rawQueryString"] = json!("");
    event
}

/// What EventBridge Scheduler sends.
pub(super) fn tick() -> Value {
    serde_json::from_str(include_str!("fixtures/scheduler.json")).unwrap()
}

/// Three messages of an interactive queue: one to be filled in, one with a forged signature, one that is nothing.
pub(super) fn messages() -> Value {
    serde_json::from_str(include_str!("fixtures/sqs.json")).unwrap()
}
