//! Creating, finding and deleting lists.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{List, ProcessingType};
use crate::{
    account::Account,
    answer::{Answer, ApiError, Handled},
    call::Call,
    change::Change,
    objects::ObjectType,
};

/// Lists per page of a search when the caller does not say.
const DEFAULT_PAGE: usize = 20;
/// Lists per page of a search.
const MAX_PAGE: usize = 500;

/// `POST …/lists`.
pub(crate) fn create(account: &mut Account, call: &Call) -> Handled {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Body {
        name: String,
        object_type_id: String,
        processing_type: ProcessingType,
        #[serde(default)]
        filter_branch: Option<Value>,
    }
    let body: Body = call.json()?;
    if ObjectType::from_path(&body.object_type_id).is_none() {
        return Err(wrong_object_type(&body.object_type_id));
    }
    if body.processing_type == ProcessingType::Dynamic && body.filter_branch.is_none() {
        return Err(ApiError::invalid("A dynamic list needs a filterBranch"));
    }
    if account.lists.all().any(|list| list.name == body.name) {
        return Err(ApiError::invalid(format!("A list named '{}' already exists", body.name))
            .with("subCategory", "ILS.DUPLICATE_LIST_NAMES"));
    }
    let list = List {
        id: account.lists.next_id(),
        name: body.name,
        object_type_id: body.object_type_id,
        processing_type: body.processing_type,
        is_deleted: false,
        members: std::collections::BTreeMap::new(),
    };
    let answer = Answer::ok(json!({ "list": list_object(&list) }));
    account.record(Change::List { list });
    Ok(answer)
}

/// The refusal of a list of other records than the call is about.
pub(super) fn wrong_object_type(object_type_id: &str) -> ApiError {
    let message = format!("The objectTypeId {object_type_id} provided for the list is not valid for this portal.");
    ApiError::invalid(message).with("subCategory", "ListError.INVALID_OBJECT_TYPE_FOR_LIST")
}

/// `GET …/lists/{listId}`.
pub(crate) fn get(account: &mut Account, call: &Call) -> Handled {
    let list = find(account, call)?;
    Ok(Answer::ok(json!({ "list": list_object(list) })))
}

/// `GET …/lists/object-type-id/{objectTypeId}/name/{listName}`.
pub(crate) fn by_name(account: &mut Account, call: &Call) -> Handled {
    let (object_type_id, name) = (call.param(0), call.param(1));
    let mut lists = account.lists.all();
    let found = lists.find(|list| list.object_type_id == object_type_id && list.name == name);
    let list = found.ok_or_else(unknown_list)?;
    Ok(Answer::ok(json!({ "list": list_object(list) })))
}

/// `DELETE …/lists/{listId}`.
pub(crate) fn delete(account: &mut Account, call: &Call) -> Handled {
    let mut list = find(account, call)?.clone();
    list.is_deleted = true;
    account.record(Change::List { list });
    Ok(Answer::no_content())
}

/// `POST …/lists/search`.
pub(crate) fn search(account: &mut Account, call: &Call) -> Handled {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Body {
        #[serde(default)]
        offset: usize,
        #[serde(default)]
        count: Option<usize>,
        #[serde(default)]
        query: Option<String>,
        #[serde(default)]
        list_ids: Option<Vec<String>>,
        #[serde(default)]
        processing_types: Option<Vec<ProcessingType>>,
    }
    let body: Body = call.json()?;
    let count = body.count.unwrap_or(DEFAULT_PAGE).min(MAX_PAGE);
    let query = body.query.unwrap_or_default().to_lowercase();
    let is_wanted = |list: &&List| {
        list.name.to_lowercase().contains(&query)
            && body.list_ids.as_ref().is_none_or(|ids| ids.contains(&list.id.to_string()))
            && body.processing_types.as_ref().is_none_or(|types| types.contains(&list.processing_type))
    };
    let found: Vec<Value> = account.lists.all().filter(is_wanted).map(list_object).collect();
    let total = found.len();
    let page: Vec<Value> = found.into_iter().skip(body.offset).take(count).collect();
    let next = body.offset + page.len();
    Ok(Answer::ok(json!({
        "lists": page, "offset": next, "hasMore": next < total, "total": total,
    })))
}

/// The list of the path, or HubSpot's 404.
pub(super) fn find<'a>(account: &'a Account, call: &Call) -> Result<&'a List, ApiError> {
    let id = call.param(0).parse().ok();
    id.and_then(|id| account.lists.get(id)).ok_or_else(unknown_list)
}

fn unknown_list() -> ApiError {
    ApiError::not_found("List does not exist").with("subCategory", "ListError.LIST_NOT_FOUND")
}

fn list_object(list: &List) -> Value {
    json!({
        "listId": list.id.to_string(),
        "name": list.name,
        "objectTypeId": list.object_type_id,
        "processingType": list.processing_type,
        "processingStatus": "COMPLETE",
        "size": list.members.len(),
        "additionalProperties": { "hs_list_size": list.members.len().to_string() },
    })
}
