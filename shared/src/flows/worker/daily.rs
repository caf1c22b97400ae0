//! The calls of the account's day are used up: when does the next day begin?

use std::time::Instant;

use jiff::Timestamp;

use crate::adapters::db::PortalSettings;
use crate::model::budget::{Bucket, Lane};
use crate::model::outcome::{Class, LimitPolicy};

use super::Worker;
use super::apply::Results;
use super::calls::Calls;
use super::lease::Lease;
use super::verdict::OperationResult;

/// Whether HubSpot refused something because of the day's limit.
pub(super) fn hit_daily_limit(results: &Results) -> bool {
    let of_the_day = |result: &OperationResult| matches!(result, OperationResult::Refused(refusal) if refusal.class == Class::RateLimited(LimitPolicy::Daily));
    results.iter().any(|(_, result)| of_the_day(result))
}

impl Worker {
    /// When the day's limit starts anew, as HubSpot's usage endpoint says. It asks once, paid like any other call.
    ///
    /// `None`: HubSpot does not say. Then the portal is looked at again each hour, and not at some midnight: the account's time
    /// zone is asked for by a call that would be refused as well, and any other zone's midnight is wrong by hours.
    pub(super) async fn daily_reset(
        &self,
        portal: &PortalSettings,
        lease: &Lease,
        deadline: Instant,
    ) -> Option<Timestamp> {
        let bucket = Bucket::calls(portal.portal_id, portal.call_limit, portal.call_window);
        let cost = (bucket, Lane::Interactive, 1);
        let calls = Calls::reserve(self.account(portal), &self.budget, cost, lease, deadline).await.ok()?;
        let call = calls.make(calls.account.daily_usage()).await;
        calls.settle().await;
        call.ok()?.result.ok()??.resets_at
    }
}
