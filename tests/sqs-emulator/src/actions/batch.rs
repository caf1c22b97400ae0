//! What the batch actions share: the rules for entries, and faults of single entries.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::Call;
use crate::error::SqsError;
use crate::faults::{EntryFault, Occasion};

/// Entries that one batch may have (quota of SQS).
const ENTRIES_MAX: usize = 10;
/// Characters that an entry's id may have (quota of SQS).
const ENTRY_ID_CHARACTERS_MAX: usize = 80;

/// An entry of a batch request.
pub(super) trait BatchEntry {
    /// Name of the entry's type, which the error for an empty batch mentions.
    const TYPE: &'static str;

    /// The id that ties the entry to its part of the answer.
    fn id(&self) -> &str;
}

/// Applies a batch entry by entry and lists what succeeded and what failed.
///
/// An error of the batch itself (size, ids) refuses all of it.
pub(super) fn apply<E: BatchEntry>(
    call: &mut Call<'_>,
    action: &str,
    queue: &str,
    entries: Vec<E>,
    mut effect: impl FnMut(&mut Call<'_>, E) -> Result<Value, SqsError>,
) -> Value {
    let mut successful = Vec::new();
    let mut failed = Vec::new();
    for (position, entry) in entries.into_iter().enumerate() {
        let id = entry.id().to_owned();
        let occasion = Occasion { action, queue, position: Some(position) };
        let answer = match call.store.faults.strike_entry(occasion) {
            Some(EntryFault::Fails(error)) => Err(error),
            Some(EntryFault::Omitted { effect: false }) => continue,
            Some(EntryFault::Omitted { effect: true }) => {
                let _unsaid = effect(call, entry);
                continue;
            }
            None => effect(call, entry),
        };
        match answer {
            Ok(mut result) => {
                result["Id"] = Value::String(id);
                successful.push(result);
            }
            Err(error) => failed.push(error.batch_entry(&id)),
        }
    }
    answer_of(&successful, failed)
}

/// SQS leaves an empty `Failed` out, and `Successful` stays as an empty list.
fn answer_of(successful: &[Value], failed: Vec<Value>) -> Value {
    let mut answer = json!({ "Successful": successful });
    if !failed.is_empty() {
        answer["Failed"] = Value::Array(failed);
    }
    answer
}

/// Refuses a batch that is empty or too long, or whose ids repeat or are ill formed.
pub(super) fn validate<E: BatchEntry>(entries: &[E]) -> Result<(), SqsError> {
    if entries.is_empty() {
        return Err(SqsError::empty_batch(E::TYPE));
    }
    if entries.len() > ENTRIES_MAX {
        return Err(SqsError::too_many_entries(ENTRIES_MAX, entries.len()));
    }
    if !entries.iter().all(|entry| is_entry_id(entry.id())) {
        return Err(SqsError::invalid_entry_id());
    }
    let mut seen = HashSet::new();
    match entries.iter().find(|entry| !seen.insert(entry.id())) {
        Some(repeated) => Err(SqsError::entry_ids_not_distinct(repeated.id())),
        None => Ok(()),
    }
}

fn is_entry_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=ENTRY_ID_CHARACTERS_MAX).contains(&id.len()) && id.bytes().all(allowed)
}
