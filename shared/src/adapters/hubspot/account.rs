//! The account itself: how much of its day is used up, and in which zone its day ends.

use jiff::Timestamp;
use reqwest::Method;
use serde_json::Value;

use super::decode::{self, Object};
use super::request::Request;
use super::transport::Success;
use super::{Account, Call, Family};
use crate::model::ids::PortalId;
use crate::model::outcome::{Intent, Operation, Refusal};

/// The names under which the usage of calls is listed, best first. The list also holds quotas of other things.
const USAGE_NAMES: [&str; 2] = ["private-apps-api-calls-daily", "api-calls-daily"];

/// The calls of all private apps in the account's day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DailyUsage {
    /// Calls allowed.
    pub limit: Option<u64>,
    /// Calls made.
    pub used: Option<u64>,
    /// When the day ends. HubSpot may leave it out.
    pub resets_at: Option<Timestamp>,
    /// When HubSpot counted; it answers from a cache.
    pub collected_at: Option<Timestamp>,
}

/// What the account is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountDetails {
    /// The portal id: has to be the one that the token is kept for.
    pub portal_id: PortalId,
    /// `STANDARD`, `DEVELOPER_TEST` and so on.
    pub account_type: Option<String>,
    /// IANA name of the zone in which the account's day ends.
    pub time_zone: Option<String>,
    /// Where its data lies, such as `eu1`.
    pub data_hosting: Option<String>,
}

impl Account<'_> {
    /// The daily usage. `None` when the account lists none, as for OAuth apps, or HubSpot could not count.
    pub async fn daily_usage(&self) -> Call<Option<DailyUsage>> {
        self.call(self.account_request("/api-usage/daily/private-apps"), usage).await
    }

    /// The account's details.
    pub async fn account_details(&self) -> Call<AccountDetails> {
        self.call(self.account_request("/details"), details).await
    }

    fn account_request(&self, tail: &str) -> Request {
        Request {
            method: Method::GET,
            path: format!("{}{tail}", self.versions.path(Family::AccountInfo)),
            query: Vec::new(),
            body: None,
            intent: Intent { operation: Operation::ReadAccount, rows: 0 },
        }
    }
}

/// The list is bare, or under `results`.
fn usage(success: Success) -> Result<Option<DailyUsage>, Refusal> {
    let status = success.status;
    let list = match success.body {
        Some(list @ Value::Array(_)) => Some(list),
        Some(Value::Object(mut object)) => object.remove("results"),
        _ => None,
    };
    if list.is_none() {
        return Err(Refusal::unreadable(status, "unexpected_json"));
    }
    let entries = decode::objects(list);
    let named = |name: &str| entries.iter().find(|entry| decode::text(entry, "name") == Some(name));
    Ok(USAGE_NAMES.iter().find_map(|name| named(name)).filter(|entry| was_counted(entry)).map(|entry| DailyUsage {
        limit: decode::count(entry.get("usageLimit")),
        used: decode::count(entry.get("currentUsage")),
        resets_at: decode::instant(entry.get("resetsAt")),
        collected_at: decode::instant(entry.get("collectedAt")),
    }))
}

fn was_counted(entry: &Object) -> bool {
    !matches!(decode::text(entry, "fetchStatus"), Some("FAILURE" | "NOTFOUND" | "TIMEOUT"))
}

fn details(success: Success) -> Result<AccountDetails, Refusal> {
    let status = success.status;
    let object = decode::object(success)?;
    let owned = |key| decode::text(&object, key).map(str::to_owned);
    Ok(AccountDetails {
        portal_id: decode::integer(object.get("portalId"))
            .map(PortalId)
            .ok_or_else(|| Refusal::unreadable(status, "unexpected_json"))?,
        account_type: owned("accountType"),
        time_zone: owned("timeZone"),
        data_hosting: owned("dataHostingLocation"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: Value) -> Option<DailyUsage> {
        usage(Success { status: 200, body: Some(body) }).unwrap()
    }

    #[test]
    fn usage_is_found_by_its_name_in_either_shape() {
        let seats = json!({"name": "sales-seats", "usageLimit": 2, "currentUsage": 2, "resetsAt": null});
        let calls = json!({"name": "api-calls-daily", "usageLimit": 250_000, "currentUsage": 249_990,
                           "resetsAt": 1_790_028_000_000_i64});
        for body in [json!([seats, calls]), json!({"results": [seats, calls]})] {
            let usage = read(body).unwrap();
            assert_eq!((usage.limit, usage.used), (Some(250_000), Some(249_990)));
            assert_eq!(usage.resets_at, Timestamp::from_millisecond(1_790_028_000_000).ok());
        }
        assert_eq!(read(json!([seats])), None);
    }

    #[test]
    fn a_reset_that_is_null_and_a_count_that_failed_are_tolerated() {
        let entry = json!({"name": "private-apps-api-calls-daily", "usageLimit": "10", "resetsAt": null});
        assert_eq!(read(json!({"results": [entry]})).unwrap().resets_at, None);
        let failed = json!({"name": "private-apps-api-calls-daily", "fetchStatus": "TIMEOUT"});
        assert_eq!(read(json!({"results": [failed]})), None);
    }
}
