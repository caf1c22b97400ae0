//! Merging two contacts, which makes a third id.

use jiff::Timestamp;
use serde::Deserialize;

use super::{ObjectType, Record, render};
use crate::{
    account::Account,
    answer::{Answer, ApiError, Handled},
    call::Call,
    change::Change,
    ids::RecordId,
};

/// `POST …/merge`.
pub(crate) fn merge(account: &mut Account, call: &Call) -> Handled {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Body {
        primary_object_id: String,
        object_id_to_merge: String,
    }
    let body: Body = call.json()?;
    let id = |text: &str| text.parse().map_err(|_| ApiError::invalid("Object ids are numeric"));
    let (primary, other) = (id(&body.primary_object_id)?, id(&body.object_id_to_merge)?);
    match merge_records(account, primary, other, call.now.at) {
        Ok(survivor) => Ok(Answer::ok(render::read(call.object, &survivor, &[]))),
        Err(MergeError::Missing) => Err(ApiError::not_found("resource not found")),
        Err(MergeError::Same) => Err(ApiError::invalid("A record cannot be merged with itself")),
    }
}

/// Why nothing was merged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MergeError {
    /// One of the records does not exist.
    Missing,
    /// Both ids are the same record.
    Same,
}

/// Merges `other` into `primary`: a new record takes over both ids, addresses and list memberships; values of the
/// primary one win.
pub(crate) fn merge_records(
    account: &mut Account,
    primary: RecordId,
    other: RecordId,
    at: Timestamp,
) -> Result<Record, MergeError> {
    let find = |id: RecordId| account.contacts.find(id).cloned().ok_or(MergeError::Missing);
    let (primary, other) = (find(primary)?, find(other)?);
    if primary.id == other.id {
        return Err(MergeError::Same);
    }
    let survivor = survivor_of(account.contacts.take_id(), &primary, &other, at);
    let lists = account.lists.of_record(primary.id).chain(account.lists.of_record(other.id));
    let lists: Vec<_> = lists.collect();
    let object = ObjectType::Contact;
    for gone in [primary.id, other.id] {
        account.leave_lists(gone, at);
        account.record(Change::Gone { object, id: gone, blocked_email: None });
        account.record(Change::Alias { object, from: gone, to: survivor.id });
    }
    account.record(Change::Record { object, record: survivor.clone() });
    for list_id in lists {
        account.record(Change::Members { list_id, added: vec![survivor.id], removed: Vec::new(), at });
    }
    Ok(survivor)
}

fn survivor_of(id: RecordId, primary: &Record, other: &Record, at: Timestamp) -> Record {
    let mut properties = other.properties.clone();
    properties.extend(primary.properties.clone());
    let mut survivor = Record {
        id,
        properties,
        created_at: primary.created_at.min(other.created_at),
        updated_at: at,
        archived_at: None,
    };
    let kept = survivor.email().map(str::to_owned);
    let emails = primary.emails().chain(other.emails()).map(str::to_owned);
    let additional: Vec<String> = emails.filter(|email| Some(email) != kept.as_ref()).collect();
    survivor.set("hs_additional_emails", additional.join(";"));
    let merged = [primary, other].map(|record| {
        let earlier = record.get("hs_merged_object_ids").unwrap_or_default();
        format!("{earlier};{}", record.id).trim_start_matches(';').to_owned()
    });
    survivor.set("hs_merged_object_ids", merged.join(";"));
    survivor.set("hs_calculated_merged_vids", merged.join(";"));
    survivor
}
