//! The interface's description, as a judge of what the intake says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use axum::http::{HeaderMap, Method, StatusCode};
use jsonschema::Validator;
use serde_json::Value;

use super::BATCH;

/// docs/openapi.yaml.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    serde_yaml_ng::from_str(include_str!("../../../docs/openapi.yaml")).expect("docs/openapi.yaml is YAML")
});

/// Validators by the text of their schemas, since building one takes longer than using it.
static VALIDATORS: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());

/// Faults that HTTP adds to those of the database's door.
const HTTP_FAULTS: [&str; 8] = [
    "malformed_json",
    "unreadable_body",
    "unauthorised",
    "foreign_brand",
    "not_found",
    "method_not_allowed",
    "body_too_large",
    "unavailable",
];

/// What a request schema can't say: it compares characters before they are made canonical, counts them by code points, and knows
/// no clock.
const BEYOND_SCHEMAS: [&str; 3] = ["contact.email", "contact.properties.foxes", "consent.given_at"];

/// Panics unless the answer is one that the document promises for this operation: status, headers, media type and form.
pub(super) fn check_answer(method: &Method, path: &str, status: StatusCode, headers: &HeaderMap, body: &Value) {
    let Some(operation) = operation(method, path) else {
        let answer = match status {
            StatusCode::NOT_FOUND => "NotFound",
            StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
            other => panic!("{method} {path} is not documented and answers {other}"),
        };
        return check_against(&DOCUMENT["components"]["responses"][answer], headers, body);
    };
    let answer = resolve(&operation["responses"][status.as_str()]);
    assert!(answer.is_object(), "{method} {path} answers {status}, which is not documented: {body}");
    check_against(answer, headers, body);
}

fn check_against(answer: &Value, headers: &HeaderMap, body: &Value) {
    for name in answer["headers"].as_object().into_iter().flatten().map(|(name, _)| name) {
        assert!(headers.contains_key(name), "the documented header {name} is missing beside {body}");
    }
    let media = headers["content-type"].to_str().expect("a readable header");
    let schema = &answer["content"][media]["schema"];
    assert!(schema.is_object(), "{media} is not documented for {body}");
    let faults = faults_of(schema, body);
    assert!(faults.is_empty(), "against its documented schema: {faults:?} in {body}");
}

/// Panics if the schema of the request and the door disagree about it.
pub(super) fn check_agreement(path: &str, request: &Value, fault: Option<(&str, &str)>) {
    let schema = if path == BATCH { "BatchRequest" } else { "SubscriptionRequest" };
    let faults = faults_of(&DOCUMENT["components"]["schemas"][schema], request);
    match fault {
        None => assert!(faults.is_empty(), "accepted, against the schema: {faults:?} in {request}"),
        Some((code, field)) if is_about_form(code) && !BEYOND_SCHEMAS.contains(&field) && !holds_nul(request) => {
            assert!(!faults.is_empty(), "{code} at {field}, and the schema has nothing against {request}");
        }
        Some(_) => {}
    }
}

/// The one character that JSON has and the database has not.
fn holds_nul(request: &Value) -> bool {
    request.to_string().contains("\\u0000")
}

/// Faults of the request itself, and not of its header or of what the database knows.
fn is_about_form(code: &str) -> bool {
    let other = ["unknown_brand", "unknown_product", "no_active_mapping", "contact_erased", "idempotency_conflict"];
    !other.contains(&code) && code != "invalid_idempotency_key" && !HTTP_FAULTS.contains(&code)
}

/// What a schema of the document has against a value.
fn faults_of(schema: &Value, value: &Value) -> Vec<String> {
    validator(schema).iter_errors(value).map(|fault| format!("{} {fault}", fault.instance_path())).collect()
}

fn validator(schema: &Value) -> Arc<Validator> {
    let mut validators = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    let build = || {
        let mut schema = schema.clone();
        // References begin at the root of the schema at hand.
        schema["components"] = DOCUMENT["components"].clone();
        jsonschema::draft202012::new(&schema).expect("a schema of the document is a schema")
    };
    validators.entry(schema.to_string()).or_insert_with(|| Arc::new(build())).clone()
}

fn operation(method: &Method, path: &str) -> Option<&'static Value> {
    let path = path.split('?').next().unwrap_or_default();
    let template = match path {
        _ if path.starts_with("/v1/requests/") => "/v1/requests/{request_id}",
        _ if path.starts_with("/v1/contacts/") => "/v1/contacts/{contact_key}",
        other => other,
    };
    let method = method.as_str().to_ascii_lowercase();
    DOCUMENT["paths"][template].get(method)
}

fn resolve(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => DOCUMENT.pointer(reference.trim_start_matches('#')).expect("a reference leads somewhere"),
        None => value,
    }
}

fn documented_codes() -> BTreeSet<String> {
    let codes = DOCUMENT["components"]["schemas"]["Problem"]["properties"]["code"]["enum"].as_array();
    codes.expect("a list of codes").iter().map(|code| code.as_str().expect("a word").to_owned()).collect()
}

/// The codes in the source of the door: the first member of every fault, and what `sqlstate_of` knows.
fn codes_of_the_door() -> BTreeSet<String> {
    let source = include_str!("../../../migrations/V3__accepting.sql");
    let words: Vec<&str> = source.split_whitespace().collect();
    let codes = words.windows(2).filter_map(|pair| {
        let quoted = match pair[0] {
            "return" | "then" => pair[1].strip_prefix("('")?,
            "when" => pair[1].strip_prefix('\'')?,
            _ => return None,
        };
        quoted.split_once('\'').map(|(code, _)| code.to_owned())
    });
    codes.filter(|code| code.contains('_')).collect()
}

#[test]
fn every_fault_of_the_door_is_documented_and_no_other() {
    let of_door = codes_of_the_door();
    assert!(of_door.contains("idempotency_conflict") && of_door.len() > 10, "{of_door:?}");
    let expected: BTreeSet<String> = of_door.into_iter().chain(HTTP_FAULTS.map(str::to_owned)).collect();
    assert_eq!(documented_codes(), expected);
}

#[test]
fn every_schema_is_a_schema_and_every_example_keeps_to_its_own() {
    let mut examples = 0;
    for (path, operations) in DOCUMENT["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let body = operation.get("requestBody").into_iter();
            let answers = operation["responses"].as_object().expect("answers").values().map(resolve);
            for content in body.chain(answers).filter_map(|part| part["content"].as_object()).flatten() {
                let (media, content) = content;
                for (name, example) in content["examples"].as_object().into_iter().flatten() {
                    let faults = faults_of(&content["schema"], &example["value"]);
                    assert!(faults.is_empty(), "{method} {path} {media} example {name}: {faults:?}");
                    examples += 1;
                }
                faults_of(&content["schema"], &Value::Null);
            }
        }
    }
    assert!(examples >= 10, "{examples} examples");
}

/// Every documented operation, with a path that can be called.
pub(super) fn operations() -> Vec<(Method, String)> {
    let paths = DOCUMENT["paths"].as_object().expect("paths");
    let operations = paths.iter().flat_map(|(path, operations)| {
        let path = path.replace("{request_id}", "00000000-0000-4000-8000-000000000000");
        let path = path.replace("{contact_key}", "nobody");
        let methods = operations.as_object().into_iter().flat_map(|methods| methods.keys());
        methods.map(move |method| (method.to_ascii_uppercase().parse().expect("a method"), path.clone()))
    });
    operations.collect()
}
