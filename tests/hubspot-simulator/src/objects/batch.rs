//! `batch/upsert`, `batch/create` and `batch/update`: rows by trace id, or all or nothing.

use std::collections::HashSet;

use rand::seq::SliceRandom;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{NewValues, ObjectStore, ObjectType, Record, Refusal, render, write::invalid_values};
use crate::{
    account::Account,
    answer::{Answer, ApiError, Handled},
    call::{Call, MAX_BATCH_INPUTS, check_batch_size},
    change::Change,
    clock::iso,
    ids::RecordId,
    properties::{fold_email, is_email},
};

#[derive(Deserialize)]
struct Batch {
    #[serde(default)]
    inputs: Vec<Input>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    id_property: Option<String>,
    #[serde(default)]
    properties: NewValues,
    #[serde(default)]
    object_write_trace_id: Option<String>,
}

/// Where a row goes.
enum Target {
    New,
    Existing(RecordId),
    /// HubSpot answers 2xx and leaves the row out of everything.
    Omitted,
    Missing,
}

/// What became of one row, in the order of the inputs.
struct Row {
    input: Input,
    outcome: RowOutcome,
}

enum RowOutcome {
    Written { record: Record, before: Option<Record> },
    Omitted,
    Refused(Refusal),
}

/// `POST …/batch/upsert`: by `email` or by a property with unique values.
pub(crate) fn batch_upsert(account: &mut Account, call: &Call) -> Handled {
    let Batch { inputs } = call.json()?;
    check_batch_size(inputs.len(), MAX_BATCH_INPUTS)?;
    let property = shared_id_property(&inputs)?.unwrap_or_default();
    let store = account.store_mut(call.object);
    check_unique_property(store, &property)?;
    check_ids(&inputs, &property)?;
    let rows = write_rows(store, inputs, call, |store, input| upsert_target(store, input, &property));
    answer(account, call, rows, Kind::Upsert)
}

/// A new record takes its id for the value of the id property; a known one keeps the value that it has, since it may be
/// addressed by an additional address.
fn upsert_target(store: &ObjectStore, input: &mut Input, property: &str) -> Target {
    let id = input.id.clone().unwrap_or_default();
    if let Some(record) = store.find_unique(property, &id) {
        return Target::Existing(record.id);
    }
    if property == "email" && !is_email(&fold_email(&id)) {
        // The value that is refused is the id, whatever the properties say.
        input.properties.insert(property.to_owned(), id.into());
    } else {
        input.properties.entry(property.to_owned()).or_insert_with(|| id.into());
    }
    Target::New
}

/// `POST …/batch/create`.
pub(crate) fn batch_create(account: &mut Account, call: &Call) -> Handled {
    let Batch { inputs } = call.json()?;
    check_batch_size(inputs.len(), MAX_BATCH_INPUTS)?;
    let rows = write_rows(account.store_mut(call.object), inputs, call, |_, _| Target::New);
    answer(account, call, rows, Kind::Create)
}

/// `POST …/batch/update`: by record id. A merged-away id is left out silently, and so is every contact that is addressed
/// by its e-mail (recorded behaviour).
pub(crate) fn batch_update(account: &mut Account, call: &Call) -> Handled {
    let Batch { inputs } = call.json()?;
    check_batch_size(inputs.len(), MAX_BATCH_INPUTS)?;
    let property = shared_id_property(&inputs)?.filter(|name| name != "hs_object_id");
    let store = account.store_mut(call.object);
    if let Some(property) = &property {
        check_unique_property(store, property)?;
    }
    check_ids(&inputs, property.as_deref().unwrap_or_default())?;
    let find = |store: &ObjectStore, input: &mut Input| {
        let id = input.id.as_deref().unwrap_or_default();
        match property.as_deref() {
            Some("email") => Target::Omitted,
            Some(property) => {
                store.find_unique(property, id).map_or(Target::Missing, |record| Target::Existing(record.id))
            }
            None => by_record_id(store, id),
        }
    };
    let rows = write_rows(store, inputs, call, find);
    answer(account, call, rows, Kind::Update)
}

fn by_record_id(store: &ObjectStore, id: &str) -> Target {
    match id.parse::<RecordId>() {
        Ok(id) if store.is_merged_away(id) => Target::Omitted,
        Ok(id) if store.live(id).is_some() => Target::Existing(id),
        _ => Target::Missing,
    }
}

/// The one `idProperty` of the batch, absent when no row names any.
fn shared_id_property(inputs: &[Input]) -> Result<Option<String>, ApiError> {
    let first = inputs.first().and_then(|input| input.id_property.clone());
    if inputs.iter().any(|input| input.id_property != first) {
        return Err(ApiError::invalid("All inputs of a batch must use the same idProperty"));
    }
    Ok(first)
}

fn check_unique_property(store: &ObjectStore, property: &str) -> Result<(), ApiError> {
    if store.schema.is_unique(property) {
        return Ok(());
    }
    Err(ApiError::invalid(format!("Unable to update or upsert by non-unique property '{property}'")))
}

/// A missing id and one that comes twice refuse the whole batch, also with trace ids; addresses are compared folded.
fn check_ids(inputs: &[Input], property: &str) -> Result<(), ApiError> {
    let is_blank = |input: &Input| input.id.as_deref().is_none_or(|id| id.trim().is_empty());
    if inputs.iter().any(is_blank) {
        return Err(ApiError::invalid("Every input of the batch needs an id"));
    }
    let mut seen = HashSet::new();
    let mut twice = Vec::new();
    for input in inputs {
        let id = input.id.as_deref().unwrap_or_default();
        let id = if property == "email" { fold_email(id) } else { id.to_owned() };
        if !seen.insert(id.clone()) && !twice.contains(&id) {
            twice.push(id);
        }
    }
    if twice.is_empty() {
        return Ok(());
    }
    let names = twice.join(", ");
    let message = format!("Duplicate IDs found in batch input: [{names}]. IDs must be unique");
    Err(ApiError::invalid(message).context("ids", twice))
}

fn write_rows(
    store: &mut ObjectStore,
    inputs: Vec<Input>,
    call: &Call,
    find: impl Fn(&ObjectStore, &mut Input) -> Target,
) -> Vec<Row> {
    let write = |mut input: Input| {
        let target = match find(store, &mut input) {
            Target::New => None,
            Target::Existing(id) => Some(id),
            Target::Omitted => return Row { input, outcome: RowOutcome::Omitted },
            Target::Missing => {
                let outcome = RowOutcome::Refused(Refusal::Missing);
                return Row { input, outcome };
            }
        };
        let before = target.and_then(|id| store.live(id).cloned());
        let outcome = match store.write(target, &input.properties, call.now.at) {
            Ok(record) => RowOutcome::Written { record, before },
            Err(refusal) => RowOutcome::Refused(refusal),
        };
        Row { input, outcome }
    };
    inputs.into_iter().map(write).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Upsert,
    Create,
    Update,
}

/// With a trace id on every row each row stands for itself; else the first bad value undoes the whole batch.
fn answer(account: &mut Account, call: &Call, rows: Vec<Row>, kind: Kind) -> Handled {
    let is_traced = rows.iter().all(|row| row.input.object_write_trace_id.is_some());
    if !is_traced && let Some(error) = refusal_of_all(&rows, call.object) {
        undo(account.store_mut(call.object), rows);
        return Err(error);
    }
    let mut results = Vec::new();
    let mut errors = Vec::new();
    for Row { input, outcome } in rows {
        match outcome {
            RowOutcome::Written { record, before } => {
                results.push(render_result(&input, &record, before.is_none(), kind));
                account.note(Change::Record { object: call.object, record });
            }
            RowOutcome::Omitted => {}
            RowOutcome::Refused(refusal) => errors.push(render_error(input, refusal, call.object)),
        }
    }
    results.shuffle(&mut account.dice);
    Ok(batch_answer(call, &results, &errors, if kind == Kind::Create { 201 } else { 200 }))
}

/// The error of an untraced batch: all invalid values together, else the first conflict. A missing record is no reason.
fn refusal_of_all(rows: &[Row], object: ObjectType) -> Option<ApiError> {
    let refusals = || {
        rows.iter().filter_map(|row| match &row.outcome {
            RowOutcome::Refused(refusal) => Some(refusal),
            _ => None,
        })
    };
    let problems: Vec<_> = refusals()
        .flat_map(|refusal| match refusal {
            Refusal::Invalid(problems) => problems.clone(),
            _ => Vec::new(),
        })
        .collect();
    if !problems.is_empty() {
        return Some(invalid_values(&problems));
    }
    let first = refusals().find(|refusal| !matches!(refusal, Refusal::Missing))?;
    Some(first.clone().into_error(object))
}

fn undo(store: &mut ObjectStore, rows: Vec<Row>) {
    for row in rows.into_iter().rev() {
        match row.outcome {
            RowOutcome::Written { before: Some(before), .. } => store.put(before),
            RowOutcome::Written { record, before: None } => store.forget(record.id, None),
            RowOutcome::Omitted | RowOutcome::Refused(_) => {}
        }
    }
}

fn render_result(input: &Input, record: &Record, is_new: bool, kind: Kind) -> Value {
    let mut result = render::written(record, input.properties.keys().map(String::as_str));
    if kind == Kind::Upsert {
        result["new"] = is_new.into();
    }
    if let Some(trace_id) = &input.object_write_trace_id {
        result["objectWriteTraceId"] = trace_id.clone().into();
    }
    result
}

fn render_error(input: Input, refusal: Refusal, object: ObjectType) -> Value {
    let is_missing = matches!(refusal, Refusal::Missing);
    let mut error = refusal.into_error(object);
    if is_missing {
        error = error.context("ids", input.id);
    }
    if let Some(trace_id) = input.object_write_trace_id {
        error = error.context("objectWriteTraceId", [trace_id]);
    }
    error.into_row()
}

/// The envelope of every batch answer; 207 as soon as there are errors.
pub(crate) fn batch_answer(call: &Call, results: &[Value], errors: &[Value], status: u16) -> Answer {
    let at = iso(call.now.at);
    let mut body = json!({
        "status": "COMPLETE", "results": results, "startedAt": at, "completedAt": at,
    });
    if errors.is_empty() {
        return Answer::json(status, body);
    }
    body["numErrors"] = errors.len().into();
    body["errors"] = errors.into();
    Answer::json(207, body)
}
