//! Statuses of up to a hundred addresses a call.

use rand::seq::SliceRandom;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{NewStatus, change, check_batch_scope, check_channel, status_object, status_objects, write::API_SOURCE};
use crate::{
    account::Account,
    answer::{ApiError, Handled},
    call::{Call, MAX_BATCH_INPUTS, check_batch_size},
    objects::batch_answer,
    properties::{fold_email, is_email},
};

pub(super) const READ_SCOPE: &str = "communication_preferences.statuses.batch.read";
pub(super) const WRITE_SCOPE: &str = "communication_preferences.statuses.batch.write";

#[derive(Deserialize)]
struct Addresses {
    #[serde(default)]
    inputs: Vec<String>,
}

/// `POST …/statuses/batch/read?channel=EMAIL`.
pub(crate) fn batch_read(account: &mut Account, call: &Call) -> Handled {
    check_batch_scope(account, READ_SCOPE)?;
    let emails = addresses(call)?;
    each_address(account, call, emails, |account, email| {
        Ok(json!({ "subscriberIdString": email, "statuses": status_objects(account, email) }))
    })
}

/// The addresses of a batch whose inputs are plain strings.
pub(super) fn addresses(call: &Call) -> Result<Vec<String>, ApiError> {
    check_channel(call)?;
    let Addresses { inputs } = call.json()?;
    check_batch_size(inputs.len(), MAX_BATCH_INPUTS)?;
    Ok(inputs)
}

/// One result or one error for each address, in no particular order.
pub(super) fn each_address(
    account: &mut Account,
    call: &Call,
    emails: Vec<String>,
    answer: impl Fn(&mut Account, &str) -> Result<Value, ApiError>,
) -> Handled {
    let mut results = Vec::new();
    let mut errors = Vec::new();
    for address in emails {
        let email = fold_email(&address);
        let answered = if is_email(&email) {
            answer(account, &email)
        } else {
            Err(ApiError::invalid(format!("Email address {address} is invalid")))
        };
        match answered {
            Ok(result) => results.push(result),
            Err(error) => errors.push(error.context("subscriberIdString", [address]).into_row()),
        }
    }
    results.shuffle(&mut account.dice);
    Ok(batch_answer(call, &results, &errors, 200))
}

/// `POST …/statuses/batch/write`: every row stands for itself.
pub(crate) fn batch_write(account: &mut Account, call: &Call) -> Handled {
    #[derive(Deserialize)]
    struct Batch {
        #[serde(default)]
        inputs: Vec<Row>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Row {
        subscriber_id_string: String,
        #[serde(flatten)]
        status: NewStatus,
    }
    check_batch_scope(account, WRITE_SCOPE)?;
    let Batch { inputs } = call.json()?;
    check_batch_size(inputs.len(), MAX_BATCH_INPUTS)?;
    let mut results = Vec::new();
    let mut errors = Vec::new();
    for Row { subscriber_id_string: address, status } in inputs {
        let id = status.subscription_id;
        match change(account, &address, status, API_SOURCE, call.now.at) {
            Ok(reason) => {
                let mut result = status_object(account, &fold_email(&address), id);
                result["setStatusSuccessReason"] = reason.into();
                results.push(result);
            }
            Err(error) => {
                let error = error.context("subscriberIdString", [address]).context("subscriptionId", [id]);
                errors.push(error.into_row());
            }
        }
    }
    results.shuffle(&mut account.dice);
    Ok(batch_answer(call, &results, &errors, 200))
}
