//! Opting out of everything, which HubSpot calls a wide status.

use serde_json::{Value, json};

use super::{
    batch::{READ_SCOPE, WRITE_SCOPE, addresses, each_address},
    check_batch_scope, check_channel, opt_out_of_everything,
    single::{action_answer, address},
    status_objects,
    write::API_SOURCE,
};
use crate::{account::Account, answer::Handled, call::Call, clock::iso};

/// `GET …/statuses/{email}/unsubscribe-all`: no results unless the address opted out.
pub(crate) fn read_everything(account: &mut Account, call: &Call) -> Handled {
    check_channel(call)?;
    let email = address(call)?;
    Ok(action_answer(call, &wide_statuses(account, &email)))
}

/// `POST …/statuses/{email}/unsubscribe-all`: the results are empty without `verbose=true`.
pub(crate) fn write_everything(account: &mut Account, call: &Call) -> Handled {
    check_channel(call)?;
    let email = address(call)?;
    opt_out_of_everything(account, &email, API_SOURCE, call.now.at)?;
    let results = if is_verbose(call) { status_objects(account, &email) } else { Vec::new() };
    Ok(action_answer(call, &results))
}

/// `POST …/statuses/batch/unsubscribe-all/read`.
pub(crate) fn batch_read_everything(account: &mut Account, call: &Call) -> Handled {
    check_batch_scope(account, READ_SCOPE)?;
    let emails = addresses(call)?;
    each_address(account, call, emails, |account, email| {
        Ok(json!({ "subscriberIdString": email, "wideStatuses": wide_statuses(account, email) }))
    })
}

/// `POST …/statuses/batch/unsubscribe-all`.
pub(crate) fn batch_write_everything(account: &mut Account, call: &Call) -> Handled {
    check_batch_scope(account, WRITE_SCOPE)?;
    let emails = addresses(call)?;
    each_address(account, call, emails, |account, email| {
        opt_out_of_everything(account, email, API_SOURCE, call.now.at)?;
        let mut result = json!({ "subscriberIdString": email });
        if is_verbose(call) {
            result["statuses"] = status_objects(account, email).into();
        }
        Ok(result)
    })
}

fn is_verbose(call: &Call) -> bool {
    call.query("verbose") == Some("true")
}

fn wide_statuses(account: &Account, email: &str) -> Vec<Value> {
    let opted_out_at = account.preferences.opted_out_at(email);
    let wide = opted_out_at.map(|at| {
        json!({
            "channel": "EMAIL",
            "subscriberIdString": email,
            "status": "UNSUBSCRIBED",
            "wideStatusType": "PORTAL_WIDE",
            "businessUnitId": 0,
            "timestamp": iso(at),
        })
    });
    wide.into_iter().collect()
}
