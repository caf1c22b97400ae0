//! Members of a list. Unknown ids come back as missing, present members are passed over, and empty arrays are left out.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    ProcessingType,
    definition::{find, wrong_object_type},
};
use crate::{
    account::Account,
    answer::{Answer, ApiError, Handled},
    call::Call,
    change::Change,
    clock::iso,
    ids::{ListId, RecordId},
    objects::ObjectType,
};

/// Members per page.
const MAX_PAGE: usize = 250;
/// Members per page when the caller does not say.
const DEFAULT_PAGE: usize = 100;

/// `PUT …/lists/{listId}/memberships/add`.
pub(crate) fn add(account: &mut Account, call: &Call) -> Handled {
    let ids: Vec<String> = call.json()?;
    change(account, call, &ids, &[])
}

/// `PUT …/lists/{listId}/memberships/remove`.
pub(crate) fn remove(account: &mut Account, call: &Call) -> Handled {
    let ids: Vec<String> = call.json()?;
    change(account, call, &[], &ids)
}

/// `PUT …/lists/{listId}/memberships/add-and-remove`.
pub(crate) fn add_and_remove(account: &mut Account, call: &Call) -> Handled {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Body {
        #[serde(default)]
        record_ids_to_add: Vec<String>,
        #[serde(default)]
        record_ids_to_remove: Vec<String>,
    }
    let body: Body = call.json()?;
    change(account, call, &body.record_ids_to_add, &body.record_ids_to_remove)
}

fn change(account: &mut Account, call: &Call, add: &[String], remove: &[String]) -> Handled {
    let list_id = writable_list(account, call)?;
    let mut missing = Vec::new();
    let add = known_ids(account, add, &mut missing);
    let remove = known_ids(account, remove, &mut missing);
    let Some(list) = account.lists.get(list_id) else {
        return Err(ApiError::not_found("List does not exist"));
    };
    let is_member = |id: &RecordId| list.members.contains_key(id);
    let added: Vec<RecordId> = add.into_iter().filter(|id| !is_member(id)).collect();
    let removed: Vec<RecordId> = remove.into_iter().filter(is_member).collect();
    let mut body = Map::new();
    // HubSpot's own spelling: "recordsIdsAdded" beside "recordIdsRemoved".
    for (field, ids) in [("recordsIdsAdded", &added), ("recordIdsRemoved", &removed)] {
        if !ids.is_empty() {
            let ids: Vec<Value> = ids.iter().map(|id| id.to_string().into()).collect();
            body.insert(field.to_owned(), ids.into());
        }
    }
    if !missing.is_empty() {
        body.insert("recordIdsMissing".to_owned(), missing.into());
    }
    if !added.is_empty() || !removed.is_empty() {
        account.record(Change::Members { list_id, added, removed, at: call.now.at });
    }
    Ok(Answer::ok(Value::Object(body)))
}

fn writable_list(account: &Account, call: &Call) -> Result<ListId, ApiError> {
    let list = find(account, call)?;
    if list.processing_type == ProcessingType::Dynamic {
        return Err(ApiError::invalid("Can not operate manually on a dynamic list"));
    }
    if ObjectType::from_path(&list.object_type_id) != Some(ObjectType::Contact) {
        return Err(wrong_object_type(&list.object_type_id));
    }
    Ok(list.id)
}

/// Ids of live records, each once; the rest joins `missing`. A merged-away id is missing too.
fn known_ids(account: &Account, ids: &[String], missing: &mut Vec<String>) -> Vec<RecordId> {
    let mut known = Vec::with_capacity(ids.len());
    for text in ids {
        match text.parse().ok().filter(|id| account.contacts.live(*id).is_some()) {
            Some(id) => known.push(id),
            None => missing.push(text.clone()),
        }
    }
    known.sort_unstable();
    known.dedup();
    known
}

/// `GET …/lists/{listId}/memberships?limit=&after=`.
pub(crate) fn members(account: &mut Account, call: &Call) -> Handled {
    let limit = call.query("limit").and_then(|limit| limit.parse().ok()).unwrap_or(DEFAULT_PAGE);
    if limit > MAX_PAGE {
        return Err(ApiError::invalid(format!("limit must be at most {MAX_PAGE}")));
    }
    let after = call.query("after").and_then(|after| after.parse().ok()).unwrap_or(0);
    let list = find(account, call)?;
    let mut rest = list.members.range(RecordId(after + 1)..).peekable();
    let page: Vec<_> = rest.by_ref().take(limit).collect();
    let results: Vec<Value> =
        page.iter().map(|&(id, &at)| json!({ "recordId": id.to_string(), "membershipTimestamp": iso(at) })).collect();
    let mut body = json!({ "total": list.members.len(), "results": results });
    if let (Some(&(last, _)), Some(_)) = (page.last(), rest.peek()) {
        body["paging"] = json!({ "next": { "after": last.to_string() } });
    }
    Ok(Answer::ok(body))
}
