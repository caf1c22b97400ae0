//! Answers and HubSpot's error bodies.

use std::fmt::Display;

use serde_json::{Map, Value, json};

/// What a handler returns.
pub(crate) type Handled = Result<Answer, ApiError>;

/// An answer before it becomes HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: AnswerBody,
}

/// The three kinds of bodies that HubSpot and the gateways in front of it send.
#[derive(Debug)]
pub(crate) enum AnswerBody {
    Json(Value),
    Text { content_type: &'static str, text: String },
    Empty,
}

impl Answer {
    pub(crate) fn json(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body: AnswerBody::Json(body) }
    }

    pub(crate) fn ok(body: Value) -> Self {
        Self::json(200, body)
    }

    pub(crate) fn text(status: u16, content_type: &'static str, text: impl Into<String>) -> Self {
        let body = AnswerBody::Text { content_type, text: text.into() };
        Self { status, headers: Vec::new(), body }
    }

    pub(crate) fn html(status: u16, text: impl Into<String>) -> Self {
        Self::text(status, "text/html; charset=utf-8", text)
    }

    pub(crate) fn no_content() -> Self {
        Self { status: 204, headers: Vec::new(), body: AnswerBody::Empty }
    }

    pub(crate) fn header(&mut self, name: &str, value: impl Display) {
        self.headers.push((name.to_owned(), value.to_string()));
    }

    /// Puts the correlation id into the header and, for an error, into the body: they name the same call.
    pub(crate) fn correlate(&mut self, id: &str) {
        self.header("X-HubSpot-Correlation-Id", id);
        if let AnswerBody::Json(Value::Object(body)) = &mut self.body
            && body.get("status").is_some_and(|status| status == "error")
        {
            body.entry("correlationId").or_insert_with(|| id.into());
        }
    }
}

/// HubSpot's error object. Shape: error handling guide, and the `Error` schema of the public specifications.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    body: Map<String, Value>,
}

impl ApiError {
    pub(crate) fn new(status: u16, category: &str, message: impl Into<String>) -> Self {
        let mut body = Map::new();
        body.insert("status".to_owned(), "error".into());
        body.insert("message".to_owned(), message.into().into());
        body.insert("category".to_owned(), category.into());
        Self { status, body }
    }

    /// 400 with category `VALIDATION_ERROR`.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "VALIDATION_ERROR", message)
    }

    /// 404 with category `OBJECT_NOT_FOUND`.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(404, "OBJECT_NOT_FOUND", message)
    }

    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.body.insert(field.to_owned(), value.into());
        self
    }

    /// Adds to `context`, whose values are always lists of strings.
    pub(crate) fn context<T: Display>(mut self, key: &str, values: impl IntoIterator<Item = T>) -> Self {
        let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
        let context = self.body.entry("context").or_insert_with(|| json!({}));
        context[key] = json!(values);
        self
    }

    /// The same error as one entry of a batch answer's `errors`.
    pub(crate) fn into_row(self) -> Value {
        Value::Object(self.body)
    }
}

impl From<ApiError> for Answer {
    fn from(error: ApiError) -> Self {
        Self::json(error.status, Value::Object(error.body))
    }
}
