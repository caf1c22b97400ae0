//! What the reconciler takes away of deliveries, and what it leaves.

use std::time::{Duration, Instant};

use hubferry::flows::reconciler::{BODIES_KEPT_FOR, DELIVERIES_KEPT_FOR, Reconciler};
use serde_json::json;

use super::{Hooks, change};

/// More than two statements take.
const OLD: i64 = 250;

fn minutes(time: Duration) -> u64 {
    time.as_secs() / 60
}

#[tokio::test]
async fn the_reconciler_takes_bodies_away_after_a_week_and_deliveries_after_a_month() {
    let hooks = Hooks::new().await;
    let client = hooks.setting.application().await;
    // Some on either side of both limits.
    let week = [minutes(BODIES_KEPT_FOR) - 5, minutes(BODIES_KEPT_FOR) + 5];
    let month = [minutes(DELIVERIES_KEPT_FOR) - 5, minutes(DELIVERIES_KEPT_FOR) + 5];
    for age in week.into_iter().chain(month) {
        let sql = format!(
            "insert into hubferry.webhook_deliveries
                 (delivery_id, received_at, headers, body, body_bytes, secret, signature_version, notifications, fresh)
             select gen_random_uuid(), clock_timestamp() - interval '{age} min', '{{}}', 'x', 1, 'current', 'v3', 0, 0
             from generate_series(1, {OLD})"
        );
        client.batch_execute(&sql).await.expect("deliveries");
    }
    // One of the oldest is still to be applied.
    hooks.store(&[change(json!({}))]).await;
    let open =
        "update hubferry.webhook_deliveries set received_at = clock_timestamp() - interval '100 days' where fresh = 1";
    client.batch_execute(open).await.expect("an age");

    let reconciler = Reconciler { db: hooks.setting.db.clone(), queues: None, queued_too_long: Duration::from_mins(5) };
    let run = async || reconciler.run(Instant::now() + Duration::from_mins(5)).await.expect("a run");
    let summary = run().await;
    // Bodies of what is deleted in the same round need not be taken first.
    assert!(summary.forgotten_bodies > 2 * OLD.unsigned_abs() && !summary.ran_out_of_time, "{summary:?}");
    assert_eq!(summary.deleted_deliveries, OLD.unsigned_abs());
    assert_eq!(hooks.count("webhook_deliveries").await, 3 * OLD + 1);
    assert_eq!(hooks.count("webhook_deliveries where body is not null").await, OLD);
    assert_eq!(hooks.rows().await.1, 1, "what is not applied stays, however old it is");
    let again = run().await;
    assert_eq!((again.forgotten_bodies, again.deleted_deliveries), (0, 0));
}
