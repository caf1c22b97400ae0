//! What an outbox loses, repeats or reorders when it is written by many and read by many.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use hubferry::adapters::db::{self, Accepted};
use hubferry::adapters::sqs::{QueueUrls, Sqs};
use hubferry::model::pacing::MOST_PUBLISH_ATTEMPTS;
use hubspot_simulator::{Action, Fault, SubscriptionState};
use serde_json::{Value, json};
use sqs_emulator::FaultKind;
use tokio_postgres::GenericClient;

use super::{FAR_TOO_LONG, ask, events, session, soon, until_blocked};
use crate::world::{World, newsletter_targets, request, with};

async fn accept_in(client: &impl GenericClient, request: Value) -> Accepted {
    let answers = db::accept_subscriptions(client, &json!([request]), None).await.unwrap();
    answers.into_iter().next().unwrap().unwrap()
}

/// A reader that remembers how far it got passes over the row whose transaction ends later, and never returns to it.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_committed_after_a_later_one_is_published_all_the_same() {
    let world = World::new().await;
    let (mut slow, quick) = (session(&world.database.url).await, session(&world.database.url).await);
    let transaction = slow.transaction().await.unwrap();
    let early = accept_in(&transaction, request("early@example.test", "subscribed")).await;
    let late = accept_in(&quick, request("late@example.test", "subscribed")).await;
    let (one, two) = tokio::join!(world.dispatcher.run_once(), world.dispatcher.run_once());
    assert_eq!(one.unwrap().queued + two.unwrap().queued, 1);
    assert_eq!(world.status_of(&late).await.0, "queued");
    transaction.commit().await.unwrap();

    let (one, two) = tokio::join!(world.dispatcher.run_once(), world.dispatcher.run_once());
    assert_eq!(one.unwrap().queued + two.unwrap().queued, 1);
    assert_eq!(world.status_of(&early).await.0, "queued");
    assert_eq!(world.drain().await.synced, 2);
}

/// A row that can't be read stops the reader at it, round after round, and everything behind it waits for good.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_can_not_be_read_holds_up_nobody() {
    let world = World::new().await;
    let mut requests: Vec<Value> = (0..200).map(|n| request(&format!("p{n}@example.test"), "subscribed")).collect();
    // Of the contacts of the first three, which can't be read, and of another product.
    requests.extend(
        (0..3).map(|n| with(request(&format!("p{n}@example.test"), "subscribed"), json!({"product": "events"}))),
    );
    let accepted = world.accept(requests).await;
    let changes = [
        r#"payload = '{"v": 99}'"#,
        "kind = 'subscription.desired-state.v99'",
        "payload = jsonb_set(payload, '{mapping,targets,subscription_type}', '\"x\"')",
    ];
    for (event, change) in accepted.iter().zip(changes) {
        world.sql(&format!("update hubferry.outbox_events set {change} where event_id = '{}'", event.event_id)).await;
    }
    let (published, worked) = world.step().await;

    assert_eq!((published.queued, worked.synced, worked.dead), (203, 200, 3), "{:?}", world.statuses().await);
    for (event, code) in accepted.iter().zip(["unreadable_payload", "unknown_kind", "unreadable_payload"]) {
        assert_eq!(world.status_of(event).await, ("dead".into(), Some(code.into())));
    }
    // The newer state of a stream goes on as if the unreadable one had never been.
    let newer = world.accept(vec![request("p0@example.test", "unsubscribed")]).await;
    world.drain().await;
    assert_eq!((newer[0].sequence, world.status_of(&newer[0]).await.0), (2, "synced".into()));
    assert_eq!(world.hubspot.status_of("p0@example.test", 1001), SubscriptionState::Unsubscribed);
}

/// A queue that is away for minutes uses up every event's tries, and nothing ever picks them up again.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_queue_makes_no_event_dead_however_long_it_lasts() {
    let world = World::new().await;
    let accepted = world.accept((0..5).map(|n| request(&format!("p{n}@example.test"), "subscribed")).collect()).await;
    world.queues.add_fault(sqs_emulator::Fault::new(FaultKind::Unavailable));
    let mut dispatcher = world.dispatcher.clone();
    // Without the client's own repeats, which take their time.
    let client = world.queues.client().config().to_builder().retry_config(RetryConfig::disabled()).build();
    let urls = QueueUrls {
        interactive: world.queues.queue_url("interactive"),
        bulk: world.queues.queue_url("bulk"),
        inbound: world.queues.queue_url("inbound"),
    };
    dispatcher.sqs = Sqs::with_client(Client::from_conf(client), urls);
    // More rounds than a message that SQS itself refuses would survive.
    for _ in 0..=MOST_PUBLISH_ATTEMPTS {
        let summary = dispatcher.run_once().await.unwrap();
        assert_eq!((summary.claimed, summary.unknown, summary.dead), (5, 5, 0));
        world.make_due().await;
    }
    let charged = "select sum(publish_attempts + process_attempts) from hubferry.outbox_events";
    assert_eq!(ask::<i64>(&world, charged).await, 0);
    world.queues.clear_faults();
    assert_eq!(world.drain().await.synced, accepted.len() as u64);
}

/// A key whose owner died before it was done blocks every honest repeat until somebody cleans up.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_owner_was_killed_belongs_to_whoever_comes_next() {
    let world = World::new().await;
    let wanted = request("ada@example.test", "subscribed");
    let killed = session(&world.database.url).await;
    killed.batch_execute("begin").await.unwrap();
    let lost = accept_in(&killed, wanted.clone()).await;
    // One repeat while the first is still under way: it waits for its end rather than being sent away.
    let (repeating, repeat) = (session(&world.database.url).await, wanted.clone());
    let waiting = tokio::spawn(async move { accept_in(&repeating, repeat).await });
    until_blocked(&world.database.url, 1).await;
    let pid: i32 = killed.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    ask::<bool>(&world, &format!("select pg_terminate_backend({pid})")).await;
    let repeated = tokio::time::timeout(FAR_TOO_LONG, waiting).await.expect("the key is free").unwrap();

    assert!(!repeated.replayed && repeated.sequence == 1 && repeated.request_id != lost.request_id);
    // Killed after the commit, before the caller knew: the next repeat gets the receipt and makes no second event.
    let again = accept_in(&session(&world.database.url).await, wanted).await;
    assert_eq!(again, Accepted { replayed: true, ..repeated });
    assert_eq!(ask::<i64>(&world, "select count(*) from hubferry.outbox_events").await, 1);
    assert_eq!(world.drain().await.synced, 1);
}

/// A sign-up that was stuck for days comes through at last and subscribes somebody who has left in the meantime.
#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_consent_does_not_undo_an_opt_out_and_a_new_one_does() {
    let world = World::new().await;
    world.hubspot.add_fault(Fault::next(9, Action::Html(502)));
    let delayed = world.accept(vec![request("ada@example.test", "subscribed")]).await;
    world.step().await;
    assert_eq!(world.status_of(&delayed[0]).await.0, "retry");
    world.hubspot.clear_faults();
    world.hubspot.opt_out("ada@example.test", Some(1001), None).unwrap();
    world.hubspot.reset_stats();
    world.make_due().await;
    world.drain().await;

    assert_eq!(world.status_of(&delayed[0]).await, ("superseded".into(), Some("remote_opt_out".into())));
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Unsubscribed);
    assert_eq!(ask::<String>(&world, "select applied_state from hubferry.applied_states").await, "unsubscribed");
    let writes = |world: &World| world.hubspot.stats().calls("subscriptions.batch_write");
    assert_eq!(writes(&world), 0, "{:?}", world.hubspot.stats().endpoints);

    let asked_again = world.accept(vec![request("ada@example.test", "subscribed")]).await;
    world.drain().await;
    assert_eq!(world.status_of(&asked_again[0]).await.0, "synced");
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Subscribed);
}

/// The write went through and its answer was lost; by the time of the repeat the person has left again.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_of_a_consent_whose_answer_was_lost_does_not_undo_an_opt_out() {
    let world = World::new().await;
    world.hubspot.add_fault(Fault::next(1, Action::LoseAnswer).on_path("/batch/write"));
    let accepted = world.accept(vec![request("ada@example.test", "subscribed")]).await;
    world.step().await;
    assert_eq!(world.status_of(&accepted[0]).await.0, "retry");
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Subscribed);
    world.hubspot.opt_out("ada@example.test", Some(1001), None).unwrap();
    world.make_due().await;
    world.drain().await;

    assert_eq!(world.status_of(&accepted[0]).await, ("superseded".into(), Some("remote_opt_out".into())));
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Unsubscribed);
}

/// Two sources with the same time: whoever breaks the tie by chance mails somebody who said no.
#[tokio::test(flavor = "multi_thread")]
async fn on_a_tie_opting_out_wins() {
    let world = World::new().await;
    let at = "2026-05-04T09:30:00Z";
    world.hubspot.seed_contact(&[("email", "ada@example.test")]).unwrap();
    world.hubspot.opt_out("ada@example.test", Some(1001), Some(at.parse().unwrap())).unwrap();
    let consent = json!({"consent": {"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "form", "given_at": at}});
    let tied = world.accept(vec![with(request("ada@example.test", "subscribed"), consent)]).await;
    world.drain().await;
    assert_eq!(world.status_of(&tied[0]).await, ("superseded".into(), Some("remote_opt_out".into())));

    // Two products that share a subscription type, decided in the same microsecond.
    world.map("events", json!({"subscription_type": 1001})).await;
    for n in 0..16 {
        let email = format!("p{n}@example.test");
        let (yes, no) = if n % 2 == 0 { ("newsletter", "events") } else { ("events", "newsletter") };
        let both = vec![
            with(request(&email, "subscribed"), json!({"product": yes})),
            with(request(&email, "unsubscribed"), json!({"product": no})),
        ];
        world.accept(both).await;
    }
    world.sql("update hubferry.outbox_events set created_at = '2026-05-04T09:30:00Z'").await;
    world.drain().await;
    for n in 0..16 {
        let state = world.hubspot.status_of(&format!("p{n}@example.test"), 1001);
        assert_eq!(state, SubscriptionState::Unsubscribed, "{n}");
    }
}

/// Of two products that share a subscription type the older decision is stuck, and comes through after the newer one.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_consent_of_another_product_does_not_undo_a_newer_opt_out_of_our_own() {
    let world = World::new().await;
    world.map("newsletter", newsletter_targets()).await;
    world.map("events", json!({"subscription_type": 1001})).await;
    world.hubspot.add_fault(Fault::next(9, Action::Html(502)));
    let older = world.accept(vec![request("ada@example.test", "subscribed")]).await;
    world.step().await;
    assert_eq!(world.status_of(&older[0]).await.0, "retry");
    world.hubspot.clear_faults();
    let newer =
        world.accept(vec![with(request("ada@example.test", "unsubscribed"), json!({"product": "events"}))]).await;
    // The older one waits for its second try.
    world
        .sql("update hubferry.outbox_events set status = 'queued', queued_at = clock_timestamp() where status = 'pending'")
        .await;
    world.worker.work(&events(&newer), soon()).await.unwrap();
    assert_eq!(world.status_of(&newer[0]).await.0, "synced");
    world.drain().await;

    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Unsubscribed);
    // And the other way round a newer consent is not held up by our own older opt-out.
    let again = with(
        request("ada@example.test", "subscribed"),
        json!({"consent": {
        "legal_basis": "CONSENT_WITH_NOTICE", "explanation": "form", "given_at": "2024-01-01T00:00:00Z"}}),
    );
    world.accept(vec![again]).await;
    world.drain().await;
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Subscribed);
}

/// The first call was carried out and its answer lost, the second failed an hour later: a person's own opt-out lies in between
/// by its time alone, and our own does too.
#[tokio::test(flavor = "multi_thread")]
async fn an_opt_out_of_our_own_is_known_again_by_any_of_the_times_it_was_begun() {
    let world = World::new().await;
    world.hubspot.add_fault(Fault::next(1, Action::LoseAnswer).on_path("/batch/write"));
    let left = world.accept(vec![request("ada@example.test", "unsubscribed")]).await;
    world.step().await;
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Unsubscribed);
    world.hubspot.add_fault(Fault::next(1, Action::Html(502)).on_path("/batch/write"));
    world.make_due().await;
    world.step().await;
    assert_eq!(world.status_of(&left[0]).await.0, "retry");
    world.sql("update hubferry.operation_receipts set started_at = started_at + interval '1 hour'").await;

    let consent = json!({"consent": {"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "form", "given_at": "2024-01-01T00:00:00Z"}});
    let back = world.accept(vec![with(request("ada@example.test", "subscribed"), consent.clone())]).await;
    world.drain().await;
    assert_eq!(world.status_of(&back[0]).await.0, "synced");
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Subscribed);

    // What lies between two tries, and near none of them, was a person.
    let between = "2026-05-04T09:30:00Z";
    world.hubspot.opt_out("ada@example.test", Some(1001), Some(between.parse().unwrap())).unwrap();
    world
        .sql(
            "update hubferry.operation_receipts set started_at = '2026-05-04T10:30:00Z', earlier_starts = '{2026-05-04T08:30:00Z}'
             where operation_key like '%:unsubscribed'",
        )
        .await;
    let again = world.accept(vec![with(request("ada@example.test", "subscribed"), consent)]).await;
    world.drain().await;
    assert_eq!(world.status_of(&again[0]).await, ("superseded".into(), Some("remote_opt_out".into())));
}
