//! Records as HubSpot shows them.

use serde_json::{Map, Value, json};

use super::{ObjectType, Record};
use crate::clock::iso;

/// What a read shows when it names no property.
fn default_properties(object: ObjectType) -> &'static [&'static str] {
    match object {
        ObjectType::Contact => &["createdate", "email", "firstname", "hs_object_id", "lastmodifieddate", "lastname"],
        ObjectType::Task | ObjectType::Company | ObjectType::Deal | ObjectType::Ticket | ObjectType::Pet => {
            &["createdate", "hs_object_id", "lastmodifieddate"]
        }
    }
}

/// A record as a read shows it: every property that was asked for, `null` where there is no value.
pub(super) fn read(object: ObjectType, record: &Record, properties: &[String]) -> Value {
    let defaults = default_properties(object).iter().map(|name| (*name).to_owned());
    let always = ["createdate", "hs_object_id", "lastmodifieddate"].map(str::to_owned);
    let names: Vec<String> = if properties.is_empty() {
        defaults.collect()
    } else {
        always.into_iter().chain(properties.iter().cloned()).collect()
    };
    show(record, names.iter().map(String::as_str))
}

/// A record as a write shows it: what was written, and what HubSpot always adds.
pub(super) fn written<'a>(record: &Record, names: impl Iterator<Item = &'a str>) -> Value {
    let always = ["createdate", "hs_object_id", "lastmodifieddate"];
    let email = record.email().map(|_| "email");
    show(record, always.into_iter().chain(email).chain(names))
}

fn show<'a>(record: &Record, names: impl Iterator<Item = &'a str>) -> Value {
    let properties: Map<String, Value> = names.map(|name| (name.to_owned(), value_of(record, name).into())).collect();
    let mut shown = json!({
        "id": record.id.to_string(),
        "properties": properties,
        "createdAt": iso(record.created_at),
        "updatedAt": iso(record.updated_at),
        "archived": record.archived_at.is_some(),
    });
    if let Some(at) = record.archived_at {
        shown["archivedAt"] = iso(at).into();
    }
    shown
}

/// A property's value; the record's own columns are properties too.
pub(super) fn value_of(record: &Record, name: &str) -> Option<String> {
    match name {
        "hs_object_id" => Some(record.id.to_string()),
        "createdate" => Some(iso(record.created_at)),
        "lastmodifieddate" | "hs_lastmodifieddate" => Some(iso(record.updated_at)),
        _ => record.get(name).map(str::to_owned),
    }
}
