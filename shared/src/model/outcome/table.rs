//! The table in `docs/OUTCOMES.md`, built from [`classify()`] and [`decide()`] and compared with the file.
//!
//! Every answer below is classified; the table lists it under the class that came out, and asks `decide` what happens.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

const BEGIN: &str = "<!-- The table is compared with the code by a test: change the code first. -->";
const END: &str = "<!-- End of the table. -->";

#[test]
fn the_table_for_people_on_call_says_what_the_code_does() {
    let document = include_str!("../../../../docs/OUTCOMES.md");
    let (_, rest) = document.split_once(BEGIN).expect("the begin mark");
    let (table, _) = rest.split_once(END).expect("the end mark");
    let expected = render();
    assert_eq!(table.trim(), expected.trim(), "docs/OUTCOMES.md has to hold this table:\n\n{expected}\n");
}

fn render() -> String {
    let samples = samples();
    let rows = classes().into_iter().map(|class| {
        let from: Vec<&str> = samples.iter().filter(|(_, of)| *of == class).map(|(text, _)| text.as_str()).collect();
        assert!(!from.is_empty(), "no sample falls into {class:?}");
        format!("| {} | {} | {} |", title(class), from.join("; "), decision(class))
    });
    let head = "| class | from | decision |\n|---|---|---|".to_owned();
    std::iter::once(head).chain(rows).collect::<Vec<_>>().join("\n")
}

/// Every class, in the order of the table. A class that is missing here is missing in `title` too, which is exhaustive.
fn classes() -> Vec<Class> {
    vec![
        Class::RateLimited(LimitPolicy::Secondly),
        Class::RateLimited(LimitPolicy::TenSecondly),
        Class::RateLimited(LimitPolicy::Daily),
        Class::RateLimited(LimitPolicy::Unknown),
        Class::Locked,
        Class::Migrating,
        Class::Temporary,
        Class::Credential(CredentialProblem::Expired),
        Class::Credential(CredentialProblem::Invalid),
        Class::Configuration,
        Class::RowInvalid,
        Class::WholeBatchInvalid,
        Class::Conflict,
        Class::Gone,
        Class::OptedOut,
    ]
}

fn title(class: Class) -> &'static str {
    match class {
        Class::RateLimited(LimitPolicy::Secondly) => "rate limited, second",
        Class::RateLimited(LimitPolicy::TenSecondly) => "rate limited, ten seconds",
        Class::RateLimited(LimitPolicy::Daily) => "rate limited, day",
        Class::RateLimited(LimitPolicy::Unknown) => "rate limited, not said by what",
        Class::Locked => "locked",
        Class::Migrating => "migrating",
        Class::Temporary => "temporary",
        Class::Credential(CredentialProblem::Expired) => "credential, expired",
        Class::Credential(CredentialProblem::Invalid) => "credential, invalid",
        Class::Configuration => "configuration",
        Class::RowInvalid => "row invalid",
        Class::WholeBatchInvalid => "whole batch invalid",
        Class::Conflict => "conflict",
        Class::Gone => "gone, merged",
        Class::OptedOut => "opted out",
    }
}

fn samples() -> Vec<(String, Class)> {
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
    let escaped = json!({"context": {"id": ["a%40b"]}});
    vec![
        ("400 naming a property that does not exist", 400, 2, UpsertContacts, fault("PROPERTY_DOESNT_EXIST")),
        ("400 on an option, one row", 400, 1, UpsertContacts, fault("INVALID_OPTION")),
        ("400 on a missing required property, one row", 400, 1, UpsertContacts, missing),
        ("400 on an id property without unique values", 400, 2, UpsertContacts, not_unique),
        ("400 on a value, one row", 400, 1, UpsertContacts, fault("INVALID_EMAIL")),
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

/// What `decide` says, in words and with the numbers that it gives.
fn decision(class: Class) -> String {
    let first = ask(class, None, 0, 0.0);
    let slowest = |decision: &Decision| wait(decision).map(words).unwrap_or_default();
    match &first {
        Decision::Complete => "complete".to_owned(),
        Decision::RetryAt { .. } => {
            let last = DEFAULT_MAX_ATTEMPTS - 2;
            let (early, late) = (ask(class, None, 0, 1.0), ask(class, None, last, 1.0));
            let end = ask(class, None, last + 1, 1.0);
            format!(
                "retry after at most {}, growing to {}, with full jitter; `Retry-After` is honoured up to {}; after {} attempts {}",
                slowest(&early),
                slowest(&late),
                slowest(&ask(class, Some(retry_after::MAX_WAIT), 0, 0.0)),
                DEFAULT_MAX_ATTEMPTS,
                dead(&end),
            )
        }
        Decision::SnoozeUntil { .. } => {
            format!("snooze {} to {}", slowest(&first), slowest(&ask(class, None, 0, 1.0)))
        }
        Decision::Freeze { policy: LimitPolicy::Daily, .. } => {
            format!(
                "freeze the portal's bucket until the daily reset, or {} when it is not known; snooze",
                slowest(&first)
            )
        }
        Decision::Freeze { .. } => format!(
            "freeze the portal's bucket for everybody, {} (`Retry-After` up to {}); snooze",
            slowest(&first),
            slowest(&ask(class, Some(retry_after::MAX_WAIT), 0, 0.0)),
        ),
        Decision::PausePortal { reason, .. } => format!(
            "pause the portal for {}{}{}; snooze",
            slowest(&first),
            pause_by_header(class, &first),
            if reason.alarms() { " and alarm" } else { "" },
        ),
        Decision::RefreshCredential => format!("refresh once; then {}", second_refusal(class)),
        Decision::Split => "split the batch: by what the refusal names, else by halves".to_owned(),
        Decision::Resolve(ResolveReason::Conflict) => "resolve: find the record, link, update".to_owned(),
        Decision::Resolve(ResolveReason::Gone) => "resolve: re-link, then decide".to_owned(),
        Decision::Superseded { reason } => format!("superseded, `{}`", reason.code()),
        Decision::Dead { .. } => "dead, with the named cause; everything else goes on".to_owned(),
    }
}

fn pause_by_header(class: Class, first: &Decision) -> String {
    let asked = ask(class, Some(retry_after::MAX_WAIT), 0, 0.0);
    if asked == *first {
        String::new()
    } else {
        format!(", or `Retry-After` up to {}", wait(&asked).map(words).unwrap())
    }
}

fn second_refusal(class: Class) -> String {
    let attempt = Attempt { credential_refreshed: true, ..Attempt::first() };
    let refusal = Refusal::unmade(class, "sample", "sample");
    let decision = decide(Answer::Refused(&refusal), &attempt, now(), 0.0);
    format!("pause the portal for {} and alarm", wait(&decision).map(words).unwrap())
}

fn ask(class: Class, retry_after: Option<Duration>, process_attempts: u32, random: f64) -> Decision {
    let refusal = Refusal { retry_after, ..Refusal::unmade(class, "sample", "sample") };
    let attempt = Attempt { process_attempts, ..Attempt::first() };
    decide(Answer::Refused(&refusal), &attempt, now(), random)
}

fn now() -> Timestamp {
    "2026-09-23T10:00:00Z".parse().unwrap()
}

fn wait(decision: &Decision) -> Option<i64> {
    let until = match decision {
        Decision::RetryAt { at } | Decision::SnoozeUntil { at, .. } => at,
        Decision::Freeze { until, .. } | Decision::PausePortal { until, .. } => until,
        _ => return None,
    };
    Some(until.duration_since(now()).as_secs())
}

fn words(seconds: i64) -> String {
    match seconds {
        s if s % 3600 == 0 => format!("{} h", s / 3600),
        s if s % 60 == 0 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

fn dead(decision: &Decision) -> String {
    match decision {
        Decision::Dead { code } => format!("dead, `{code}`"),
        other => panic!("{other:?} is not the end"),
    }
}
