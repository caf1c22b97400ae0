//! What the worker promises beyond the main job.

use std::time::{Duration, Instant};

use hubferry::adapters::budget::Budget;
use hubferry::adapters::db::{self, Accepted, Db};
use hubferry::model::envelope::{SigningKey, seal};
use hubferry::model::ids::{EventId, LeaseToken};
use hubferry::model::pacing::{Pace, WORK_LEASE};
use hubspot_simulator::{Action, Fault, SubscriptionState};
use serde_json::json;
use uuid::Uuid;

use crate::postgres_proxy::PostgresProxy;
use crate::world::{World, request, with};

fn events(accepted: &[Accepted]) -> Vec<EventId> {
    accepted.iter().map(|accepted| EventId(accepted.event_id)).collect()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_mins(1)
}

/// Marks events as published without sending anything.
async fn publish_silently(world: &World) {
    let connection = world.db.connection().await.unwrap();
    let token = LeaseToken(Uuid::new_v4());
    loop {
        let due = db::claim_due(&*connection, token, Duration::from_secs(25), &Pace::default()).await.unwrap();
        if due.is_empty() {
            return;
        }
        let sent: Vec<_> = due.into_iter().map(|event| (event.event_id, "m".to_owned())).collect();
        db::mark_queued(&*connection, token, &sent).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn database_round_trips_do_not_grow_with_the_batch() {
    let world = World::new().await;
    let proxy = PostgresProxy::before(&world.database.url).await;
    let mut worker = world.worker.clone();
    worker.db = Db::new(&proxy.url(&world.database.url).into(), 1).unwrap();
    worker.db.connection().await.unwrap();

    let mut trips = Vec::new();
    for size in [1, 10, 400] {
        let people: Vec<_> = (0..size).map(|n| request(&format!("p{size}-{n}@example.test"), "subscribed")).collect();
        let accepted = world.accept(people).await;
        publish_silently(&world).await;
        let before = proxy.round_trips();
        let (summary, _) = worker.work(&events(&accepted), soon()).await.unwrap();
        assert_eq!(summary.synced, size, "{:?}", world.statuses().await);
        trips.push(proxy.round_trips() - before);
    }
    // Claim, reported opt-outs and finish, and before each the test of the pooled connection.
    assert_eq!(trips, [6, 6, 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn opt_outs_cost_one_round_trip_more_whatever_their_number() {
    let world = World::new().await;
    let proxy = PostgresProxy::before(&world.database.url).await;
    let mut worker = world.worker.clone();
    worker.db = Db::new(&proxy.url(&world.database.url).into(), 1).unwrap();
    worker.db.connection().await.unwrap();

    let mut trips = Vec::new();
    for size in [2, 90] {
        let people: Vec<_> = (0..size).map(|n| request(&format!("p{size}-{n}@example.test"), "unsubscribed")).collect();
        let accepted = world.accept(people).await;
        publish_silently(&world).await;
        let before = proxy.round_trips();
        worker.work(&events(&accepted), soon()).await.unwrap();
        trips.push(proxy.round_trips() - before);
    }
    assert_eq!(trips, [6, 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opt_out_that_is_newer_than_the_consent_is_not_overwritten() {
    let world = World::new().await;
    world.hubspot.seed_contact(&[("email", "ada@example.test")]).unwrap();
    world.hubspot.opt_out("ada@example.test", Some(1001), None).unwrap();
    let old_consent = json!({"consent": {"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "form", "given_at": "2024-01-01T00:00:00Z"}});
    let accepted = world.accept(vec![with(request("ada@example.test", "subscribed"), old_consent)]).await;
    world.drain().await;

    assert_eq!(world.status_of(&accepted[0]).await, ("superseded".into(), Some("remote_opt_out".into())));
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Unsubscribed);
    assert!(world.hubspot.list_members(101).is_empty(), "who opted out joins no segment");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consent_that_is_newer_than_the_opt_out_is_written() {
    let world = World::new().await;
    world.hubspot.seed_contact(&[("email", "ada@example.test")]).unwrap();
    world.hubspot.opt_out("ada@example.test", Some(1001), Some("2024-01-01T00:00:00Z".parse().unwrap())).unwrap();
    world.accept(vec![request("ada@example.test", "subscribed")]).await;
    world.drain().await;

    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Subscribed);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_opt_out_is_no_remote_one_whatever_its_time() {
    let world = World::new().await;
    let old_consent = json!({"consent": {"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "form", "given_at": "2024-01-01T00:00:00Z"}});
    world.accept(vec![request("ada@example.test", "unsubscribed")]).await;
    world.drain().await;
    world.accept(vec![with(request("ada@example.test", "subscribed"), old_consent)]).await;
    world.drain().await;

    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Subscribed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_row_fails_alone() {
    let world = World::new().await;
    let mut people: Vec<_> = (0..100).map(|n| request(&format!("p{n}@example.test"), "subscribed")).collect();
    people[42] = request("kim@invalidtld.example.test", "subscribed");
    // A domain that our own check can't know to be wrong, and an answer that does not say which row is.
    world.hubspot.add_fault(
        Fault::always(Action::respond(
            400,
            json!({"status": "error", "category": "VALIDATION_ERROR", "message": "Invalid input JSON"}),
        ))
        .on_path("batch/upsert")
        .on_body("kim@invalidtld.example.test"),
    );
    let accepted = world.accept(people).await;
    let summary = world.drain().await;

    assert_eq!((summary.synced, summary.dead), (99, 1), "{:?}", world.statuses().await);
    assert_eq!(world.hubspot.contacts().len(), 99);
    assert_eq!(world.status_of(&accepted[42]).await.0, "dead");
    let upserts = world.hubspot.stats().calls("contacts.batch_upsert");
    assert!(upserts <= 1 + 2 * 7 + 2, "{upserts} calls to find one row of a hundred");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_message_is_quarantined_and_its_batch_mates_are_served() {
    let world = World::new().await;
    let accepted =
        world.accept(vec![request("ada@example.test", "subscribed"), request("bob@example.test", "subscribed")]).await;
    publish_silently(&world).await;
    let genuine = SigningKey::parse("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap();
    let forger = SigningKey::parse("whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=").unwrap();
    let records: Vec<_> = [(&accepted[0], &genuine), (&accepted[1], &forger)]
        .into_iter()
        .map(|(accepted, key)| {
            let sealed = seal(EventId(accepted.event_id), key, 1);
            let text = |value: &str| json!({"stringValue": value, "dataType": "String"});
            json!({
                "messageId": Uuid::new_v4().to_string(), "body": sealed.body, "attributes": {"ApproximateReceiveCount": "1"},
                "messageAttributes": {
                    "webhook-id": text(&sealed.id), "webhook-timestamp": text(&sealed.timestamp), "webhook-signature": text(&sealed.signature),
                },
            })
        })
        .collect();
    let batch = serde_json::from_value(json!({"Records": records})).unwrap();
    let (response, summary) = world.worker.handle(batch, soon()).await.unwrap();

    assert_eq!((summary.quarantined, summary.synced), (1, 1));
    assert!(response.batch_item_failures.is_empty(), "a forged message is acknowledged");
    assert_eq!(world.status_of(&accepted[1]).await.0, "queued");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_no_event_comes_again_a_few_times_and_is_then_acknowledged() {
    let world = World::new().await;
    let genuine = SigningKey::parse("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap();
    let sealed = seal(EventId(Uuid::new_v4()), &genuine, 1);
    let deliver = |times: u32| {
        let text = |value: &str| json!({"stringValue": value, "dataType": "String"});
        serde_json::from_value(json!({"Records": [{
            "messageId": "m1", "body": sealed.body, "attributes": {"ApproximateReceiveCount": times.to_string()},
            "messageAttributes": {
                "webhook-id": text(&sealed.id), "webhook-timestamp": text(&sealed.timestamp), "webhook-signature": text(&sealed.signature),
            },
        }]}))
        .unwrap()
    };
    let (first, _) = world.worker.handle(deliver(1), soon()).await.unwrap();
    let (last, _) = world.worker.handle(deliver(3), soon()).await.unwrap();
    assert_eq!(first.batch_item_failures[0].item_identifier, "m1");
    assert!(last.batch_item_failures.is_empty());
    assert_eq!(world.hubspot.stats().total, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_nothing_is_sent_and_everything_waits_without_an_attempt() {
    let world = World::new().await;
    let accepted = world.accept(vec![request("ada@example.test", "subscribed")]).await;
    publish_silently(&world).await;
    let mut worker = world.worker.clone();
    worker.budget = Budget::connect("redis://127.0.0.1:1/0").unwrap();
    let (summary, _) = worker.work(&events(&accepted), soon()).await.unwrap();

    assert_eq!((summary.snoozed, summary.calls), (1, 0));
    assert_eq!(world.hubspot.stats().total, 0);
    assert_eq!(world.status_of(&accepted[0]).await, ("retry".into(), Some("budget_away".into())));
    world.make_due().await;
    assert_eq!(world.drain().await.synced, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_worker_held_is_taken_over_when_its_lease_ends() {
    let world = World::new().await;
    let accepted = world.accept(vec![request("ada@example.test", "subscribed")]).await;
    publish_silently(&world).await;
    let dead = LeaseToken(Uuid::new_v4());
    let connection = world.db.connection().await.unwrap();
    let busy = (Duration::from_secs(2), Duration::from_secs(4));
    db::claim_batch(&*connection, &events(&accepted), dead, WORK_LEASE, busy).await.unwrap();

    world.step().await;
    assert_eq!(world.status_of(&accepted[0]).await.0, "processing", "a live lease is respected");
    world
        .sql("update hubferry.outbox_events set lease_expires_at = clock_timestamp() - interval '1 s' where status = 'processing';
              update hubferry.contact_links set lease_expires_at = clock_timestamp() - interval '1 s'")
        .await;
    let summary = world.drain().await;
    assert_eq!(summary.synced, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_owner_changes_nothing() {
    let world = World::new().await;
    let accepted = world.accept(vec![request("ada@example.test", "subscribed")]).await;
    publish_silently(&world).await;
    let connection = world.db.connection().await.unwrap();
    let (stale, fresh) = (LeaseToken(Uuid::new_v4()), LeaseToken(Uuid::new_v4()));
    let busy = (Duration::from_secs(2), Duration::from_secs(4));
    db::claim_batch(&*connection, &events(&accepted), stale, Duration::ZERO, busy).await.unwrap();
    let claimed = db::claim_batch(&*connection, &events(&accepted), fresh, WORK_LEASE, busy).await.unwrap();
    assert_eq!(claimed.portals.len(), 1, "an expired lease is taken over");

    let verdict = db::Verdict {
        event_id: EventId(accepted[0].event_id),
        status: db::VerdictStatus::Synced,
        reason: None,
        applied: None,
    };
    let finished = db::finish_batch(&*connection, stale, &[verdict], &[], &[]).await.unwrap();
    assert!(finished.is_empty());
    assert_eq!(world.status_of(&accepted[0]).await.0, "processing");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_never_hold_one_contact_at_once() {
    let world = World::new().await;
    let first = world.accept(vec![request("ada@example.test", "subscribed")]).await;
    publish_silently(&world).await;
    let connection = world.db.connection().await.unwrap();
    let busy = (Duration::from_secs(2), Duration::from_secs(4));
    db::claim_batch(&*connection, &events(&first), LeaseToken(Uuid::new_v4()), WORK_LEASE, busy).await.unwrap();
    let second =
        world.accept(vec![with(request("ada@example.test", "subscribed"), json!({"product": "events"}))]).await;
    publish_silently(&world).await;
    let other =
        db::claim_batch(&*connection, &events(&second), LeaseToken(Uuid::new_v4()), WORK_LEASE, busy).await.unwrap();

    assert_eq!(other.busy, 1);
    assert_eq!(world.status_of(&second[0]).await, ("retry".into(), Some("contact_busy".into())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_429_freezes_the_portal_and_costs_no_attempt() {
    let world = World::new().await;
    let body = json!({"status": "error", "message": "You have reached your ten_secondly_rolling limit.", "policyName": "TEN_SECONDLY_ROLLING"});
    world.hubspot.add_fault(Fault::next(1, Action::respond(429, body)));
    let accepted = world.accept(vec![request("ada@example.test", "subscribed")]).await;
    let (_, summary) = world.step().await;
    assert_eq!(summary.snoozed, 1, "{:?}", world.statuses().await);
    world.make_due().await;
    let (_, frozen) = world.step().await;
    assert_eq!((frozen.snoozed, frozen.calls), (1, 0), "nobody calls while the portal is frozen");
    let bucket = hubferry::model::budget::Bucket::calls(world.portal, 150, Duration::from_secs(10));
    world.worker.budget.resume(&bucket).await.unwrap();
    world.make_due().await;
    world.drain().await;
    assert_eq!(world.status_of(&accepted[0]).await.0, "synced");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_personal_data_reaches_queues_or_error_columns() {
    let world = World::new().await;
    let secret = "Zephyrine";
    let mut people: Vec<_> = (0..20)
        .map(|n| {
            let contact = json!({"email": format!("zephyrine{n}@example.test"), "properties": {"firstname": secret}});
            with(request("x@example.test", "subscribed"), json!({"contact": contact}))
        })
        .collect();
    people.push(with(
        request("x@example.test", "subscribed"),
        json!({"contact": {"email": "zephyrine@example.test", "properties": {"birthday": secret}}}),
    ));
    world.map("newsletter", json!({"contact_properties": {"firstname": "firstname", "birthday": "birthday"}, "subscription_type": 1001})).await;
    world.accept(people).await;
    world.drain().await;

    let lower = secret.to_lowercase();
    for queue in ["interactive", "bulk", "inbound"] {
        for message in world.queues.history(queue) {
            assert!(!format!("{message:?}").to_lowercase().contains(&lower), "a message holds personal data");
        }
    }
    let connection = world.db.connection().await.unwrap();
    let sql = "select coalesce(last_error_code, '') || coalesce(last_error_summary, '') from hubferry.outbox_events";
    for row in connection.query(sql, &[]).await.unwrap() {
        assert!(!row.get::<_, String>(0).to_lowercase().contains(&lower), "an error column holds personal data");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_its_dispatcher_is_just_marking_is_waited_for_and_not_passed_over() {
    let world = World::new().await;
    let accepted = world.accept(vec![request("ada@example.test", "subscribed")]).await;
    let connection = world.db.connection().await.unwrap();
    let token = LeaseToken(Uuid::new_v4());
    db::claim_due(&*connection, token, Duration::from_secs(25), &Pace::default()).await.unwrap();
    let event = EventId(accepted[0].event_id);

    connection.batch_execute("begin").await.unwrap();
    db::mark_queued(&*connection, token, &[(event, "m".into())]).await.unwrap();
    let worker = world.worker.clone();
    let working = tokio::spawn(async move { worker.work(&[event], soon()).await.unwrap() });
    world.somebody_waits_for_a_lock().await;
    connection.batch_execute("commit").await.unwrap();

    let (summary, _) = working.await.unwrap();
    assert_eq!((summary.synced, summary.settled), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_and_finish_walk_over_no_growing_table_even_before_it_has_statistics() {
    let world = World::new().await;
    let people: Vec<_> = (0..3000).map(|n| request(&format!("p{n}@example.test"), "subscribed")).collect();
    let accepted = world.accept(people).await;
    publish_silently(&world).await;
    let mut worker = world.worker.clone();
    worker.db = Db::new(&world.database.url.clone().into(), 1).unwrap();
    let before = world.rows_read_by_scans(&worker.db).await;
    let (summary, _) = worker.work(&events(&accepted[..400]), soon()).await.unwrap();
    assert_eq!(summary.synced, 400);
    // A scan or two of a small table is right; one scan an event would read 400 times 3,000 rows.
    let read = world.rows_read_by_scans(&worker.db).await - before;
    assert!(read < 100_000, "{read} rows were read from end to end for 400 events");
}
