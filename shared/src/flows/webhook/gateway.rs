//! API Gateway's event (payload 2.0), read as it is.
//!
//! The path and the query of an `http::Request` are rebuilt and normalised on the way, and a body that is no base64 panics
//! before a handler is asked. A signature stands or falls with a byte, so the event's own members are used.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Answer, Received, Webhook};

impl Webhook {
    /// Answers API Gateway's event with API Gateway's response.
    pub async fn handle(&self, event: &Value, now: Timestamp) -> Value {
        let answer = if self.is_path(text(event, "/rawPath")) {
            match body(event) {
                Some(body) => self.receive_event(event, &body, now).await,
                None => Answer::Unavailable,
            }
        } else {
            Answer::NotFound
        };
        response(&answer)
    }

    async fn receive_event(&self, event: &Value, body: &[u8], now: Timestamp) -> Answer {
        let headers = headers(event);
        let method = text(event, "/requestContext/http/method");
        let query = Some(text(event, "/rawQueryString"));
        self.receive(Received { method, query, headers: &headers, body }, now).await
    }

    /// Whether a path is the configured one: perhaps with a stage before it, perhaps with a slash behind it. Which address
    /// was signed is not for the path to say.
    fn is_path(&self, path: &str) -> bool {
        let configured = self.url.splitn(4, '/').nth(3).unwrap_or_default().trim_end_matches('/');
        let path = path.trim_end_matches('/');
        path.strip_suffix(configured).is_some_and(|stage| configured.is_empty() || stage.ends_with('/'))
    }
}

fn text<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The bytes of the body; `None` when they can't be told.
fn body(event: &Value) -> Option<Vec<u8>> {
    let body = text(event, "/body");
    if event["isBase64Encoded"] == true { STANDARD.decode(body).ok() } else { Some(body.as_bytes().to_vec()) }
}

/// Payload 2.0 joins what came twice with a comma, which no signature and no timestamp survives. Payload 1.0 has lists as
/// well, and those are preferred: they hide nothing.
fn headers(event: &Value) -> HeaderMap {
    let lists = event["multiValueHeaders"].as_object();
    let pairs = match lists {
        Some(lists) => lists
            .iter()
            .flat_map(|(name, values)| values.as_array().into_iter().flatten().map(move |value| (name, value)))
            .collect(),
        None => event["headers"].as_object().into_iter().flatten().collect::<Vec<_>>(),
    };
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::try_from(name.as_str());
        let value = value.as_str().and_then(|value| HeaderValue::try_from(value).ok());
        if let (Ok(name), Some(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

fn response(answer: &Answer) -> Value {
    let headers: serde_json::Map<String, Value> =
        answer.headers().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    json!({
        "statusCode": answer.status().as_u16(),
        "headers": headers,
        "body": answer.to_json().to_string(),
        "isBase64Encoded": false,
    })
}
