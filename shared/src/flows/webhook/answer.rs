//! What HubSpot is answered.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::adapters::db::StoredDelivery;
use crate::model::hubspot_signature::SignatureError;
use crate::model::notification::UnreadableBody;

use super::MOST_BYTES;

/// Seconds after which a caller may try again. HubSpot has its own mind about that.
const RETRY_AFTER_S: &str = "30";

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is stored.
    Stored {
        /// Under this id.
        delivery_id: Uuid,
        /// What became of its notifications.
        stored: StoredDelivery,
        /// Why nothing of it could be read.
        unreadable: Option<UnreadableBody>,
    },
    /// Genuine, and without a notification.
    Empty,
    /// The signature is not genuine. Nothing was stored.
    Refused(SignatureError),
    /// The body is too large. Nothing was stored.
    TooLarge,
    /// There is no such path.
    NotFound,
    /// Webhooks are posted.
    MethodNotAllowed,
    /// It could not be stored, or not be checked: the same again later.
    Unavailable,
}

impl Answer {
    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Stored { .. } | Self::Empty => StatusCode::OK,
            Self::Refused(_) => StatusCode::UNAUTHORIZED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Of a body that did not come whole.
    pub(super) fn unread(status: StatusCode) -> Self {
        if status == StatusCode::PAYLOAD_TOO_LARGE { Self::TooLarge } else { Self::Unavailable }
    }

    /// The body: counts, or problem details (RFC 9457). What is wrong with a signature stands in the log only.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Stored { delivery_id, stored, .. } => json!({
                "delivery_id": delivery_id,
                "received": stored.received,
                "quarantined": stored.quarantined,
                "repeated": stored.repeated,
            }),
            Self::Empty => json!({"received": 0, "quarantined": 0, "repeated": 0}),
            Self::Refused(_) => self.problem("bad_signature", "the signature is not HubSpot's for this address"),
            Self::TooLarge => self.problem("body_too_large", &format!("the body is larger than {MOST_BYTES} bytes")),
            Self::NotFound => self.problem("not_found", "there is no such path"),
            Self::MethodNotAllowed => self.problem("method_not_allowed", "webhooks are posted"),
            Self::Unavailable => self.problem("unavailable", "it could not be stored; send the same again later"),
        }
    }

    fn problem(&self, code: &str, detail: &str) -> Value {
        let status = self.status();
        json!({
            "type": format!("urn:hubferry:problem:{code}"),
            "title": status.canonical_reason().unwrap_or("Problem"),
            "status": status.as_u16(),
            "code": code,
            "detail": detail,
        })
    }

    /// Names and values of the headers.
    pub fn headers(&self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Stored { .. } | Self::Empty => vec![("content-type", "application/json")],
            Self::MethodNotAllowed => vec![("content-type", "application/problem+json"), ("allow", "POST")],
            Self::Unavailable => vec![("content-type", "application/problem+json"), ("retry-after", RETRY_AFTER_S)],
            Self::Refused(_) | Self::TooLarge | Self::NotFound => vec![("content-type", "application/problem+json")],
        }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = (self.status(), Json(self.to_json())).into_response();
        for (name, value) in self.headers() {
            response.headers_mut().insert(header::HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        response
    }
}
