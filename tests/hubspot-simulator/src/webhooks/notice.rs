//! From changes of the state to what HubSpot reports of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    change::Change,
    ids::{PortalId, RecordId},
    objects::{ObjectType, Record},
};

/// Values by property, of every live contact.
type Known = BTreeMap<(PortalId, RecordId), BTreeMap<String, String>>;

/// What HubSpot reports of the changes of one call: creations, property changes, deletions, merges and privacy deletions of
/// contacts. Of a merge it reports no values, though they may have changed.
pub(super) fn notifications(known: &mut Known, portal: PortalId, changes: &[Change], at: Timestamp) -> Vec<Value> {
    let merge = merged(changes);
    let mut found = Vec::new();
    for change in changes {
        match change {
            Change::Record { object: ObjectType::Contact, record } if merge.is_some() => {
                known.insert((portal, record.id), record.properties.clone());
            }
            Change::Record { object: ObjectType::Contact, record } => found.extend(of_record(known, portal, record)),
            Change::Gone { object: ObjectType::Contact, id, blocked_email } if id.0 > 0 => {
                known.remove(&(portal, *id));
                if blocked_email.is_some() {
                    found.push(notification(portal, "contact.privacyDeletion", *id, at));
                    found.push(notification(portal, "contact.deletion", *id, at));
                }
            }
            _ => {}
        }
    }
    if let Some(Merge { primary, other, survivor }) = merge {
        let mut merge = notification(portal, "contact.merge", primary, at);
        merge["primaryObjectId"] = json!(primary);
        merge["mergedObjectIds"] = json!([other]);
        merge["newObjectId"] = json!(survivor);
        found.extend([merge, notification(portal, "contact.deletion", other, at)]);
    }
    found
}

struct Merge {
    primary: RecordId,
    other: RecordId,
    survivor: RecordId,
}

/// A merge leaves two aliases, the primary record's first.
fn merged(changes: &[Change]) -> Option<Merge> {
    let mut aliases = changes.iter().filter_map(|change| match change {
        Change::Alias { object: ObjectType::Contact, from, to } => Some((*from, *to)),
        _ => None,
    });
    let ((primary, survivor), (other, _)) = (aliases.next()?, aliases.next()?);
    Some(Merge { primary, other, survivor })
}

fn of_record(known: &mut Known, portal: PortalId, record: &Record) -> Vec<Value> {
    let at = record.updated_at;
    let key = (portal, record.id);
    if record.archived_at.is_some() {
        return known
            .remove(&key)
            .map(|_| notification(portal, "contact.deletion", record.id, at))
            .into_iter()
            .collect();
    }
    let before = known.insert(key, record.properties.clone());
    let created = before.is_none().then(|| {
        let mut creation = notification(portal, "contact.creation", record.id, at);
        creation["changeFlag"] = json!("NEW");
        creation
    });
    let before = before.unwrap_or_default();
    let written = record.properties.iter().filter(|(name, value)| before.get(*name) != Some(value));
    let written = written.map(|(name, value)| (name, value.as_str()));
    let cleared = before.keys().filter(|name| !record.properties.contains_key(*name)).map(|name| (name, ""));
    let changed = written.chain(cleared).map(|(name, value)| {
        let mut change = notification(portal, "contact.propertyChange", record.id, at);
        change["propertyName"] = json!(name);
        change["propertyValue"] = json!(value);
        change
    });
    created.into_iter().chain(changed).collect()
}

fn notification(portal: PortalId, kind: &str, id: RecordId, at: Timestamp) -> Value {
    json!({
        "portalId": portal,
        "subscriptionType": kind,
        "objectId": id,
        "occurredAt": at.as_millisecond(),
        "attemptNumber": 0,
        "changeSource": "CRM",
    })
}
