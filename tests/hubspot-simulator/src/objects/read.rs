//! `batch/read`, single reads and the plain list.

use std::collections::BTreeSet;

use rand::seq::SliceRandom;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ObjectStore, Record, batch::batch_answer, render};
use crate::{
    account::Account,
    answer::{Answer, ApiError, Handled},
    call::{Call, MAX_BATCH_INPUTS, check_batch_size},
    ids::RecordId,
};

/// Inputs of a batch read that asks for history. Source: contacts guide.
const MAX_INPUTS_WITH_HISTORY: usize = 50;
/// Records per page of the plain list.
const MAX_PAGE: usize = 100;
/// Records per page when the caller does not say.
const DEFAULT_PAGE: usize = 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BatchRead {
    #[serde(default)]
    inputs: Vec<ReadInput>,
    #[serde(default)]
    properties: Vec<String>,
    #[serde(default)]
    properties_with_history: Vec<String>,
    #[serde(default)]
    id_property: Option<String>,
}

#[derive(Deserialize)]
struct ReadInput {
    id: String,
}

/// `POST …/batch/read`: a merged-away id gives its survivor, unknown ids come back as one group of errors.
pub(crate) fn batch_read(account: &mut Account, call: &Call) -> Handled {
    let request: BatchRead = call.json()?;
    let has_history = !request.properties_with_history.is_empty();
    check_batch_size(request.inputs.len(), if has_history { MAX_INPUTS_WITH_HISTORY } else { MAX_BATCH_INPUTS })?;
    let store = account.store(call.object);
    let id_property = request.id_property.as_deref();
    check_id_property(store, id_property)?;
    let mut shown = BTreeSet::new();
    let mut results = Vec::new();
    let mut missing = Vec::new();
    for input in request.inputs {
        match find(store, &input.id, id_property) {
            Some(record) if shown.insert(record.id) => {
                results.push(render::read(call.object, record, &request.properties));
            }
            Some(_) => {}
            None => missing.push(input.id),
        }
    }
    results.shuffle(&mut account.dice);
    let errors = if missing.is_empty() { Vec::new() } else { vec![not_found_group(call, missing)] };
    Ok(batch_answer(call, &results, &errors, 200))
}

fn not_found_group(call: &Call, ids: Vec<String>) -> Value {
    let kind = call.object.title().to_uppercase();
    let message =
        format!("Could not get some {kind} objects, they may be deleted or not exist. Check that ids are valid.");
    ApiError::not_found(message).context("ids", ids).into_row()
}

/// Finds by record id or by the named unique property.
pub(super) fn find<'a>(store: &'a ObjectStore, id: &str, id_property: Option<&str>) -> Option<&'a Record> {
    match id_property.filter(|name| *name != "hs_object_id") {
        Some(property) => store.find_unique(property, id),
        None => store.find(id.parse().ok()?),
    }
}

pub(super) fn check_id_property(store: &ObjectStore, id_property: Option<&str>) -> Result<(), ApiError> {
    match id_property {
        Some(name) if name != "hs_object_id" && !store.schema.is_unique(name) => {
            Err(ApiError::invalid(format!("Unable to look up records by non-unique property '{name}'")))
        }
        _ => Ok(()),
    }
}

/// `GET …/{id}?idProperty=&properties=`.
pub(crate) fn get(account: &mut Account, call: &Call) -> Handled {
    let store = account.store(call.object);
    let id_property = call.query("idProperty");
    check_id_property(store, id_property)?;
    let id = call.param(0);
    let archived = || {
        let wanted = call.query("archived") == Some("true");
        id.parse().ok().filter(|_| wanted).and_then(|id: RecordId| store.archived(id))
    };
    let record = find(store, id, id_property).or_else(archived).ok_or_else(|| missing(call, id_property))?;
    Ok(Answer::ok(render::read(call.object, record, &call.query_list("properties"))))
}

/// The two texts of a 404; the echoed id is the raw end of the URL, which shows a client its own double encoding.
pub(super) fn missing(call: &Call, id_property: Option<&str>) -> ApiError {
    let is_numeric = call.param(0).parse::<u64>().is_ok();
    if is_numeric && id_property.is_none() {
        return ApiError::not_found("resource not found");
    }
    ApiError::not_found("Object not found.  objectId are usually numeric.").context("id", [&call.raw_tail])
}

/// `GET …?limit=&after=`.
pub(crate) fn list(account: &mut Account, call: &Call) -> Handled {
    let number = |name: &str| call.query(name).and_then(|value| value.parse::<u64>().ok());
    let limit = number("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(DEFAULT_PAGE);
    if limit > MAX_PAGE {
        return Err(ApiError::invalid(format!("limit must be at most {MAX_PAGE}")));
    }
    let after = RecordId(number("after").unwrap_or(0));
    let properties = call.query_list("properties");
    let mut records = account.store(call.object).all_after(after).peekable();
    let page: Vec<&Record> = records.by_ref().take(limit).collect();
    let shown: Vec<Value> = page.iter().map(|record| render::read(call.object, record, &properties)).collect();
    let mut body = json!({ "results": shown });
    if let (Some(last), Some(_)) = (page.last(), records.peek()) {
        body["paging"] = json!({ "next": { "after": last.id.to_string() } });
    }
    Ok(Answer::ok(body))
}
