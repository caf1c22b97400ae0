//! The state as JSON, for assertions and for the page.

use serde_json::{Map, Value, json};

use super::Request;
use crate::{
    account::Account,
    answer::{Answer, Handled},
    clock::iso,
    objects::Record,
    world::World,
};

/// Contacts that the page shows at once.
const DEFAULT_PAGE: usize = 25;
/// Contacts that one answer holds.
const MAX_PAGE: usize = 1_000;

/// `GET /__simulator/state`: everything of one account.
pub(super) fn state(world: &World, request: &Request<'_>) -> Handled {
    let account = request.account(world)?;
    let contacts: Vec<Value> = account.contacts.all().map(|record| contact(account, record)).collect();
    let tasks: Vec<Value> = account.tasks.all().map(|record| json!(record)).collect();
    let lists: Vec<Value> = account
        .lists
        .all()
        .map(|list| {
            let members: Vec<String> = list.members.keys().map(ToString::to_string).collect();
            json!({ "listId": list.id, "name": list.name, "processingType": list.processing_type, "members": members })
        })
        .collect();
    let statuses: Map<String, Value> = account
        .preferences
        .all()
        .map(|(email, subscriber)| {
            let opted_out_at = subscriber.opted_out_at.map(iso);
            (email.clone(), json!({ "statuses": subscriber.statuses, "optedOutAt": opted_out_at }))
        })
        .collect();
    Ok(Answer::ok(json!({
        "portalId": account.settings.portal_id,
        "contacts": contacts,
        "tasks": tasks,
        "statuses": statuses,
        "lists": lists,
    })))
}

/// `GET /__simulator/contacts?email=`, or `?query=&offset=&limit=`, newest first.
pub(super) fn contacts(world: &World, request: &Request<'_>) -> Handled {
    let account = request.account(world)?;
    if let Some(email) = request.query("email") {
        let found = account.contacts.find_unique("email", &email);
        let results: Vec<Value> = found.into_iter().map(|record| contact(account, record)).collect();
        return Ok(Answer::ok(json!({ "total": results.len(), "results": results })));
    }
    Ok(Answer::ok(contact_page(account, request)))
}

/// `GET /__simulator/live`: what the page polls.
pub(super) fn live(world: &mut World, request: &Request<'_>) -> Handled {
    let stats = world.stats();
    let account = request.account(world)?;
    let portal = account.settings.portal_id;
    let lists: Vec<Value> = account
        .lists
        .all()
        .map(|list| json!({ "id": list.id, "name": list.name, "type": list.processing_type, "size": list.members.len() }))
        .collect();
    let definitions: Vec<Value> = account
        .settings
        .definitions
        .iter()
        .map(|definition| json!({ "id": definition.id, "name": definition.name }))
        .collect();
    let portals: Vec<_> = world.accounts.iter().map(|account| account.settings.portal_id).collect();
    Ok(Answer::ok(json!({
        "portal": portal,
        "portals": portals,
        "window": stats.accounts.get(&portal),
        "total": stats.total,
        "answered429": stats.answered_429,
        "endpoints": stats.endpoints,
        "faults": world.faults.all().len(),
        "lists": lists,
        "definitions": definitions,
        "contacts": contact_page(account, request),
    })))
}

fn contact_page(account: &Account, request: &Request<'_>) -> Value {
    let number = |name: &str| request.query(name).and_then(|value| value.parse::<usize>().ok());
    let (offset, limit) = (number("offset").unwrap_or(0), number("limit").unwrap_or(DEFAULT_PAGE));
    let query = request.query("query").unwrap_or_default().to_lowercase();
    let is_wanted = |record: &&Record| {
        query.is_empty()
            || record.id.to_string() == query
            || record.properties.values().any(|value| value.to_lowercase().contains(&query))
    };
    let mut found: Vec<&Record> = account.contacts.all().filter(is_wanted).collect();
    found.sort_by_key(|record| std::cmp::Reverse((record.updated_at, record.id)));
    let total = found.len();
    let page = found.into_iter().skip(offset).take(limit.min(MAX_PAGE));
    let results: Vec<Value> = page.map(|record| contact(account, record)).collect();
    json!({ "total": total, "offset": offset, "limit": limit, "results": results })
}

/// A contact with its statuses and lists.
fn contact(account: &Account, record: &Record) -> Value {
    let email = record.email().unwrap_or_default();
    let definitions = account.settings.definitions.iter();
    let statuses: Map<String, Value> = definitions
        .filter_map(|definition| {
            let status = account.preferences.get(email, definition.id)?;
            Some((definition.id.to_string(), json!(status.state)))
        })
        .collect();
    let lists: Vec<_> = account.lists.of_record(record.id).collect();
    json!({
        "id": record.id.to_string(),
        "properties": record.properties,
        "createdAt": iso(record.created_at),
        "updatedAt": iso(record.updated_at),
        "statuses": statuses,
        "lists": lists,
    })
}
