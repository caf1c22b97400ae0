//! The account's own numbers: daily usage and details.

use serde_json::json;

use crate::{
    account::Account,
    answer::{Answer, Handled},
    call::Call,
    clock::iso,
};

/// `GET /account-info/…/api-usage/daily/private-apps`: the first item is another quota, without a reset, as in real
/// accounts; the API quota must be found by its name.
pub(crate) fn daily(account: &mut Account, call: &Call) -> Handled {
    let daily = &account.limits.daily;
    let at = iso(call.now.at);
    Ok(Answer::ok(json!({
        "results": [
            {
                "name": "sales-seats",
                "usageLimit": 2,
                "currentUsage": 2,
                "collectedAt": at,
                "fetchStatus": "CACHED",
                "resetsAt": null,
            },
            {
                "name": "private-apps-api-calls-daily",
                "usageLimit": daily.limit,
                "currentUsage": daily.used,
                "collectedAt": at,
                "fetchStatus": "SUCCESS",
                "resetsAt": iso(daily.resets_at(call.now.at)),
            },
        ],
    })))
}

/// `GET /account-info/…/details`.
pub(crate) fn details(account: &mut Account, _call: &Call) -> Handled {
    Ok(Answer::ok(json!({
        "portalId": account.settings.portal_id,
        "accountType": "STANDARD",
        "timeZone": account.settings.time_zone,
        "companyCurrency": "EUR",
        "additionalCurrencies": [],
        "utcOffset": "+00:00",
        "utcOffsetMilliseconds": 0,
        "uiDomain": "app-eu1.hubspot.com",
        "dataHostingLocation": "eu1",
    })))
}
