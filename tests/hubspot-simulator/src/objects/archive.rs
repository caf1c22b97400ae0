//! Archiving (the recycling bin) and erasing for privacy.

use jiff::Timestamp;
use serde::Deserialize;

use super::{ObjectType, read};
use crate::{
    account::Account,
    answer::{Answer, Handled},
    call::{Call, MAX_BATCH_INPUTS, check_batch_size},
    change::Change,
    ids::RecordId,
    properties::fold_email,
};

/// `DELETE …/{id}`: 204, also when it is repeated.
pub(crate) fn delete(account: &mut Account, call: &Call) -> Handled {
    let found = read::find(account.store(call.object), call.param(0), call.query("idProperty"));
    if let Some(id) = found.map(|record| record.id) {
        archive(account, call.object, id, call.now.at);
    }
    Ok(Answer::no_content())
}

/// `POST …/batch/archive`: 204, also for unknown ids.
pub(crate) fn batch_archive(account: &mut Account, call: &Call) -> Handled {
    #[derive(Deserialize)]
    struct Batch {
        #[serde(default)]
        inputs: Vec<Input>,
    }
    #[derive(Deserialize)]
    struct Input {
        id: String,
    }
    let Batch { inputs } = call.json()?;
    check_batch_size(inputs.len(), MAX_BATCH_INPUTS)?;
    for input in inputs {
        if let Ok(id) = input.id.parse() {
            archive(account, call.object, id, call.now.at);
        }
    }
    Ok(Answer::no_content())
}

/// Moves a live record to the recycling bin and out of its lists; false when there is none.
pub(crate) fn archive(account: &mut Account, object: ObjectType, id: RecordId, at: Timestamp) -> bool {
    let Some(mut record) = account.store(object).live(id).cloned() else {
        return false;
    };
    record.archived_at = Some(at);
    record.updated_at = at;
    account.record(Change::Record { object, record });
    if object == ObjectType::Contact {
        account.leave_lists(id, at);
    }
    true
}

/// `POST …/gdpr-delete`: the record is gone and its address is refused from now on, known or not.
pub(crate) fn gdpr_delete(account: &mut Account, call: &Call) -> Handled {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Body {
        object_id: String,
        #[serde(default)]
        id_property: Option<String>,
    }
    let body: Body = call.json()?;
    let by_email = body.id_property.as_deref() == Some("email");
    let record = read::find(account.store(call.object), &body.object_id, body.id_property.as_deref());
    let known = record.map(|record| (record.id, record.email().map(str::to_owned)));
    let (id, email) = known.unwrap_or((RecordId(0), None));
    let blocked_email = email.or_else(|| by_email.then(|| fold_email(&body.object_id)));
    account.leave_lists(id, call.now.at);
    account.record(Change::Gone { object: call.object, id, blocked_email });
    Ok(Answer::no_content())
}
