//! An answer that is not a success, in words that are safe to store.

use std::time::Duration;

use super::classify::{is_configuration, transport_class};
use super::{
    AnswerFacts, Class, ErrorBody, LimitPolicy, Named, Operation, TransportFailure, classify, classify_row, code,
};

/// Why a call or a row was refused. `code` and `summary` never hold personal data: they are made of words of this project,
/// of HubSpot's categories and of internal property names, never of HubSpot's sentences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of answer it was.
    pub class: Class,
    /// The HTTP status, when the refusal is that of a whole call and a status line arrived.
    pub status: Option<u16>,
    /// Stable and in snake case, such as `invalid_email`, `property_doesnt_exist` or `timeout`.
    pub code: String,
    /// A sentence for a person.
    pub summary: String,
    /// The rows and the property it names. Boxed, since most answers have no refusal and all have room for one.
    pub named: Box<Named>,
    /// The record that is in the way, when HubSpot says which.
    pub existing_id: Option<String>,
    /// How long HubSpot asks to wait, floored and capped.
    pub retry_after: Option<Duration>,
    /// Which limit, for a 429.
    pub policy: Option<LimitPolicy>,
}

impl Refusal {
    /// The refusal of a whole call.
    #[must_use]
    pub fn of_call(facts: &AnswerFacts<'_>, retry_after: Option<Duration>) -> Self {
        let class = classify(facts);
        let code = code::of_call(facts, class);
        Self::build(class, code, facts.status, facts.error, retry_after)
    }

    /// The refusal of one row, told by an element of a batch answer's `errors`.
    #[must_use]
    pub fn of_row(error: &ErrorBody, operation: Operation) -> Self {
        let class = classify_row(error, operation);
        let code = code::of_row(error, operation, class);
        Self::build(class, code, None, Some(error), None)
    }

    /// A call that was not made, because of what the caller passed.
    #[must_use]
    pub fn unmade(class: Class, code: &str, summary: &str) -> Self {
        Self { summary: summary.to_owned(), ..Self::build(class, code.to_owned(), None, None, None) }
    }

    /// A success whose body cannot be read: what HubSpot did is unknown.
    #[must_use]
    pub fn unreadable(status: u16, code: &str) -> Self {
        Self::build(Class::Temporary, code.to_owned(), Some(status), None, None)
    }

    /// The refusal of a whole batch, once it is known that each of its rows has the same cause.
    #[must_use]
    pub fn of_each_row(&self) -> Self {
        let is_mapping = is_configuration(&self.code.to_ascii_uppercase());
        let class = if is_mapping { Class::Configuration } else { Class::RowInvalid };
        let summary = self.summary.replacen(self.class.name(), class.name(), 1);
        Self { class, summary, ..self.clone() }
    }

    /// A row that a well-formed answer silently leaves out, as `batch/update` does with a record that was merged away.
    #[must_use]
    pub fn silently_omitted() -> Self {
        Self::build(Class::Gone, "silently_omitted".to_owned(), None, None, None)
    }

    fn build(
        class: Class,
        code: String,
        status: Option<u16>,
        error: Option<&ErrorBody>,
        retry_after: Option<Duration>,
    ) -> Self {
        let named = Box::new(error.map(ErrorBody::named).unwrap_or_default());
        let summary = summary(class, &code, status, error, named.property.as_deref());
        Self {
            class,
            status,
            summary,
            code,
            named,
            existing_id: error.and_then(ErrorBody::existing_id),
            retry_after,
            policy: policy_of(class),
        }
    }
}

impl From<TransportFailure> for Refusal {
    /// A failure below HTTP, whatever the call was for.
    fn from(failure: TransportFailure) -> Self {
        let class = transport_class(failure);
        Self::build(class, failure.code().to_owned(), None, None, None)
    }
}

fn policy_of(class: Class) -> Option<LimitPolicy> {
    match class {
        Class::RateLimited(policy) => Some(policy),
        _ => None,
    }
}

/// Class, code and what is known of the call, such as `row_invalid: invalid_email (HTTP 400, VALIDATION_ERROR)`.
fn summary(class: Class, code: &str, status: Option<u16>, error: Option<&ErrorBody>, property: Option<&str>) -> String {
    let details: Vec<String> = [
        status.map(|status| format!("HTTP {status}")),
        error.and_then(|error| error.category().map(str::to_owned)),
        property.map(|name| format!("property `{name}`")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if details.is_empty() { format!("{class}: {code}") } else { format!("{class}: {code} ({})", details.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::super::{Content, Intent};
    use super::*;
    use serde_json::{Value, json};

    fn of_call(status: u16, rows: usize, body: &Value) -> Refusal {
        let error = ErrorBody::from_object(body.as_object().unwrap());
        let facts = AnswerFacts {
            status: Some(status),
            transport: None,
            content: Content::Json,
            error: Some(&error),
            intent: Intent { operation: Operation::WriteStatuses, rows },
        };
        Refusal::of_call(&facts, None)
    }

    #[test]
    fn neither_summary_nor_debug_holds_personal_data() {
        let body = json!({
            "category": "VALIDATION_ERROR",
            "message": "Property values were not valid: [{\"message\":\"kim@bad.example.test and 0612345678\",\
                        \"error\":\"INVALID_EMAIL\",\"name\":\"email\"}]",
            "context": {"ids": ["Kim@example.test"], "email": ["kim2@example.test"]},
        });
        let refusal = of_call(400, 1, &body);
        assert_eq!(refusal.summary, "row_invalid: invalid_email (HTTP 400, VALIDATION_ERROR, property `email`)");
        let shown = format!("{refusal:?} {} {:?}", refusal.summary, ErrorBody::from_object(body.as_object().unwrap()));
        assert!(!shown.to_lowercase().contains("kim") && !shown.contains("0612345678"), "{shown}");
        assert!(refusal.named.ids.contains("kim@example.test"));
    }

    #[test]
    fn codes_are_stable_words() {
        let code = |status, body: Value| of_call(status, 1, &body).code;
        assert_eq!(code(400, json!({"message": "they have unsubscribed"})), "opted_out");
        assert_eq!(code(429, json!({"policyName": "DAILY"})), "rate_limited_daily");
        assert_eq!(code(403, json!({"category": "MISSING_SCOPES"})), "missing_scopes");
        assert_eq!(code(423, json!({"category": "LOCKED"})), "locked");
        assert_eq!(code(400, json!({"errors": [{"code": "MISSING_REQUIRED_PROPERTY"}]})), "missing_required_property");
        assert_eq!(code(500, json!({})), "http_500");
        assert_eq!(Refusal::from(TransportFailure::Timeout).code, "timeout");
    }

    #[test]
    fn the_record_that_is_in_the_way_is_told() {
        let refusal = of_call(409, 1, &json!({"message": "Contact already exists. Existing ID: 6001"}));
        assert_eq!((refusal.class, refusal.existing_id.as_deref()), (Class::Conflict, Some("6001")));
    }
}
