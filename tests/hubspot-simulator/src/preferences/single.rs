//! Definitions, and the statuses of one address.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NewStatus, change, check_channel, status_object, status_objects, write::API_SOURCE};
use crate::{
    account::Account,
    answer::{Answer, ApiError, Handled},
    call::Call,
    clock::iso,
    config::DefinitionConfig,
    properties::{fold_email, is_email},
};

/// `GET …/definitions`.
pub(crate) fn definitions(account: &mut Account, call: &Call) -> Handled {
    let results: Vec<Value> = account.settings.definitions.iter().map(definition_object).collect();
    Ok(action_answer(call, &results))
}

fn definition_object(definition: &DefinitionConfig) -> Value {
    let created_at = iso(Timestamp::UNIX_EPOCH);
    json!({
        "id": definition.id.to_string(),
        "name": definition.name,
        "description": definition.name,
        "purpose": "Marketing",
        "communicationMethod": "Email",
        "isActive": true,
        "isDefault": false,
        "isInternal": false,
        "businessUnitId": 0,
        "createdAt": created_at,
        "updatedAt": created_at,
    })
}

/// `GET …/statuses/{email}?channel=EMAIL`.
pub(crate) fn read(account: &mut Account, call: &Call) -> Handled {
    check_channel(call)?;
    let email = address(call)?;
    Ok(action_answer(call, &status_objects(account, &email)))
}

/// `POST …/statuses/{email}`.
pub(crate) fn write(account: &mut Account, call: &Call) -> Handled {
    let email = address(call)?;
    let new: NewStatus = call.json()?;
    let id = new.subscription_id;
    let reason = change(account, &email, new, API_SOURCE, call.now.at)?;
    let mut status = status_object(account, &email, id);
    status["setStatusSuccessReason"] = reason.into();
    Ok(action_answer(call, &[status]))
}

/// The address in the path; one that still holds an escape was encoded twice.
pub(super) fn address(call: &Call) -> Result<String, ApiError> {
    let email = fold_email(call.param(0));
    if is_email(&email) && !email.contains('%') {
        return Ok(email);
    }
    Err(ApiError::invalid("The email address in the path is invalid").context("id", [&call.raw_tail]))
}

/// The envelope of the answers that are no batch.
pub(super) fn action_answer(call: &Call, results: &[Value]) -> Answer {
    let at = iso(call.now.at);
    Answer::ok(json!({
        "status": "COMPLETE", "results": results, "startedAt": at, "completedAt": at,
    }))
}
