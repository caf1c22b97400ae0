//! Problem details (RFC 9457): what is wrong, where, and what to do.

use axum::Json;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::adapters::db::{AcceptFault, DbFailure};

/// Seconds after which a caller may try again when the database is away.
const RETRY_AFTER_S: &str = "2";

/// An answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    code: String,
    field: Option<String>,
    detail: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &str, field: Option<&str>, detail: impl Into<String>) -> Self {
        Self { status, code: code.into(), field: field.map(str::to_owned), detail: detail.into() }
    }

    pub(super) fn invalid(code: &str, field: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, Some(field), detail)
    }

    pub(super) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed_json", None, detail)
    }

    pub(super) fn unauthorised() -> Self {
        let detail = "send a token that is known here: `Authorization: Bearer <token>`";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorised", None, detail)
    }

    pub(super) fn foreign_brand(field: Option<&str>, detail: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "foreign_brand", field, detail)
    }

    pub(super) fn not_found(detail: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", None, detail)
    }

    pub(super) fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", None, "this path does not take this method")
    }

    pub(super) fn body(rejection: &BytesRejection, most_bytes: usize) -> Self {
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                let detail = format!("the body is larger than {most_bytes} bytes");
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", None, detail)
            }
            _ => Self::new(StatusCode::BAD_REQUEST, "unreadable_body", None, "the body could not be read to its end"),
        }
    }

    /// The database is away, or did not answer in time. The caller can't tell whether the request was accepted: the same
    /// idempotency key makes the repeat safe.
    pub(super) fn database(failure: &DbFailure) -> Self {
        tracing::error!(error = %failure, "A request could not be answered for want of the database.");
        Self::unavailable()
    }

    pub(super) fn unavailable() -> Self {
        let detail = "the database can't be reached; send the same request again with the same Idempotency-Key";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", None, detail)
    }

    pub(super) fn fault(fault: &AcceptFault) -> Self {
        let status = match fault.code.as_str() {
            "idempotency_conflict" | "contact_erased" => StatusCode::CONFLICT,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, &fault.code, Some(&fault.field), format!("{} {}", fault.field, fault.detail).trim())
    }

    pub(super) fn to_json(&self) -> Value {
        let mut body = json!({
            "type": format!("urn:hubferry:problem:{}", self.code),
            "title": self.status.canonical_reason().unwrap_or("Problem"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        if let Some(field) = &self.field {
            body["field"] = json!(field);
        }
        body
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.to_json())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
            }
            _ => {}
        }
        response
    }
}
