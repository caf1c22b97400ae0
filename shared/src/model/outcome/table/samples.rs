//! Answers of every kind, and the class that each falls into.

use serde_json::{Value, json};

use super::super::*;

/// Each answer in the words of the table.
pub(super) fn samples() -> Vec<(String, Class)> {
    let mut samples = bare_statuses();
    samples.extend(told_by_body().into_iter().map(|(text, status, rows, operation, body)| {
        let error = ErrorBody::from_object(body.as_object().unwrap());
        let facts = facts(Some(status), Content::Json, Some(&error), operation, rows);
        (text.to_owned(), classify(&facts))
    }));
    samples.extend(told_by_row().into_iter().map(|(text, operation, body)| {
        (text.to_owned(), classify_row(&ErrorBody::from_object(body.as_object().unwrap()), operation))
    }));
    samples.extend(without_error_body());
    samples.extend(below_http());
    samples
}

/// Statuses of a wrong call or a missing permission that have been met; the rest of 4xx means the same.
const NAMED_CONFIGURATION: [u16; 3] = [402, 403, 414];

/// What a status means alone, for a call with one row and without a body. Neighbours of one class are joined.
fn bare_statuses() -> Vec<(String, Class)> {
    let mut ranges: Vec<(u16, u16, Class)> = Vec::new();
    for status in (300..=308).chain(400..=599) {
        let class = classify(&facts(Some(status), Content::Empty, None, Operation::UpdateContacts, 1));
        match ranges.last_mut() {
            _ if class == Class::Configuration && !NAMED_CONFIGURATION.contains(&status) => {}
            Some((_, end, of)) if *of == class && *end + 1 == status => *end = status,
            _ => ranges.push((status, status, class)),
        }
    }
    let text = |start: u16, end: u16| if start == end { start.to_string() } else { format!("{start} to {end}") };
    let rest = ("every 4xx that this table does not name".to_owned(), Class::Configuration);
    ranges.into_iter().map(|(start, end, class)| (text(start, end), class)).chain([rest]).collect()
}

type ToldByBody = (&'static str, u16, usize, Operation, Value);

fn told_by_body() -> Vec<ToldByBody> {
    let mut told = limits_and_permissions();
    told.extend(refused_contacts());
    told.extend(refused_lists_and_statuses());
    told
}

fn limits_and_permissions() -> Vec<ToldByBody> {
    use Operation::UpsertContacts;
    vec![
        ("429 naming the second", 429, 2, UpsertContacts, json!({"policyName": "SECONDLY"})),
        ("429 naming ten seconds", 429, 2, UpsertContacts, json!({"policyName": "TEN_SECONDLY_ROLLING"})),
        ("429 naming the day", 429, 2, UpsertContacts, json!({"policyName": "DAILY"})),
        ("401 `EXPIRED_AUTHENTICATION`", 401, 2, UpsertContacts, json!({"category": "EXPIRED_AUTHENTICATION"})),
        ("403 `MISSING_SCOPES`", 403, 2, UpsertContacts, json!({"category": "MISSING_SCOPES"})),
    ]
}

fn refused_contacts() -> Vec<ToldByBody> {
    use Operation::{ReadContacts, UpsertContacts};
    let list = |code: &str| format!("Property values were not valid: [{{\"error\":\"{code}\",\"name\":\"city\"}}]");
    let fault = |code: &str| invalid(&list(code));
    let missing = json!({"category": "VALIDATION_ERROR", "errors": [{"code": "MISSING_REQUIRED_PROPERTY"}]});
    let not_unique = invalid("upsert by non-unique property is not possible");
    let blocked = invalid("The contact with this email address was permanently deleted");
    let escaped = json!({"context": {"id": ["a%40b"]}});
    vec![
        ("400 naming a property that does not exist", 400, 2, UpsertContacts, fault("PROPERTY_DOESNT_EXIST")),
        ("400 on an option, one row", 400, 1, UpsertContacts, fault("INVALID_OPTION")),
        ("400 on a missing required property, one row", 400, 1, UpsertContacts, missing),
        ("400 on an id property without unique values", 400, 2, UpsertContacts, not_unique),
        ("400 on a value, one row", 400, 1, UpsertContacts, fault("INVALID_EMAIL")),
        ("400 on the address of a contact that was deleted for good, one row", 400, 1, UpsertContacts, blocked),
        ("400 on a value, several rows", 400, 2, UpsertContacts, fault("INVALID_EMAIL")),
        (
            "400 on an id that is in the batch twice",
            400,
            2,
            UpsertContacts,
            invalid("Duplicate IDs found in batch input"),
        ),
        ("409, several rows", 409, 2, UpsertContacts, json!({"category": "CONFLICT"})),
        ("404 that repeats an id with escapes in it", 404, 1, ReadContacts, escaped),
    ]
}

fn refused_lists_and_statuses() -> Vec<ToldByBody> {
    use Operation::{ChangeMembership, WriteStatuses};
    let unsubscribed = invalid("cannot be updated because they have unsubscribed");
    vec![
        ("400 on a dynamic list", 400, 2, ChangeMembership, invalid("Can not operate manually on a dynamic list")),
        ("404 of a list", 404, 2, ChangeMembership, json!({"category": "OBJECT_NOT_FOUND"})),
        ("400 on a subscription type", 400, 1, WriteStatuses, invalid("Subscription 7 does not exist")),
        ("400 because the person unsubscribed, one row", 400, 1, WriteStatuses, unsubscribed),
    ]
}

fn invalid(message: &str) -> Value {
    json!({"category": "VALIDATION_ERROR", "message": message})
}

fn told_by_row() -> Vec<(&'static str, Operation, Value)> {
    let category = |category: &str| json!({"category": category});
    vec![
        ("row error `VALIDATION_ERROR`", Operation::UpsertContacts, category("VALIDATION_ERROR")),
        ("row error `CONFLICT`", Operation::UpsertContacts, category("CONFLICT")),
        ("row error `OBJECT_NOT_FOUND`", Operation::ReadContacts, category("OBJECT_NOT_FOUND")),
        (
            "row error naming an option or property",
            Operation::UpsertContacts,
            json!({"category": "VALIDATION_ERROR", "errors": [{"code": "INVALID_OPTION"}]}),
        ),
        ("row error of an unknown category", Operation::UpsertContacts, category("SOMETHING_NEW")),
        (
            "row error because the person unsubscribed",
            Operation::WriteStatuses,
            json!({"category": "VALIDATION_ERROR", "message": "they have unsubscribed"}),
        ),
    ]
}

fn without_error_body() -> Vec<(String, Class)> {
    let of = |status, content, rows| classify(&facts(Some(status), content, None, Operation::UpsertContacts, rows));
    vec![
        ("HTML or other text under 2xx".to_owned(), of(200, Content::Foreign, 2)),
        ("HTML under 403 or 404".to_owned(), of(403, Content::Foreign, 2)),
        ("400 without a readable body, several rows".to_owned(), of(400, Content::Json, 2)),
        ("413, several rows".to_owned(), of(413, Content::Empty, 2)),
        ("a row that a complete update leaves out".to_owned(), Refusal::silently_omitted().class),
    ]
}

fn below_http() -> Vec<(String, Class)> {
    [
        TransportFailure::Timeout,
        TransportFailure::Connect,
        TransportFailure::ConnectionLost,
        TransportFailure::BodyCut,
        TransportFailure::BodyTooLarge,
        TransportFailure::TokenMalformed,
        TransportFailure::RequestInvalid,
    ]
    .into_iter()
    .map(|failure| (format!("`{}`", failure.code()), Refusal::from(failure).class))
    .collect()
}

fn facts(
    status: Option<u16>,
    content: Content,
    error: Option<&ErrorBody>,
    operation: Operation,
    rows: usize,
) -> AnswerFacts<'_> {
    AnswerFacts { status, transport: None, content, error, intent: Intent { operation, rows } }
}
