//! Writing one record: values, uniqueness, and the rules of single properties.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::{LIFECYCLE_STAGES, ObjectStore, ObjectType, Record};
use crate::{answer::ApiError, ids::RecordId, properties::ValueProblem};

/// Properties as a caller sends them.
pub(crate) type NewValues = BTreeMap<String, Value>;

/// Why a record was not written.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// Values that their properties do not take.
    Invalid(Vec<ValueProblem>),
    /// A unique value belongs to another record.
    Conflict(RecordId),
    /// The address was erased for privacy.
    Blocked,
    /// There is no such record.
    Missing,
}

impl Refusal {
    /// The error that HubSpot answers for the whole call, or for the row.
    pub(crate) fn into_error(self, object: ObjectType) -> ApiError {
        match self {
            Self::Invalid(problems) => invalid_values(&problems),
            Self::Conflict(id) => {
                let title = object.title();
                let message = format!("{title} already exists. Existing ID: {id}");
                ApiError::new(409, "CONFLICT", message)
            }
            Self::Blocked => ApiError::invalid(
                "The email address belongs to a contact that was permanently deleted, so it cannot be used again",
            ),
            Self::Missing => ApiError::not_found("resource not found"),
        }
    }
}

/// The refusal of values, with the JSON list inside the text as HubSpot has it.
pub(crate) fn invalid_values(problems: &[ValueProblem]) -> ApiError {
    let list = serde_json::to_string(problems).unwrap_or_default();
    ApiError::invalid(format!("Property values were not valid: {list}"))
}

impl ObjectStore {
    /// Creates a record, or updates `target`; nothing changes when it is refused.
    pub(crate) fn write(
        &mut self,
        target: Option<RecordId>,
        values: &NewValues,
        at: Timestamp,
    ) -> Result<Record, Refusal> {
        let values = self.encode_all(values)?;
        let mut record = match target {
            Some(id) => self.live(id).cloned().ok_or(Refusal::Missing)?,
            None => Record {
                id: RecordId(0),
                properties: BTreeMap::new(),
                created_at: at,
                updated_at: at,
                archived_at: None,
            },
        };
        for (name, value) in values {
            assign(&mut record, &name, value);
        }
        self.check_unique(&record)?;
        if target.is_none() {
            record.id = self.take_id();
        }
        record.updated_at = at;
        self.put(record.clone());
        Ok(record)
    }

    fn encode_all(&self, values: &NewValues) -> Result<Vec<(String, String)>, Refusal> {
        let mut encoded = Vec::with_capacity(values.len());
        let mut problems = Vec::new();
        for (name, value) in values {
            match self.schema.encode(name, &as_text(value)) {
                Ok(value) => encoded.push((name.clone(), value)),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(encoded) } else { Err(Refusal::Invalid(problems)) }
    }

    fn check_unique(&self, record: &Record) -> Result<(), Refusal> {
        if record.emails().any(|email| self.is_blocked(email)) {
            return Err(Refusal::Blocked);
        }
        let is_own = |name: &str| name != "email" && self.schema.is_unique(name);
        let own = record.properties.iter().filter(|(name, _)| is_own(name));
        let own = own.map(|(name, value)| (name.as_str(), value.as_str()));
        let emails = record.emails().map(|email| ("email", email));
        for (property, value) in emails.chain(own) {
            if let Some(other) = self.find_unique(property, value)
                && other.id != record.id
            {
                return Err(Refusal::Conflict(other.id));
            }
        }
        Ok(())
    }
}

/// Sets one encoded value under the rules of its property.
fn assign(record: &mut Record, name: &str, value: String) {
    match name {
        "email" => assign_email(record, value),
        "lifecyclestage" if is_step_back(record, &value) => {}
        _ => record.set(name, value),
    }
}

/// An additional address that becomes the primary one changes places with it.
fn assign_email(record: &mut Record, email: String) {
    if record.additional_emails().any(|additional| additional == email) {
        let old = record.email().map(str::to_owned);
        let others = record.additional_emails().filter(|additional| *additional != email);
        let all: Vec<String> = others.map(str::to_owned).chain(old).collect();
        record.set("hs_additional_emails", all.join(";"));
    }
    record.set("email", email);
}

/// HubSpot answers 200 to a step back and keeps the stage; only an empty value lets it start again.
fn is_step_back(record: &Record, value: &str) -> bool {
    let rank = |stage: &str| LIFECYCLE_STAGES.iter().position(|known| *known == stage);
    match (record.get("lifecyclestage").and_then(rank), rank(value)) {
        (Some(current), Some(new)) => new < current,
        _ => false,
    }
}

/// HubSpot takes numbers and booleans for their text; `null` clears like an empty string.
fn as_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
