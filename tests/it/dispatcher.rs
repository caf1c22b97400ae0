//! What the dispatcher and the reconciler promise: everything due is published, nothing is lost, nobody is starved.

use std::time::{Duration, Instant};

use hubferry::adapters::db;
use hubferry::adapters::sqs::{QueueUrls, Sqs};
use hubferry::model::ids::LeaseToken;
use hubferry::model::pacing::Pace;
use serde_json::json;
use sqs_emulator::{Fault, FaultKind};
use uuid::Uuid;

use crate::world::{World, request, with};

fn people(count: usize) -> Vec<serde_json::Value> {
    (0..count).map(|n| request(&format!("p{n}@example.test"), "subscribed")).collect()
}

/// How many events have this status.
async fn count(world: &World, status: &str) -> i64 {
    world.statuses().await.into_iter().filter(|(name, ..)| name == status).map(|(.., count)| count).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_sqs_accounted_for_is_marked_queued() {
    let world = World::new().await;
    world.accept(people(10)).await;
    world.queues.add_fault(
        Fault::new(FaultKind::EntryFailure { code: "InternalError".into(), sender_fault: false })
            .next(1)
            .at_positions([3]),
    );
    world.queues.add_fault(Fault::new(FaultKind::EntryOmitted { effect: false }).next(1).at_positions([9]));
    let summary = world.dispatcher.run_once().await.unwrap();

    assert_eq!((summary.claimed, summary.queued, summary.refused, summary.unknown), (10, 8, 1, 1));
    assert_eq!((count(&world, "queued").await, count(&world, "pending").await), (8, 2));
    world.make_due().await;
    assert_eq!(world.drain().await.synced, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_sqs_is_away_everything_waits_and_nothing_is_charged() {
    let world = World::new().await;
    world.accept(people(30)).await;
    let mut dispatcher = world.dispatcher.clone();
    let nowhere = QueueUrls {
        interactive: "http://127.0.0.1:1/0/i".into(),
        bulk: "http://127.0.0.1:1/0/b".into(),
        inbound: "http://127.0.0.1:1/0/w".into(),
    };
    dispatcher.sqs = Sqs::with_client(sqs_emulator::client_for("http://127.0.0.1:1"), nowhere);
    let summary = dispatcher.run_once().await.unwrap();

    assert_eq!((summary.queued, summary.unknown), (0, 30));
    assert_eq!(world.statuses().await, [("pending".into(), Some("sqs_unreachable".into()), 30)]);
    let connection = world.db.connection().await.unwrap();
    let charged: i64 = connection
        .query_one("select count(*) from hubferry.outbox_events where publish_attempts > 0", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(charged, 0);
    world.make_due().await;
    assert_eq!(world.drain().await.synced, 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_after_the_send_leads_to_a_repeat_and_no_harm() {
    let world = World::new().await;
    world.accept(people(10)).await;
    world.queues.add_fault(Fault::new(FaultKind::CutAfterEffect).on_action("SendMessageBatch").next(1));
    let summary = world.drain().await;
    assert_eq!(summary.synced, 10);
    assert_eq!(world.hubspot.contacts().len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_sqs_will_never_take_ends_dead_after_ten_refusals() {
    let world = World::new().await;
    world.accept(people(1)).await;
    world.queues.add_fault(
        Fault::new(FaultKind::EntryFailure { code: "InvalidMessageContents".into(), sender_fault: true }).share(1.0, 1),
    );
    for _ in 0..10 {
        world.dispatcher.run_once().await.unwrap();
        world.make_due().await;
    }
    assert_eq!(world.statuses().await, [("dead".into(), Some("sqs_refused".into()), 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_dispatchers_at_once_publish_each_event_once() {
    let world = World::new().await;
    world.accept(people(300)).await;
    let (first, second) = tokio::join!(world.dispatcher.run_once(), world.dispatcher.run_once());
    assert_eq!(first.unwrap().claimed + second.unwrap().claimed, 300);
    assert_eq!(world.queues.history("bulk").len(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_work_is_published_only_as_far_as_the_budget_reaches_and_a_visitor_passes_it() {
    let world = World::new().await;
    world.sql("update hubferry.portals set call_limit = 10, call_window_ms = 10000").await;
    world.accept(people(1200)).await;
    world.accept(vec![with(request("visitor@example.test", "subscribed"), json!({"lane": "interactive"}))]).await;
    let mut published = 0;
    for _ in 0..5 {
        published += world.dispatcher.run_once().await.unwrap().claimed;
    }
    // 10 calls in 10 s are 30 in half a minute, and those carry 600 events.
    assert_eq!(published, 601);
    assert_eq!(world.queues.history("interactive").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_portal_publishes_nothing_until_its_pause_ends() {
    let world = World::new().await;
    world.accept(people(5)).await;
    let connection = world.db.connection().await.unwrap();
    db::pause_portal(&*connection, world.portal, Duration::from_hours(1), "migrating").await.unwrap();
    assert_eq!(world.dispatcher.run_once().await.unwrap().claimed, 0);
    db::pause_portal(&*connection, world.portal, Duration::from_secs(1), "shorter").await.unwrap();
    assert_eq!(world.dispatcher.run_once().await.unwrap().claimed, 0, "a longer pause stays");
    world.sql("update hubferry.portals set paused_until = clock_timestamp() - interval '1 s'").await;
    assert_eq!(world.dispatcher.run_once().await.unwrap().claimed, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loud_tenant_delays_only_itself() {
    let world = World::new().await;
    let quiet = world.portal.0 + 1;
    world
        .sql(&format!(
            "insert into hubferry.portals (portal_id, name) values ({quiet}, 'quiet');
             insert into hubferry.brands values ('calm', {quiet});
             insert into hubferry.products values ('calm', 'newsletter');
             insert into hubferry.mappings (brand, product, version, state, targets, activated_at)
             values ('calm', 'newsletter', 1, 'active', '{{}}', clock_timestamp())"
        ))
        .await;
    let mut crowd = people(2500);
    crowd.push(with(request("calm@example.test", "subscribed"), json!({"brand": "calm"})));
    world.accept(crowd).await;
    world.dispatcher.run_once().await.unwrap();
    let calm =
        world.queues.history("bulk").into_iter().filter(|message| message.message_group_id.as_deref() == Some("calm"));
    assert_eq!(calm.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_may_arrive_before_its_row_says_queued() {
    let world = World::new().await;
    let accepted = world.accept(people(1)).await;
    let connection = world.db.connection().await.unwrap();
    let token = LeaseToken(Uuid::new_v4());
    db::claim_due(&*connection, token, Duration::from_secs(25), &Pace::default()).await.unwrap();
    let events = [hubferry::model::ids::EventId(accepted[0].event_id)];
    let (summary, _) = world.worker.work(&events, Instant::now() + Duration::from_mins(1)).await.unwrap();
    assert_eq!(summary.synced, 1);
    let marked = db::mark_queued(&*connection, token, &[(events[0], "m".into())]).await.unwrap();
    assert_eq!(marked, 0, "marking is conditional");
    assert_eq!(world.status_of(&accepted[0]).await.0, "synced");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_message_of_a_row_that_waits_does_nothing() {
    let world = World::new().await;
    let accepted = world.accept(people(1)).await;
    world
        .sql("update hubferry.outbox_events set status = 'retry', next_attempt_at = clock_timestamp() + interval '1 h'")
        .await;
    let events = [hubferry::model::ids::EventId(accepted[0].event_id)];
    let (summary, unknown) = world.worker.work(&events, Instant::now() + Duration::from_mins(1)).await.unwrap();
    assert_eq!((summary.settled, summary.calls, unknown.len()), (1, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reconciler_rescues_expired_leases_and_republishes_lost_messages_and_leaves_the_rest() {
    let world = World::new().await;
    world.accept(people(40)).await;
    world.dispatcher.run_once().await.unwrap();
    world
        .sql(
            "with numbered as (select event_id, row_number() over (order by event_id) as n from hubferry.outbox_events)
             update hubferry.outbox_events e set
                 status = case when n <= 10 then 'publishing' when n <= 20 then 'processing' else 'queued' end,
                 lease_token = case when n <= 20 then gen_random_uuid() end,
                 lease_expires_at = case when n <= 20 then clock_timestamp() - interval '1 s' end,
                 queued_at = clock_timestamp() - case when n <= 30 then interval '10 min' else interval '1 min' end
             from numbered where numbered.event_id = e.event_id",
        )
        .await;
    let (first, second) = tokio::join!(
        world.reconciler.run(Instant::now() + Duration::from_mins(1)),
        world.reconciler.run(Instant::now() + Duration::from_mins(1))
    );
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.rescued_publishing + second.rescued_publishing, 10);
    assert_eq!(first.rescued_processing + second.rescued_processing, 10);
    assert_eq!(first.republished + second.republished, 10);
    assert_eq!(
        (count(&world, "pending").await, count(&world, "retry").await, count(&world, "queued").await),
        (10, 20, 10)
    );
    assert_eq!(world.drain().await.synced, 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_no_time_left_repairs_nothing_and_says_so() {
    let world = World::new().await;
    let summary = world.reconciler.run(Instant::now()).await.unwrap();
    assert!(summary.ran_out_of_time);
}
