//! HubSpot's error object, read leniently: every field is optional, a field of another type than expected is ignored.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::Named;

/// Longest word (category, code, property name) that is taken over from an answer, in bytes. HubSpot's own internal
/// property names end at 100; anything longer is not a name.
const WORD_LIMIT: usize = 128;

/// An error of HubSpot: of a whole call, or one element of a batch answer's `errors`.
///
/// HubSpot's sentence repeats addresses and values. Only its prose is kept, and that stays private.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ErrorBody {
    category: Option<String>,
    sub_category: Option<String>,
    policy_name: Option<String>,
    correlation_id: Option<String>,
    faults: Vec<PropertyFault>,
    named: Named,
    prose: String,
}

/// One thing that is wrong with a property value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertyFault {
    /// HubSpot's code in capitals, such as `INVALID_EMAIL`.
    pub code: String,
    /// Internal name of the property.
    pub property: Option<String>,
}

impl ErrorBody {
    /// Reads a body; `None` when it is not one complete JSON object.
    #[must_use]
    pub fn parse(body: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(body).ok()?;
        value.as_object().map(Self::from_object)
    }

    /// Reads an error object.
    #[must_use]
    pub fn from_object(object: &Map<String, Value>) -> Self {
        let message = text(object, "message").unwrap_or_default();
        let details = objects(object.get("errors"));
        let mut faults = embedded_faults(message);
        faults.extend(details.iter().filter_map(|detail| detail_fault(detail)));
        let mut body = Self {
            category: word(object.get("category")).or_else(|| word(object.get("errorType"))),
            sub_category: sub_category(object.get("subCategory")),
            policy_name: word(object.get("policyName")),
            correlation_id: word(object.get("correlationId")),
            faults,
            named: Named::default(),
            prose: prose(message),
        };
        body.named = names(object, &details, &body.faults, message);
        body
    }

    /// `VALIDATION_ERROR`, `CONFLICT` and so on.
    #[must_use]
    pub fn category(&self) -> Option<&str> {
        self.category.as_deref()
    }

    /// The last part of the sub-category, such as `INVALID_OBJECT_TYPE_FOR_LIST`.
    #[must_use]
    pub fn sub_category(&self) -> Option<&str> {
        self.sub_category.as_deref().map(|whole| whole.rsplit('.').next().unwrap_or(whole))
    }

    /// The limit that a 429 names, such as `TEN_SECONDLY_ROLLING`.
    #[must_use]
    pub fn policy_name(&self) -> Option<&str> {
        self.policy_name.as_deref()
    }

    /// HubSpot's id of the call.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&str> {
        self.correlation_id.as_deref()
    }

    /// What is wrong with which property, from the list inside the message and from `errors`.
    #[must_use]
    pub fn faults(&self) -> &[PropertyFault] {
        &self.faults
    }

    /// The rows and the property that it names.
    #[must_use]
    pub fn named(&self) -> Named {
        self.named.clone()
    }

    /// The record that is in the way. HubSpot tells it in a sentence only: "Existing ID: 123".
    #[must_use]
    pub fn existing_id(&self) -> Option<String> {
        let (_, rest) = self.prose.split_once("existing id:")?;
        let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
        (!digits.is_empty()).then_some(digits)
    }

    /// Whether an id comes back with percent escapes or a query in it: then the path was encoded wrongly.
    #[must_use]
    pub fn echoes_encoded_id(&self) -> bool {
        self.named.ids.iter().any(|id| id.contains('%') || id.contains('?'))
    }

    /// The sentence in lower case without what people typed, for the few facts that HubSpot tells in prose only.
    pub(super) fn prose(&self) -> &str {
        &self.prose
    }
}

impl fmt::Debug for ErrorBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ErrorBody")
            .field("category", &self.category)
            .field("sub_category", &self.sub_category)
            .field("policy_name", &self.policy_name)
            .field("faults", &self.faults)
            .field("named", &self.named)
            .finish_non_exhaustive()
    }
}

/// "Property values were not valid: [{…}]": a JSON list inside the sentence.
fn embedded_faults(message: &str) -> Vec<PropertyFault> {
    let Some(start) = message.find("[{") else {
        return Vec::new();
    };
    let list = serde_json::Deserializer::from_str(&message[start..]).into_iter::<Value>().next();
    let Some(Ok(list)) = list else {
        return Vec::new();
    };
    objects(Some(&list))
        .into_iter()
        .filter_map(|entry| {
            Some(PropertyFault { code: word(entry.get("error"))?, property: property_name(entry.get("name")) })
        })
        .collect()
}

fn detail_fault(detail: &Map<String, Value>) -> Option<PropertyFault> {
    let code = word(detail.get("code")).or_else(|| sub_category(detail.get("subCategory")))?;
    let context = detail.get("context").and_then(Value::as_object);
    let property = context.and_then(|context| strings(context.get("propertyName")).into_iter().next());
    let property = property.and_then(|name| property_name(Some(&Value::String(name))));
    Some(PropertyFault { code, property: property.or_else(|| property_name(detail.get("in"))) })
}

fn names(
    object: &Map<String, Value>,
    details: &[&Map<String, Value>],
    faults: &[PropertyFault],
    message: &str,
) -> Named {
    let properties = faults.iter().filter_map(|fault| fault.property.clone());
    let mut named = Named { property: properties.clone().next(), properties: properties.collect(), ..Named::default() };
    named.ids.extend(strings(object.get("id")).into_iter().map(|id| id.to_lowercase()));
    let contexts = std::iter::once(object).chain(details.iter().copied());
    for context in contexts.filter_map(|holder| holder.get("context")?.as_object()) {
        read_context(context, &mut named);
    }
    if !named.names_rows() {
        named.ids.extend(addresses(message));
    }
    named
}

fn read_context(context: &Map<String, Value>, named: &mut Named) {
    for (key, value) in context {
        match key.as_str() {
            "objectWriteTraceId" => named.trace_ids.extend(strings(Some(value))),
            "id"
            | "ids"
            | "objectId"
            | "objectIds"
            | "email"
            | "emails"
            | "subscriberIdString"
            | "subscriberIdStrings" => named.ids.extend(strings(Some(value)).into_iter().map(|id| id.to_lowercase())),
            "subscriptionId" => {
                let id = strings(Some(value)).into_iter().next().and_then(|id| id.parse().ok());
                named.subscription_id = named.subscription_id.or(id);
            }
            "propertyName" if named.property.is_none() => {
                let name = strings(Some(value)).into_iter().next();
                named.property = name.and_then(|name| property_name(Some(&Value::String(name))));
                named.properties.extend(named.property.clone());
            }
            _ => {}
        }
    }
}

/// A sentence without the list of values, without what stands in quotes, and without addresses: somebody may be called
/// "already exists", and their address may begin with `unsubscribed`.
fn prose(message: &str) -> String {
    let before_list = message.split("[{").next().unwrap_or_default();
    let unquoted: Vec<&str> = before_list.split('"').step_by(2).collect();
    let words: Vec<&str> =
        unquoted.iter().flat_map(|part| part.split_whitespace()).filter(|word| !word.contains('@')).collect();
    words.join(" ").to_lowercase()
}

/// The e-mail addresses of a sentence, in lower case. They only ever serve to find rows of the batch.
fn addresses(message: &str) -> BTreeSet<String> {
    message
        .split(|c: char| c.is_whitespace() || "\"'`<>()[]{},;:".contains(c))
        .map(|token| token.trim_end_matches('.'))
        .filter(|token| token.len() > 2 && token.contains('@'))
        .map(str::to_lowercase)
        .collect()
}

fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

fn objects(value: Option<&Value>) -> Vec<&Map<String, Value>> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object).collect()
}

/// A string, a number, or a list of them.
fn strings(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Number(number)) => vec![number.to_string()],
        Some(Value::Array(list)) => list.iter().flat_map(|element| strings(Some(element))).collect(),
        _ => Vec::new(),
    }
}

/// A sub-category is a string, or an object that holds it under `name` or `subCategory`.
fn sub_category(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::Object(object) => word(object.get("name")).or_else(|| word(object.get("subCategory"))),
        other => word(Some(other)),
    }
}

/// A machine's word: letters, digits, `_`, `-` and `.` only. Addresses and sentences are no words.
fn word(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?;
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    (plain && !text.is_empty() && text.len() <= WORD_LIMIT).then(|| text.to_owned())
}

/// An internal property name: lower case, digits and `_`.
fn property_name(value: Option<&Value>) -> Option<String> {
    word(value).filter(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn error(value: &Value) -> ErrorBody {
        ErrorBody::from_object(value.as_object().unwrap())
    }

    #[test]
    fn the_list_inside_the_sentence_tells_code_and_property() {
        let body = error(&json!({"category": "VALIDATION_ERROR", "message":
            "Property values were not valid: [{\"isValid\":false,\"message\":\"Email address kim@bad.example.test is invalid\",\
             \"error\":\"INVALID_EMAIL\",\"name\":\"email\"}] and more"}));
        let fault = PropertyFault { code: "INVALID_EMAIL".to_owned(), property: Some("email".to_owned()) };
        assert_eq!(body.faults(), [fault]);
        assert_eq!(body.named().property.as_deref(), Some("email"));
        assert!(body.named().ids.contains("kim@bad.example.test"));
    }

    #[test]
    fn a_list_that_is_cut_off_or_no_list_is_no_fault() {
        for message in ["not valid: [{\"error\":\"INVALID_EMAIL\"", "not valid: [{nonsense}]", "[{", ""] {
            assert!(error(&json!({"message": message})).faults().is_empty(), "{message}");
        }
    }

    #[test]
    fn an_existing_id_is_read_from_the_sentence() {
        let id = |message: &str| error(&json!({"message": message})).existing_id();
        assert_eq!(id("Contact already exists. Existing ID: 37765128953").as_deref(), Some("37765128953"));
        assert_eq!(id("contact already exists. existing id:6001.").as_deref(), Some("6001"));
        assert_eq!(id("Contact already exists."), None);
        assert_eq!(id("Existing ID: none"), None);
    }

    #[test]
    fn a_sub_category_is_a_string_or_an_object() {
        let of = |value: Value| error(&json!({"subCategory": value})).sub_category().map(str::to_owned);
        assert_eq!(
            of(json!("ListError.INVALID_OBJECT_TYPE_FOR_LIST")).as_deref(),
            Some("INVALID_OBJECT_TYPE_FOR_LIST")
        );
        assert_eq!(of(json!({"name": "INVALID"})).as_deref(), Some("INVALID"));
        assert_eq!(of(json!(7)), None);
    }

    #[test]
    fn every_field_may_be_missing_or_of_another_type() {
        for body in [
            json!({}),
            json!({"category": 1, "context": "x", "errors": {"a": 1}, "message": [1], "id": null}),
            json!({"errors": [1, "x", {"context": "{missingScopes=[a]}", "code": null}]}),
        ] {
            assert!(!error(&body).named().names_rows());
        }
        for text in ["", "null", "[]", "\"x\"", "{\"status\":\"error\",\"message\":\"Property values were not va"] {
            assert!(ErrorBody::parse(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn ids_come_from_every_context_in_lower_case() {
        let named = error(&json!({"id": 5, "context": {"ids": ["Ann@Example.test", 12], "objectWriteTraceId": ["e2"]},
                                  "errors": [{"context": {"subscriberIdString": ["B@example.test"], "subscriptionId": ["777"],
                                                          "propertyName": ["city"]}}]}))
        .named();
        assert_eq!(
            named.ids.iter().map(String::as_str).collect::<Vec<_>>(),
            ["12", "5", "ann@example.test", "b@example.test"]
        );
        assert_eq!(named.trace_ids.iter().map(String::as_str).collect::<Vec<_>>(), ["e2"]);
        assert_eq!((named.subscription_id, named.property.as_deref()), (Some(777), Some("city")));
    }

    proptest::proptest! {
        #[test]
        fn no_sentence_is_too_strange_to_be_read(message in ".*", id in ".*") {
            let body = error(&json!({"message": message, "context": {"ids": [id]}, "errors": [{"message": message}]}));
            let _ = (body.existing_id(), body.echoes_encoded_id(), format!("{body:?}"));
        }
    }

    #[test]
    fn what_people_typed_is_no_prose() {
        let of = |message: &str| error(&json!({"message": message})).prose().to_owned();
        assert_eq!(of("Email address unsubscribed@example.test is invalid"), "email address is invalid");
        assert_eq!(of("\"already exists\" was not one of the options"), "was not one of the options");
        assert_eq!(of("Values were not valid: [{\"message\":\"dynamic list\"}]"), "values were not valid:");
    }

    #[test]
    fn neither_addresses_nor_sentences_pass_as_words() {
        let body =
            error(&json!({"category": "kim@example.test", "subCategory": "has a space", "policyName": "x".repeat(200),
                                 "errors": [{"code": "KIM@EXAMPLE.TEST"}]}));
        assert_eq!((body.category(), body.sub_category(), body.policy_name()), (None, None, None));
        assert!(body.faults().is_empty());
    }
}
