//! The stable code of a refusal, and the few facts that HubSpot tells in prose only.

use super::classify::is_configuration;
use super::{AnswerFacts, Class, Content, ErrorBody, Operation};

/// A fact that HubSpot tells in a sentence and nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sentence {
    /// The person unsubscribed, so this subscription cannot be set.
    OptedOut,
    /// Another record holds the identity.
    AlreadyExists,
    /// The same id twice in one batch.
    DuplicateIds,
    /// Members of a dynamic list follow its filters; nobody else can change them.
    ListIsDynamic,
    /// The id property has no unique values.
    IdPropertyNotUnique,
    /// The subscription type does not exist in this account.
    SubscriptionTypeUnknown,
    /// The address belonged to a contact that was deleted for good, and may not come back.
    AddressBlocked,
    /// The address is none.
    InvalidEmail,
}

impl Sentence {
    fn code(self) -> &'static str {
        match self {
            Self::OptedOut => "opted_out",
            Self::AlreadyExists => "already_exists",
            Self::DuplicateIds => "duplicate_ids",
            Self::ListIsDynamic => "list_is_dynamic",
            Self::IdPropertyNotUnique => "id_property_not_unique",
            Self::SubscriptionTypeUnknown => "subscription_type_unknown",
            Self::AddressBlocked => "address_blocked",
            Self::InvalidEmail => "invalid_email",
        }
    }
}

/// The known fact in the error's sentence.
pub(super) fn sentence(error: &ErrorBody, operation: Operation) -> Option<Sentence> {
    let has = |part: &str| error.prose().contains(part);
    let writes_status = operation == Operation::WriteStatuses;
    if writes_status && (has("unsubscribed") || has("opted out") || has("opted-out")) {
        Some(Sentence::OptedOut)
    } else if has("duplicate id") {
        Some(Sentence::DuplicateIds)
    } else if has("already exists") || has("existing id:") {
        Some(Sentence::AlreadyExists)
    } else if has("dynamic list") {
        Some(Sentence::ListIsDynamic)
    } else if has("non-unique") || has("not unique") || has("isn't unique") {
        Some(Sentence::IdPropertyNotUnique)
    } else if writes_status && has("subscription") && (has("does not exist") || has("not found")) {
        Some(Sentence::SubscriptionTypeUnknown)
    } else if has("permanently deleted") || has("gdpr deleted") || has("gdpr-deleted") || names_blocked(error) {
        Some(Sentence::AddressBlocked)
    } else if has("not a valid email") || (has("email address") && has("is invalid")) {
        Some(Sentence::InvalidEmail)
    } else {
        None
    }
}

/// HubSpot's import names the fact by a word; a write tells it in prose.
fn names_blocked(error: &ErrorBody) -> bool {
    error.faults().iter().any(|fault| fault.code == "GDPR_BLACKLISTED_EMAIL")
}

/// The code of a whole call's refusal.
pub(super) fn of_call(facts: &AnswerFacts<'_>, class: Class) -> String {
    if let Some(failure) = facts.transport {
        return failure.code().to_owned();
    }
    let by_status = || format!("http_{}", facts.status.unwrap_or_default());
    match (class, facts.error) {
        (Class::RateLimited(policy), _) => policy.code().to_owned(),
        (Class::Locked | Class::Migrating, _) => class.name().to_owned(),
        (Class::Configuration, Some(error)) if facts.status == Some(404) && error.echoes_encoded_id() => {
            "id_encoded_wrongly".to_owned()
        }
        (_, Some(error)) => of_error(error, facts.intent.operation).unwrap_or_else(by_status),
        (_, None) if facts.content == Content::Foreign && !matches!(facts.status, Some(500..)) => {
            "html_answer".to_owned()
        }
        (_, None) => by_status(),
    }
}

/// The code of one row's refusal.
pub(super) fn of_row(error: &ErrorBody, operation: Operation, class: Class) -> String {
    match class {
        Class::RateLimited(policy) => policy.code().to_owned(),
        _ => of_error(error, operation).unwrap_or_else(|| class.name().to_owned()),
    }
}

/// The most telling word: a known sentence, then a cause in the configuration, then any fault, then the category.
fn of_error(error: &ErrorBody, operation: Operation) -> Option<String> {
    if let Some(sentence) = sentence(error, operation) {
        return Some(sentence.code().to_owned());
    }
    let faults = error.faults();
    let fault = faults.iter().find(|fault| is_configuration(&fault.code)).or_else(|| faults.first());
    let word = fault.map(|fault| fault.code.as_str()).or_else(|| error.sub_category()).or_else(|| error.category())?;
    Some(snake_case(word))
}

/// `ListError.INVALID_OBJECT` and `invalid-object` both become words joined by `_`.
fn snake_case(word: &str) -> String {
    let last = word.rsplit('.').next().unwrap_or(word);
    last.replace('-', "_").to_ascii_lowercase()
}
