//! Reads HubSpot's JSON leniently: a field of another type than expected is absent, an unknown field is ignored.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::transport::Success;
use crate::model::outcome::{ErrorBody, Refusal};

pub(super) type Object = Map<String, Value>;

/// The answer to a batch, or to a call that answers like one.
pub(super) struct Envelope {
    pub(super) status: u16,
    pub(super) results: Vec<Object>,
    pub(super) errors: Vec<ErrorBody>,
    /// Whether there was a list of results and HubSpot does not say that it is still at work.
    pub(super) complete: bool,
}

impl Envelope {
    /// An absent body gives an envelope that accounts for nothing. JSON that is no object is unreadable.
    pub(super) fn read(success: Success) -> Result<Self, Refusal> {
        let status = success.status;
        let Some(body) = success.body else {
            return Ok(Self { status, results: Vec::new(), errors: Vec::new(), complete: false });
        };
        let Value::Object(mut object) = body else {
            return Err(Refusal::unreadable(status, "unexpected_json"));
        };
        let mut errors: Vec<_> = objects(object.remove("errors")).iter().map(ErrorBody::from_object).collect();
        let has_results = object.get("results").is_some_and(Value::is_array);
        if !has_results && is_error(&object) {
            errors.push(ErrorBody::from_object(&object));
        }
        let working = matches!(text(&object, "status"), Some("PENDING" | "PROCESSING" | "CANCELED"));
        let results = objects(object.remove("results"));
        Ok(Self { status, results, errors, complete: has_results && !working })
    }
}

/// The one object that an answer consists of.
pub(super) fn object(success: Success) -> Result<Object, Refusal> {
    match success.body {
        Some(Value::Object(object)) => Ok(object),
        Some(_) => Err(Refusal::unreadable(success.status, "unexpected_json")),
        None => Err(Refusal::unreadable(success.status, "empty_body")),
    }
}

/// An error object that came with a success's status.
pub(super) fn is_error(object: &Object) -> bool {
    text(object, "status") == Some("error") || (object.contains_key("category") && object.contains_key("message"))
}

pub(super) fn objects(value: Option<Value>) -> Vec<Object> {
    let Some(Value::Array(list)) = value else {
        return Vec::new();
    };
    list.into_iter()
        .filter_map(|element| match element {
            Value::Object(object) => Some(object),
            _ => None,
        })
        .collect()
}

pub(super) fn text<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

/// An id, which comes as a string or as a number.
pub(super) fn id(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

pub(super) fn ids(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(|element| id(Some(element))).collect()
}

pub(super) fn integer(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

pub(super) fn count(value: Option<&Value>) -> Option<u64> {
    integer(value).and_then(|number| u64::try_from(number).ok())
}

/// An instant: ISO 8601, or milliseconds since 1970 as a number or a string.
pub(super) fn instant(value: Option<&Value>) -> Option<Timestamp> {
    match value? {
        Value::String(text) => {
            let text = text.trim();
            text.parse().ok().or_else(|| Timestamp::from_millisecond(text.parse().ok()?).ok())
        }
        other => Timestamp::from_millisecond(integer(Some(other))?).ok(),
    }
}

/// Properties, whose values are strings or null. Numbers and booleans become their text.
pub(super) fn properties(value: Option<&Value>) -> BTreeMap<String, Option<String>> {
    let Some(Value::Object(object)) = value else {
        return BTreeMap::new();
    };
    object.iter().map(|(name, value)| (name.clone(), property_text(value))).collect()
}

fn property_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ids_are_strings_or_numbers_of_any_size() {
        assert_eq!(id(Some(&json!("37765128953"))).as_deref(), Some("37765128953"));
        assert_eq!(id(Some(&json!(9_007_199_254_740_993_u64))).as_deref(), Some("9007199254740993"));
        assert_eq!(id(Some(&json!(null))), None);
        assert_eq!(ids(Some(&json!(["1", 2, null, {"a": 1}]))), ["1", "2"]);
    }

    #[test]
    fn instants_are_iso_or_milliseconds() {
        let expected: Timestamp = "2026-09-21T10:00:00.5Z".parse().unwrap();
        for form in [json!("2026-09-21T10:00:00.500Z"), json!(expected.as_millisecond()), json!("1789984800500")] {
            assert_eq!(instant(Some(&form)), Some(expected), "{form}");
        }
        assert_eq!(instant(Some(&json!("yesterday"))), None);
    }

    #[test]
    fn an_error_object_under_a_success_is_an_error() {
        let body = json!({"status": "error", "message": "no", "category": "VALIDATION_ERROR"});
        let envelope = Envelope::read(Success { status: 200, body: Some(body) }).unwrap();
        assert_eq!((envelope.results.len(), envelope.errors.len(), envelope.complete), (0, 1, false));
    }

    #[test]
    fn fields_of_another_type_are_absent() {
        let body = json!({"results": {"a": 1}, "errors": "none", "status": 5, "numErrors": "x"});
        let envelope = Envelope::read(Success { status: 200, body: Some(body) }).unwrap();
        assert_eq!((envelope.results.len(), envelope.errors.len(), envelope.complete), (0, 0, false));
    }
}
