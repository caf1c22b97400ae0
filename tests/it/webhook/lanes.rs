//! The way of an event that a delivery made: a queue of its own, in which nobody waits behind it.

use hubferry::model::subscription::EventLane;
use serde_json::json;

use crate::world::{World, request, with};

#[tokio::test(flavor = "multi_thread")]
async fn what_webhooks_report_travels_by_a_queue_of_its_own() {
    let world = World::new().await;
    let visitor = with(request("ada@example.test", "subscribed"), json!({"lane": EventLane::Interactive}));
    world.accept(vec![visitor]).await;
    world
        .sql(
            "insert into hubferry.outbox_events (event_id, kind, portal_id, payload, dedupe_key, lane)
             select gen_random_uuid(), 'webhook.delivery.v1', portal_id, '{}', 'a delivery', 'inbound'
             from hubferry.portals limit 1",
        )
        .await;
    assert_eq!(world.dispatcher.run_once().await.expect("a run").queued, 2);
    let messages = ["interactive", "bulk", "inbound"].map(|queue| world.queues.history(queue).len());
    assert_eq!(messages, [1, 0, 1]);
}
