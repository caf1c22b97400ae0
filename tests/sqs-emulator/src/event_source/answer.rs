//! How Lambda reads the answer of a function that reports its failed messages.
//!
//! Source: "Success and failure conditions" under "Implementing partial batch responses" in the developer guide of
//! Lambda.

use std::collections::BTreeSet;

use serde_json::Value;

/// What happens to the messages of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All are deleted.
    DeleteAll,
    /// All are deleted except those with these message ids.
    DeleteExcept(BTreeSet<String>),
    /// None is deleted; all show again.
    ReturnAll,
}

/// Reads the function's answer, as JSON, for a batch with these message ids.
///
/// An empty answer and an empty or missing list mean success, and so does a list under a misspelt name. An entry
/// without an id, or with one that is not of this batch, returns the whole batch.
pub fn judge(answer: &Value, batch: &BTreeSet<&str>) -> Verdict {
    let failures = match answer {
        Value::Null => return Verdict::DeleteAll,
        Value::Object(fields) => fields.get("batchItemFailures").unwrap_or(&Value::Null),
        _ => return Verdict::ReturnAll,
    };
    let failures = match failures {
        Value::Null => return Verdict::DeleteAll,
        Value::Array(failures) => failures,
        _ => return Verdict::ReturnAll,
    };
    let known_id = |failure: &Value| {
        let id = failure.get("itemIdentifier")?.as_str()?;
        batch.contains(id).then(|| id.to_owned())
    };
    match failures.iter().map(known_id).collect::<Option<BTreeSet<String>>>() {
        None => Verdict::ReturnAll,
        Some(failed) if failed.is_empty() => Verdict::DeleteAll,
        Some(failed) => Verdict::DeleteExcept(failed),
    }
}
