//! A window that is polled all the time gives out all its calls: nothing is lost to rounding.

use std::time::Duration;

use hubferry::adapters::budget::Budget;
use hubferry::model::budget::{Bucket, Lane, Reserved};
use hubferry::model::ids::PortalId;

use crate::servers;

/// How long the calls of these tests may take.
const HOLD: Duration = Duration::from_secs(5);

#[tokio::test]
async fn polling_many_times_in_a_window_costs_no_grant() {
    // A call in two windows' time of a slow bucket and three of a fast one, each polled several times a window.
    for (limit, window_ms, poll_ms, windows) in [(1, 200, 30, 15), (3, 100, 10, 20)] {
        let budget = Budget::connect(&servers::redis_url()).unwrap();
        let portal = PortalId(rand::random_range(1..i64::MAX));
        let bucket = Bucket::calls(portal, limit, Duration::from_millis(window_ms));
        let (mut grants, mut polls) = (0, 0);
        while grants < limit * windows {
            polls += 1;
            match budget.reserve(&bucket, Lane::Interactive, 1, HOLD, Duration::ZERO).await.unwrap() {
                Reserved::Granted(reservation) => {
                    budget.finish(&reservation, &[Duration::ZERO]).await.unwrap();
                    grants += 1;
                }
                Reserved::Refused { .. } => tokio::time::sleep(Duration::from_millis(poll_ms)).await,
            }
        }
        // A slow machine polls less often in a window, so this is no measure of its speed: a call comes back one window after it
        // finished, and is met by the poll after that.
        let refused = u64::from(polls - grants);
        let most = u64::from(windows) * (window_ms / poll_ms + 2);
        assert!(refused <= most, "{refused} polls in vain for {grants} grants, {most} at the most");
    }
}
