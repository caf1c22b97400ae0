//! What SQS and Lambda do at their worst: batches that come back, messages that are none of ours, stops that outlast retention.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hubferry::adapters::budget::Budget;
use hubferry::adapters::db::{self, Db};
use hubferry::adapters::hubspot::{HubSpot, HubSpotConfig};
use hubferry::flows::worker::Worker;
use hubferry::model::budget::Bucket;
use hubferry::model::envelope::Sealed;
use hubferry::model::ids::EventId;
use hubspot_simulator::{Action, Fault};
use serde_json::{Value, json};
use sqs_emulator::event_source::{Verdict, judge};
use uuid::Uuid;

use super::recorded::Recorded;
use super::{ask, batch, events, publish_silently, record, rows, sealed, session, soon};
use crate::servers::redis_url;
use crate::world::{World, request};

fn people(count: usize) -> Vec<Value> {
    (0..count).map(|n| request(&format!("p{n}@example.test"), "subscribed")).collect()
}

/// What Lambda does with the messages of a batch after this answer, which it gets as JSON.
fn judged(answer: &str, message_ids: &[&str]) -> Verdict {
    judge(&serde_json::from_str(answer).unwrap(), &message_ids.iter().copied().collect())
}

/// Lambda reads another name, an empty id or one it did not send as "all is well" or as "everything again", never as an error.
#[tokio::test(flavor = "multi_thread")]
async fn the_answer_names_exactly_the_messages_that_are_to_come_again() {
    let world = World::new().await;
    let accepted = world.accept(people(1)).await;
    publish_silently(&world).await;
    let known = sealed(EventId(accepted[0].event_id));
    let (unknown, other) = (sealed(EventId(Uuid::new_v4())), sealed(EventId(Uuid::new_v4())));
    let forged = Sealed { signature: other.signature, ..sealed(EventId(Uuid::new_v4())) };
    let records = [record("m1", &known, 1), record("m2", &unknown, 1), record("m3", &forged, 1)];
    let (response, _) = world.worker.handle(batch(&records), soon()).await.unwrap();

    let answer = serde_json::to_string(&response).unwrap();
    assert_eq!(answer, r#"{"batchItemFailures":[{"itemIdentifier":"m2"}]}"#);
    assert_eq!(judged(&answer, &["m1", "m2", "m3"]), Verdict::DeleteExcept(["m2".to_owned()].into()));

    let (response, _) = world.worker.handle(batch(&records[..1]), soon()).await.unwrap();
    let answer = serde_json::to_string(&response).unwrap();
    assert_eq!(answer, r#"{"batchItemFailures":[]}"#);
    assert_eq!(judged(&answer, &["m1"]), Verdict::DeleteAll);
    assert_eq!(world.unfinished().await, 0);
}

/// A message without an id can't be named, so its batch has to come back as a whole rather than be deleted with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_an_id_that_has_to_come_again_brings_its_batch_with_it() {
    let world = World::new().await;
    let mut nameless = record("", &sealed(EventId(Uuid::new_v4())), 1);
    nameless.as_object_mut().unwrap().remove("messageId");
    let (response, _) = world.worker.handle(batch(&[nameless]), soon()).await.unwrap();
    assert_eq!(judged(&serde_json::to_string(&response).unwrap(), &["m1"]), Verdict::ReturnAll);
}

/// One message of a batch fails and the platform delivers all of them again: what was done must not be done twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_comes_back_whole_after_its_success_costs_no_call() {
    let world = World::new().await;
    let mut ids = events(&world.accept(people(10)).await);
    publish_silently(&world).await;
    ids.insert(3, EventId(Uuid::new_v4()));
    let deliver = |deliveries: u32| {
        let record = |(n, id): (usize, &EventId)| record(&format!("m{n}"), &sealed(*id), deliveries);
        batch(&ids.iter().enumerate().map(record).collect::<Vec<_>>())
    };
    let (first, summary) = world.worker.handle(deliver(1), soon()).await.unwrap();
    assert_eq!((summary.synced, summary.unknown), (10, 1), "{:?}", world.statuses().await);
    let (calls, before) = (world.hubspot.stats().total, rows(&world).await);

    let (second, repeated) = world.worker.handle(deliver(2), soon()).await.unwrap();
    let (third, _) = world.worker.handle(deliver(3), soon()).await.unwrap();
    assert_eq!((repeated.settled, repeated.claimed, repeated.calls), (10, 0, 0));
    assert_eq!((world.hubspot.stats().total, rows(&world).await), (calls, before));
    let named = |response: &aws_lambda_events::sqs::SqsBatchResponse| {
        response.batch_item_failures.iter().map(|failure| failure.item_identifier.clone()).collect::<Vec<_>>()
    };
    assert_eq!((named(&first), named(&second)), (vec!["m3".to_owned()], vec!["m3".to_owned()]));
    assert!(named(&third).is_empty(), "what nobody knows does not come back for ever");
    assert_eq!(world.unfinished().await, 0);
}

/// A standard queue may hand out two copies of a message at once, and a claim of one row twice would abort its statement.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_in_its_batch_twice_is_worked_once() {
    let world = World::new().await;
    let ids = events(&world.accept(people(3)).await);
    publish_silently(&world).await;
    let unknown = EventId(Uuid::new_v4());
    let twice: Vec<Value> = ids
        .iter()
        .chain([&unknown])
        .enumerate()
        .flat_map(|(n, id)| ["", "again"].map(|copy| record(&format!("m{n}{copy}"), &sealed(*id), 1)))
        .collect();
    let (response, summary) = world.worker.handle(batch(&twice), soon()).await.unwrap();
    assert_eq!((summary.messages, summary.claimed, summary.synced), (8, 3, 3));
    let named: BTreeSet<String> =
        response.batch_item_failures.into_iter().map(|failure| failure.item_identifier).collect();
    assert_eq!(named, ["m3".to_owned(), "m3again".to_owned()].into(), "both copies of what is not known yet");
    assert_eq!(world.hubspot.stats().calls("contacts.batch_upsert"), 1);
    assert_eq!(world.unfinished().await, 0);
}

/// SQS refuses a request of eleven entries, or of entries with equal or ill-formed ids, as a whole.
#[tokio::test(flavor = "multi_thread")]
async fn messages_go_out_by_tens_and_are_small_whatever_the_event_holds() {
    let world = World::new().await;
    let connection = world.db.connection().await.unwrap();
    let mut large = people(31);
    for request in &mut large {
        request["contact"]["properties"]["company"] = json!("x".repeat(60_000));
    }
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    db::accept_subscriptions(&*connection, &json!(large), Some(trace)).await.unwrap();
    let summary = world.dispatcher.run_once().await.unwrap();

    assert_eq!((summary.queued, world.queues.stats().calls["SendMessageBatch"]), (31, 4));
    for message in world.queues.history("bulk") {
        let attributes = format!("{:?}", message.message_attributes);
        assert!(message.body.len() + attributes.len() < 1024, "{} {attributes}", message.body);
        let body: serde_json::Map<String, Value> = serde_json::from_str(&message.body).unwrap();
        assert_eq!(body.keys().collect::<Vec<_>>(), ["event_id", "v"]);
        assert_eq!(message.message_attributes["traceparent"].string_value.as_deref(), Some(trace));
    }
    assert_eq!(world.drain().await.synced, 31);
}

/// Work that is begun when the invocation is nearly over is cut off in the middle of a call.
#[tokio::test(flavor = "multi_thread")]
async fn an_invocation_without_time_makes_no_call_and_charges_nobody() {
    let world = World::new().await;
    let ids = events(&world.accept(people(3)).await);
    for deadline in [Instant::now(), Instant::now() + Duration::from_secs(6)] {
        publish_silently(&world).await;
        let (summary, _) = world.worker.work(&ids, deadline).await.unwrap();
        assert_eq!((summary.snoozed, summary.calls), (3, 0));
    }
    assert_eq!(world.hubspot.stats().total, 0);
    assert_eq!(ask::<i64>(&world, "select sum(process_attempts) from hubferry.outbox_events").await, 0);
    world.make_due().await;
    assert_eq!(world.drain().await.synced, 3);
}

/// HMAC-SHA256 under the key of these tests, computed by PostgreSQL, so that anything at all can bear a genuine signature.
async fn signed(world: &World, id: &str, body: &str) -> Sealed {
    let signing = "select 'v1,' || encode(sha256(decode(repeat('5c', 64), 'hex')
                       || sha256(decode(repeat('36', 64), 'hex') || convert_to($1, 'UTF8'))), 'base64')";
    let content = format!("{id}.1790000000.{body}");
    let connection = world.db.connection().await.unwrap();
    let signature = connection.query_one(signing, &[&content]).await.unwrap().get(0);
    Sealed { body: body.into(), id: id.into(), timestamp: "1790000000".into(), signature }
}

/// A body that can't be read makes a handler fail, and with it every message of its batch, until all of them are dead letters.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_no_envelope_ends_without_a_trace_and_alone() {
    let world = World::new().await;
    let ids = events(&world.accept(people(3)).await);
    publish_silently(&world).await;
    let (one, two) = (sealed(ids[0]), sealed(ids[1]));
    let no_envelopes = [
        signed(&world, &one.id, "not json").await,
        signed(&world, &one.id, "").await,
        signed(&world, "", "").await,
        signed(&world, &one.id, "[]").await,
        signed(&world, &one.id, r#"{"event_id":"1","v":1}"#).await,
        signed(&world, &one.id, &format!(r#"{{"event_id":"{}"}}"#, one.id)).await,
        signed(&world, &one.id, &format!(r#"{{"event_id":"{}","v":2}}"#, one.id)).await,
        // Genuine throughout, but of another event.
        signed(&world, &one.id, &two.body).await,
        Sealed { signature: two.signature.clone(), ..one.clone() },
        Sealed { signature: "v1,".into(), ..one.clone() },
        Sealed { body: "\u{0}\u{fffd}".repeat(5000), ..one.clone() },
    ];
    let mut records: Vec<Value> = no_envelopes.iter().map(|sealed| record("bad", sealed, 1)).collect();
    records.push(json!({"messageId": "bad"}));
    records.push(
        json!({"messageId": "bad", "body": one.body, "messageAttributes": {"webhook-id": {"dataType": "Binary"}}}),
    );
    let bad = records.len() as u64;
    records.push(record("good", &sealed(ids[2]), 1));
    let (response, summary) = world.worker.handle(batch(&records), soon()).await.unwrap();

    assert_eq!((summary.quarantined, summary.claimed, summary.synced), (bad, 1, 1));
    assert!(response.batch_item_failures.is_empty());
    let untouched = "select count(*) from hubferry.outbox_events where status = 'queued' and process_attempts = 0";
    assert_eq!(ask::<i64>(&world, untouched).await, 2);
    assert_eq!(world.hubspot.contacts().len(), 1);
}

/// An id is a number written down, and some library writes it in capitals.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_id_in_capitals_is_the_same_event() {
    let world = World::new().await;
    let ids = events(&world.accept(people(1)).await);
    publish_silently(&world).await;
    let capitals = ids[0].to_string().to_uppercase();
    let sealed = signed(&world, &capitals, &format!(r#"{{"event_id":"{capitals}","v":1}}"#)).await;
    let (_, summary) = world.worker.handle(batch(&[record("m", &sealed, 1)]), soon()).await.unwrap();
    assert_eq!((summary.quarantined, summary.synced), (0, 1));
}

/// A message that overtakes the commit of its row would be taken for rubbish, and its event never be sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_before_its_commit_costs_the_event_nothing() {
    let world = World::new().await;
    let mut application = session(&world.database.url).await;
    let transaction = application.transaction().await.unwrap();
    let answers = db::accept_subscriptions(&transaction, &json!(people(1)), None).await.unwrap();
    let accepted = answers.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    let early = sealed(events(&accepted)[0]);
    let (response, summary) = world.worker.handle(batch(&[record("m", &early, 1)]), soon()).await.unwrap();
    assert_eq!((response.batch_item_failures.len(), summary.unknown), (1, 1), "it comes again");
    transaction.commit().await.unwrap();

    let (response, summary) = world.worker.handle(batch(&[record("m", &early, 2)]), soon()).await.unwrap();
    assert_eq!((response.batch_item_failures.len(), summary.settled), (0, 1), "the row waits for the dispatcher");
    assert_eq!(world.drain().await.synced, 1);
}

/// What the queues did, and what it cost, while HubSpot turned everything away.
async fn expect_nothing_lost_or_charged(world: &World, count: i64) {
    let queues = world.queues.stats();
    for (name, counts) in &queues.counts {
        assert_eq!((counts.visible, counts.in_flight, counts.delayed), (0, 0, 0), "{name}: nothing bounces");
    }
    assert_eq!(queues.queues["bulk"].received, queues.queues["bulk"].sent, "every message came once");
    let waiting = "select count(*) from hubferry.outbox_events
                   where status = 'retry' and process_attempts = 0 and publish_attempts = 0";
    assert_eq!(ask::<i64>(world, waiting).await, count, "{:?}", world.statuses().await);
}

/// A stop of the whole account outlasts any number of receives: whatever bounces in the queue meanwhile is a dead letter by noon.
#[tokio::test(flavor = "multi_thread")]
async fn a_portal_that_is_moved_for_a_day_publishes_nothing_and_delivers_everything_afterwards() {
    let world = World::new().await;
    world.hubspot.add_fault(Fault::always(Action::migrating(86_400)));
    world.accept(people(600)).await;
    world.step().await;
    let calls = world.hubspot.stats().total;
    assert!((1..30).contains(&calls), "{calls} calls to a portal that is stopped");
    for _ in 0..5 {
        world.make_due().await;
        assert_eq!(world.dispatcher.run_once().await.unwrap().claimed, 0, "a stopped portal publishes nothing");
    }
    assert_eq!(world.hubspot.stats().total, calls);
    expect_nothing_lost_or_charged(&world, 600).await;
    let pause = "select extract(epoch from paused_until - clock_timestamp())::bigint from hubferry.portals";
    assert!((86_000..=86_400).contains(&ask::<i64>(&world, pause).await), "as long as HubSpot asked");

    world.hubspot.clear_faults();
    world.sql("update hubferry.portals set paused_until = clock_timestamp() - interval '1 s'").await;
    let summary = world.drain().await;
    assert_eq!((summary.synced, summary.dead, world.hubspot.contacts().len()), (600, 0, 600));
}

/// A day's quota that is used up at nine in the morning must not cost each event its attempts by ten.
#[tokio::test(flavor = "multi_thread")]
async fn a_portal_without_calls_for_the_day_charges_nobody_and_delivers_everything_afterwards() {
    let world = World::new().await;
    let body = json!({"status": "error", "message": "You have reached your daily limit.", "policyName": "DAILY"});
    world.hubspot.add_fault(Fault::always(Action::respond(429, body)));
    world.accept(people(300)).await;
    world.step().await;
    let calls = world.hubspot.stats().total;
    assert!((1..30).contains(&calls), "{calls} calls after the quota was used up");
    for _ in 0..5 {
        world.make_due().await;
        let (_, worked) = world.step().await;
        assert_eq!((worked.calls, worked.retried, worked.dead), (0, 0, 0));
    }
    assert_eq!(world.hubspot.stats().total, calls);
    expect_nothing_lost_or_charged(&world, 300).await;
    let pause = "select extract(epoch from paused_until - clock_timestamp())::bigint from hubferry.portals";
    assert!(ask::<i64>(&world, pause).await > 3000, "nobody knocks every few seconds for a day");

    world.hubspot.clear_faults();
    let bucket = Bucket::calls(world.portal, 150, Duration::from_secs(10));
    world.worker.budget.resume(&bucket).await.unwrap();
    world.sql("update hubferry.portals set paused_until = clock_timestamp() - interval '1 s'").await;
    world.make_due().await;
    let summary = world.drain().await;
    assert_eq!((summary.synced, summary.dead, world.hubspot.contacts().len()), (300, 0, 300));
}

/// A sandbox is frozen between two invocations: it wakes with connections that have ended long ago and work left half done.
#[test]
fn a_sandbox_that_was_frozen_works_off_its_next_batch_as_if_nothing_had_been() {
    let outside = tokio::runtime::Runtime::new().unwrap();
    let sandbox = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut recorded = outside.block_on(Recorded::new());
    let url = recorded.world.hubspot.base_url().parse().unwrap();
    let worker = Worker {
        db: Db::new(&recorded.world.database.url.clone().into(), 3).unwrap(),
        budget: Budget::connect(&redis_url()).unwrap(),
        hubspot: HubSpot::new(HubSpotConfig::new(url)).unwrap(),
        ..recorded.world.worker.clone()
    };
    for round in 0..3 {
        let world = &recorded.world;
        let people = (0..20).map(|n| request(&format!("p{round}-{n}@example.test"), "subscribed")).collect();
        let ids = outside.block_on(async {
            let ids = events(&world.accept(people).await);
            publish_silently(world).await;
            ids
        });
        let messages: Vec<Value> = ids.iter().map(|id| record(&id.to_string(), &sealed(*id), 1)).collect();
        let (_, summary) = sandbox.block_on(worker.handle(batch(&messages), soon())).unwrap();
        assert_eq!((summary.synced, summary.retried, summary.snoozed), (20, 0, 0), "{round}");
        // Nothing goes on after the answer: there is nothing that a freeze could interrupt.
        let calls = world.hubspot.stats().total;
        sandbox.block_on(async {
            tokio::time::timeout(Duration::from_millis(50), std::future::pending::<()>()).await.unwrap_err()
        });
        assert_eq!(world.hubspot.stats().total, calls);
        // Frozen: nobody in the sandbox notices that its connections end.
        outside.block_on(async {
            let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                       where datname = current_database() and pid <> pg_backend_pid()";
            ask::<i64>(&recorded.world, end).await;
            recorded.reconnect().await;
        });
    }
    assert_eq!(outside.block_on(recorded.world.unfinished()), 0);
}
