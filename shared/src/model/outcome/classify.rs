//! The one function that classifies HubSpot's answers.
//!
//! The status decides first, since a body is best effort: gateways answer 502 with HTML, and an error body may be cut.

use super::code::{Sentence, sentence};
use super::{AnswerFacts, Class, Content, CredentialProblem, ErrorBody, LimitPolicy, Operation, TransportFailure};

/// Classifies the answer to a whole call that is not a readable success.
///
/// The statuses follow HubSpot's page on error handling; where it is silent, the side that loses nothing is taken.
#[must_use]
pub fn classify(facts: &AnswerFacts<'_>) -> Class {
    if let Some(failure) = facts.transport {
        return transport_class(failure);
    }
    match facts.status {
        Some(400 | 422) => invalid(facts),
        Some(401) => Class::Credential(credential_problem(facts.error)),
        Some(404) => not_found(facts),
        Some(408 | 425) => Class::Temporary,
        Some(409) => conflict(facts),
        Some(413) => too_large(facts),
        Some(423) => Class::Locked,
        Some(429) => Class::RateLimited(limit_policy(facts.error)),
        Some(477) => Class::Migrating,
        // HubSpot refuses in JSON. A page of HTML comes from a gateway before it, and gateways recover.
        Some(400..=499) if facts.content == Content::Foreign => Class::Temporary,
        Some(400..=499) => Class::Configuration,
        // An unreadable success, a redirect (which is never followed), every 5xx, and statuses that do not exist.
        Some(_) | None => Class::Temporary,
    }
}

/// Classifies one element of a batch answer's `errors`.
#[must_use]
pub fn classify_row(error: &ErrorBody, operation: Operation) -> Class {
    known_row_class(error, operation).unwrap_or(match error.category() {
        Some("VALIDATION_ERROR" | "INVALID_PARAMS" | "BAD_REQUEST") => Class::RowInvalid,
        _ if !error.faults().is_empty() => Class::RowInvalid,
        // An unknown category may pass; retrying it loses nothing, and it ends dead if it does not.
        _ => Class::Temporary,
    })
}

pub(super) fn transport_class(failure: TransportFailure) -> Class {
    match failure {
        TransportFailure::Timeout
        | TransportFailure::Connect
        | TransportFailure::ConnectionLost
        | TransportFailure::BodyCut
        | TransportFailure::BodyTooLarge => Class::Temporary,
        TransportFailure::TokenMalformed => Class::Credential(CredentialProblem::Invalid),
        TransportFailure::RequestInvalid => Class::Configuration,
    }
}

/// 400: of one row, of every row alike, or of some rows that have to be found by splitting.
fn invalid(facts: &AnswerFacts<'_>) -> Class {
    let operation = facts.intent.operation;
    let known = facts.error.and_then(|error| known_row_class(error, operation));
    if !operation.has_rows() {
        return known.unwrap_or(Class::Configuration);
    }
    if facts.intent.rows <= 1 {
        return known.unwrap_or(Class::RowInvalid);
    }
    match known {
        Some(Class::Configuration) if facts.error.is_some_and(|error| concerns_all(error, operation)) => {
            Class::Configuration
        }
        Some(class @ (Class::RateLimited(_) | Class::Credential(_) | Class::Locked)) => class,
        _ => Class::WholeBatchInvalid,
    }
}

/// 404: of the record, of the list, or of a path that was built wrongly.
fn not_found(facts: &AnswerFacts<'_>) -> Class {
    if facts.content == Content::Foreign {
        return Class::Temporary;
    }
    // An id that comes back with escapes in it was encoded wrongly. "Not found" would then be a lie about the record.
    if facts.error.is_some_and(ErrorBody::echoes_encoded_id) {
        return Class::Configuration;
    }
    match facts.intent.operation {
        Operation::UpdateContacts | Operation::ReadContacts | Operation::WriteStatuses | Operation::ReadStatuses => {
            if facts.intent.rows <= 1 {
                Class::Gone
            } else {
                Class::WholeBatchInvalid
            }
        }
        Operation::ManageProperties | Operation::EraseContact => Class::Gone,
        Operation::UpsertContacts | Operation::ChangeMembership | Operation::ReadAccount => Class::Configuration,
    }
}

/// 409: a batch reports only its first conflict, so the others have to be found by splitting.
fn conflict(facts: &AnswerFacts<'_>) -> Class {
    if facts.intent.operation.has_rows() && facts.intent.rows > 1 { Class::WholeBatchInvalid } else { Class::Conflict }
}

fn too_large(facts: &AnswerFacts<'_>) -> Class {
    match (facts.intent.operation.has_rows(), facts.intent.rows) {
        (false, _) => Class::Configuration,
        (true, 0 | 1) => Class::RowInvalid,
        (true, _) => Class::WholeBatchInvalid,
    }
}

/// The class of an error whose words are known; `None` when they say nothing.
fn known_row_class(error: &ErrorBody, operation: Operation) -> Option<Class> {
    if let Some(class) = sentence(error, operation).map(sentence_class) {
        return Some(class);
    }
    if let Some(class) = error.category().and_then(|category| category_class(category, error)) {
        return Some(class);
    }
    if error.faults().iter().any(|fault| is_conflict(&fault.code)) || error.sub_category().is_some_and(is_conflict) {
        return Some(Class::Conflict);
    }
    let configuration = error.faults().iter().any(|fault| is_configuration(&fault.code))
        || error.sub_category().is_some_and(is_configuration);
    configuration.then_some(Class::Configuration)
}

fn sentence_class(sentence: Sentence) -> Class {
    match sentence {
        Sentence::OptedOut => Class::OptedOut,
        Sentence::AlreadyExists => Class::Conflict,
        Sentence::ListIsDynamic | Sentence::IdPropertyNotUnique | Sentence::SubscriptionTypeUnknown => {
            Class::Configuration
        }
        Sentence::AddressBlocked | Sentence::InvalidEmail => Class::RowInvalid,
        // The row itself is fine: sent without its twin it is accepted.
        Sentence::DuplicateIds => Class::Temporary,
    }
}

fn category_class(category: &str, error: &ErrorBody) -> Option<Class> {
    match category {
        "OBJECT_NOT_FOUND" => Some(Class::Gone),
        "CONFLICT" | "OBJECT_ALREADY_EXISTS" => Some(Class::Conflict),
        "RATE_LIMITS" | "RATE_LIMIT" => Some(Class::RateLimited(limit_policy(Some(error)))),
        "MISSING_SCOPES" => Some(Class::Configuration),
        "EXPIRED_AUTHENTICATION" | "INVALID_AUTHENTICATION" => Some(Class::Credential(credential_problem(Some(error)))),
        "LOCKED" => Some(Class::Locked),
        _ => None,
    }
}

/// Whether the cause lies in what every row of the batch shares: the id property, the list, or one property by its name.
/// An option or a missing value belongs to single rows.
fn concerns_all(error: &ErrorBody, operation: Operation) -> bool {
    let shared = |code: &str| matches!(code, "PROPERTY_DOESNT_EXIST" | "READ_ONLY_VALUE");
    error.faults().iter().any(|fault| shared(&fault.code) && fault.property.is_some())
        || operation == Operation::ChangeMembership
        || matches!(sentence(error, operation), Some(Sentence::IdPropertyNotUnique | Sentence::ListIsDynamic))
}

/// Codes whose cause is the portal or the mapping, not the row.
pub(super) fn is_configuration(code: &str) -> bool {
    matches!(
        code,
        "PROPERTY_DOESNT_EXIST"
            | "READ_ONLY_VALUE"
            | "INVALID_OPTION"
            | "MISSING_REQUIRED_PROPERTY"
            | "MISSING_CONDITIONAL_REQUIRED_PROPERTY"
            | "INVALID_OBJECT_TYPE_FOR_LIST"
    ) || code.starts_with("ListError.")
}

fn is_conflict(code: &str) -> bool {
    matches!(code, "OBJECT_ALREADY_EXISTS" | "PROPERTY_WITH_NAME_EXISTS" | "CONFLICTING_UNIQUE_VALUE")
}

/// HubSpot asks to refresh on expiry only: other 401s are no sign that a new token would help.
fn credential_problem(error: Option<&ErrorBody>) -> CredentialProblem {
    match error.and_then(ErrorBody::category) {
        Some("EXPIRED_AUTHENTICATION") => CredentialProblem::Expired,
        _ => CredentialProblem::Invalid,
    }
}

/// The policy's name first, then the sentence, since search answers without a name.
fn limit_policy(error: Option<&ErrorBody>) -> LimitPolicy {
    let Some(error) = error else {
        return LimitPolicy::Unknown;
    };
    let by_name = error.policy_name().map_or(LimitPolicy::Unknown, |name| policy_in(&name.to_lowercase()));
    if by_name == LimitPolicy::Unknown { policy_in(error.prose()) } else { by_name }
}

fn policy_in(text: &str) -> LimitPolicy {
    if text.contains("daily") {
        LimitPolicy::Daily
    } else if text.contains("ten_secondly") || text.contains("ten secondly") {
        LimitPolicy::TenSecondly
    } else if text.contains("secondly") {
        LimitPolicy::Secondly
    } else {
        LimitPolicy::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::super::Intent;
    use super::*;
    use serde_json::{Value, json};

    fn classified(status: u16, rows: usize, operation: Operation, body: &Value) -> Class {
        let error = ErrorBody::from_object(body.as_object().unwrap());
        classify(&AnswerFacts {
            status: Some(status),
            transport: None,
            content: Content::Json,
            error: Some(&error),
            intent: Intent { operation, rows },
        })
    }

    fn without_error(status: u16, rows: usize, content: Content) -> Class {
        let intent = Intent { operation: Operation::UpsertContacts, rows };
        classify(&AnswerFacts { status: Some(status), transport: None, content, error: None, intent })
    }

    fn upsert(rows: usize, body: &Value) -> Class {
        classified(400, rows, Operation::UpsertContacts, body)
    }

    fn fault(codes: &[&str]) -> Value {
        let list: Vec<_> = codes.iter().map(|code| json!({"isValid": false, "error": code, "name": "city"})).collect();
        json!({"category": "VALIDATION_ERROR", "message": format!("Property values were not valid: {}", json!(list))})
    }

    #[test]
    fn bodies_of_gateways_never_hide_the_status() {
        assert_eq!(without_error(502, 3, Content::Foreign), Class::Temporary);
        assert_eq!(without_error(504, 3, Content::Empty), Class::Temporary);
        assert_eq!(without_error(524, 3, Content::Foreign), Class::Temporary);
        assert_eq!(without_error(200, 3, Content::Foreign), Class::Temporary);
        assert_eq!(without_error(429, 3, Content::Foreign), Class::RateLimited(LimitPolicy::Unknown));
        assert_eq!(without_error(400, 3, Content::Json), Class::WholeBatchInvalid);
        assert_eq!(without_error(400, 1, Content::Json), Class::RowInvalid);
    }

    #[test]
    fn the_limit_is_told_by_policy_then_by_sentence() {
        let of = |body| classified(429, 2, Operation::UpsertContacts, &body);
        for (policy, body) in [
            (LimitPolicy::Secondly, json!({"policyName": "SECONDLY", "message": "daily"})),
            (LimitPolicy::TenSecondly, json!({"policyName": "TEN_SECONDLY_ROLLING"})),
            (LimitPolicy::Daily, json!({"policyName": "DAILY"})),
            (LimitPolicy::Secondly, json!({"message": "You have reached your secondly limit."})),
            (LimitPolicy::TenSecondly, json!({"message": "You have reached your ten_secondly_rolling limit."})),
            (LimitPolicy::Daily, json!({"policyName": "NEW", "message": "You have reached your daily limit."})),
            (LimitPolicy::Unknown, json!({"message": "slow down"})),
        ] {
            assert_eq!(of(body.clone()), Class::RateLimited(policy), "{body}");
        }
    }

    #[test]
    fn one_bad_row_makes_a_batch_split_and_a_single_row_dead() {
        assert_eq!(upsert(100, &fault(&["INVALID_EMAIL"])), Class::WholeBatchInvalid);
        assert_eq!(upsert(1, &fault(&["INVALID_EMAIL"])), Class::RowInvalid);
    }

    #[test]
    fn a_property_that_all_rows_share_is_configuration_and_an_option_is_not() {
        assert_eq!(upsert(100, &fault(&["INVALID_EMAIL", "PROPERTY_DOESNT_EXIST"])), Class::Configuration);
        assert_eq!(upsert(100, &fault(&["INVALID_OPTION"])), Class::WholeBatchInvalid);
        assert_eq!(upsert(1, &fault(&["INVALID_OPTION"])), Class::Configuration);
    }

    #[test]
    fn duplicates_are_split_and_never_dead() {
        let body = json!({"category": "VALIDATION_ERROR", "context": {"ids": ["ann@example.test"]},
                          "message": "Duplicate IDs found in batch input: [ann@example.test]. IDs must be unique"});
        assert_eq!(upsert(3, &body), Class::WholeBatchInvalid);
        assert_eq!(upsert(1, &body), Class::Temporary);
    }

    #[test]
    fn an_opt_out_is_recognised_only_where_a_status_is_written() {
        let body = json!({"category": "VALIDATION_ERROR",
            "message": "Subscription 777 for out@example.test cannot be updated because they have unsubscribed"});
        assert_eq!(classified(400, 1, Operation::WriteStatuses, &body), Class::OptedOut);
        assert_eq!(classified(400, 2, Operation::WriteStatuses, &body), Class::WholeBatchInvalid);
        let error = ErrorBody::from_object(body.as_object().unwrap());
        assert_eq!(classify_row(&error, Operation::WriteStatuses), Class::OptedOut);
        assert_eq!(classify_row(&error, Operation::UpsertContacts), Class::RowInvalid);
    }

    #[test]
    fn lists_that_cannot_be_changed_are_configuration() {
        let of = |status, body: Value| classified(status, 2, Operation::ChangeMembership, &body);
        let invalid = |message: &str| json!({"category": "VALIDATION_ERROR", "message": message});
        assert_eq!(of(400, invalid("Can not operate manually on a dynamic list")), Class::Configuration);
        assert_eq!(
            of(404, json!({"category": "OBJECT_NOT_FOUND", "message": "List does not exist"})),
            Class::Configuration
        );
        let other_type =
            json!({"category": "VALIDATION_ERROR", "subCategory": "ListError.INVALID_OBJECT_TYPE_FOR_LIST"});
        assert_eq!(of(400, other_type), Class::Configuration);
    }

    #[test]
    fn not_found_with_escapes_in_the_echoed_id_is_our_mistake() {
        let of = |id: &str| {
            let body = json!({"category": "OBJECT_NOT_FOUND", "context": {"id": [id]}});
            classified(404, 1, Operation::ReadContacts, &body)
        };
        assert_eq!(of("a%2Bb%40example.test?idProperty=email"), Class::Configuration);
        assert_eq!(of("12"), Class::Gone);
    }

    #[test]
    fn a_conflict_of_one_row_is_resolved_and_of_a_batch_is_split() {
        let body = json!({"category": "CONFLICT", "message": "Contact already exists. Existing ID: 6001"});
        assert_eq!(classified(409, 1, Operation::UpsertContacts, &body), Class::Conflict);
        assert_eq!(classified(409, 2, Operation::UpsertContacts, &body), Class::WholeBatchInvalid);
        let exists =
            json!({"category": "OBJECT_ALREADY_EXISTS", "subCategory": "Properties.PROPERTY_WITH_NAME_EXISTS"});
        assert_eq!(classified(409, 0, Operation::ManageProperties, &exists), Class::Conflict);
    }

    #[test]
    fn only_an_expired_token_asks_for_a_refresh() {
        let of = |category: &str| classified(401, 2, Operation::UpsertContacts, &json!({"category": category}));
        assert_eq!(of("EXPIRED_AUTHENTICATION"), Class::Credential(CredentialProblem::Expired));
        assert_eq!(of("INVALID_AUTHENTICATION"), Class::Credential(CredentialProblem::Invalid));
    }

    #[test]
    fn rows_of_unknown_category_are_retried() {
        let of =
            |body: Value| classify_row(&ErrorBody::from_object(body.as_object().unwrap()), Operation::UpsertContacts);
        assert_eq!(of(json!({"category": "SOMETHING_NEW"})), Class::Temporary);
        assert_eq!(of(json!({})), Class::Temporary);
        assert_eq!(of(json!({"category": "OBJECT_NOT_FOUND"})), Class::Gone);
        assert_eq!(of(json!({"category": "VALIDATION_ERROR"})), Class::RowInvalid);
    }
}
