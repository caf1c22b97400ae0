//! Events of a contact that is erased while they wait, travel or are in work.

use std::time::{Duration, Instant};

use hubferry::adapters::db::{self, Accepted, ContactRelease, Db, LinkChange, Verdict, VerdictStatus};
use hubferry::model::ids::{ContactKey, EventId, LeaseToken, RecordId};
use hubferry::model::pacing::Pace;
use hubferry::model::subscription::DesiredState;
use hubspot_simulator::{Action, Fault};
use uuid::Uuid;

use super::{GDPR_DELETE, KEY, erase, erasures, kept, keyed, nothing_is_leased, occurrences, subscribed, synced};
use crate::world::World;

fn cancelled() -> (String, Option<String>) {
    ("cancelled".into(), Some("contact_erased".into()))
}

async fn accepted(world: &World, key: &str) -> Accepted {
    let email = format!("{key}@example.test");
    world.accept(vec![keyed(key, &email, "subscribed")]).await.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_cancelled_at_once_and_what_travels_when_it_is_claimed() {
    let world = World::new().await;
    let travels = accepted(&world, "user-1").await;
    world.dispatcher.run_once().await.unwrap();
    let waits = accepted(&world, "user-1").await;
    let neighbour = accepted(&world, "user-2").await;
    erase(&world, "user-1").await;
    assert_eq!(world.status_of(&waits).await, cancelled());
    assert_eq!(world.status_of(&travels).await.0, "queued");
    let summary = world.work_off_queues().await;
    assert_eq!((summary.cancelled, summary.claimed, summary.calls), (1, 0, 0));
    assert_eq!(world.status_of(&travels).await, cancelled());

    world.drain().await;
    assert_eq!(erasures(&world, "user-1").await, synced());
    assert_eq!(world.status_of(&neighbour).await.0, "synced");
    assert_eq!(world.hubspot.contacts().len(), 1);
    assert_eq!(occurrences(&world, "user-1@").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_event_is_cancelled_and_can_not_be_replayed() {
    let world = World::new().await;
    let dead = accepted(&world, "user-1").await;
    world.sql("update hubferry.outbox_events set status = 'dead', last_error_code = 'x', finished_at = now()").await;
    erase(&world, "user-1").await;
    assert_eq!(world.status_of(&dead).await, cancelled());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_erasure_waits_for_a_worker_that_is_writing_and_deletes_what_it_wrote() {
    let world = World::new().await;
    let event = accepted(&world, "user-1").await;
    world.dispatcher.run_once().await.unwrap();
    let token = LeaseToken(Uuid::new_v4());
    let (lease, snooze) = (Duration::from_secs(25), Duration::from_secs(2));
    let connection = world.db.connection().await.unwrap();
    let batch =
        db::claim_batch(&*connection, &[EventId(event.event_id)], token, lease, (snooze, snooze)).await.unwrap();
    assert_eq!(batch.portals.len(), 1);

    erase(&world, "user-1").await;
    let (_, summary) = world.step().await;
    assert_eq!((summary.busy, summary.calls), (1, 0), "the contact is held");
    assert_eq!(world.status_of(&event).await.0, "processing");

    // The worker writes the contact, and says so.
    let record = world.hubspot.seed_contact(&[("email", "user-1@example.test")]).unwrap();
    let verdict = Verdict {
        event_id: EventId(event.event_id),
        status: VerdictStatus::Synced,
        reason: None,
        applied: Some(DesiredState::Subscribed),
    };
    let link = LinkChange::Is(RecordId(i64::try_from(record.0).unwrap()));
    let release = ContactRelease { link, ..ContactRelease::unchanged(world.portal, ContactKey("user-1".into())) };
    let finished = db::finish_batch(&*connection, token, &[verdict], &[release], &[]).await.unwrap();
    assert_eq!(finished.len(), 1);
    drop(connection);
    world.make_due().await;
    world.drain().await;
    assert!(world.hubspot.contacts().is_empty());
    assert_eq!(erasures(&world, "user-1").await, synced());
    assert_eq!(occurrences(&world, "user-1@").await, []);
    nothing_is_leased(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_died_while_it_wrote_leaves_nothing_behind() {
    let world = World::new().await;
    let event = accepted(&world, "user-1").await;
    world.dispatcher.run_once().await.unwrap();
    let connection = world.db.connection().await.unwrap();
    let second = Duration::from_secs(1);
    let token = LeaseToken(Uuid::new_v4());
    db::claim_batch(&*connection, &[EventId(event.event_id)], token, Duration::ZERO, (second, second)).await.unwrap();
    drop(connection);
    world.hubspot.seed_contact(&[("email", "user-1@example.test")]).unwrap();
    erase(&world, "user-1").await;
    world.drain().await;
    assert_eq!(world.status_of(&event).await, cancelled());
    assert_eq!(erasures(&world, "user-1").await, synced());
    assert!(world.hubspot.contacts().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_that_is_cut_off_anywhere_is_done_by_the_next_worker() {
    let world = World::new().await;
    for calls in 0..4 {
        let key = format!("user-{calls}");
        subscribed(&world, &key, &format!("{key}@example.test")).await;
        erase(&world, &key).await;
        world.dispatcher.run_once().await.unwrap();
        let events = world.db.connection().await.unwrap();
        let sql = "select event_id from hubferry.outbox_events where contact_key is not null and finished_at is null";
        let event = EventId(events.query_one(sql, &[]).await.unwrap().get(0));
        drop(events);
        // The worker is gone in the middle of its call: whether HubSpot has it depends on the number.
        world.hubspot.add_fault(Fault::always(Action::SlowAnswerMs(2_000)).on_path("contacts/").after(calls));
        world.hubspot.reset_stats();
        let worker = world.worker.clone();
        let working = tokio::spawn(async move { worker.work(&[event], Instant::now() + Duration::from_mins(1)).await });
        while world.hubspot.stats().calls("contacts.batch_read") + world.hubspot.stats().calls(GDPR_DELETE)
            < u64::from(calls) + 1
        {
            tokio::task::yield_now().await;
        }
        working.abort();
        // It has let go of everything, its renewals too, before its leases are ended.
        drop(working.await);
        world.hubspot.clear_faults();
        world.sql("update hubferry.outbox_events set lease_expires_at = now() - interval '1 s' where status = 'processing'").await;
        world.sql("update hubferry.contact_links set lease_expires_at = now() - interval '1 s' where lease_token is not null").await;
        world.drain().await;
        assert_eq!(erasures(&world, &key).await, synced(), "cut off after {calls}");
        assert!(world.hubspot.contacts().is_empty(), "cut off after {calls}");
        nothing_is_leased(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_erases_and_stays_open_holds_up_no_worker() {
    let world = World::new().await;
    let mine = accepted(&world, "user-1").await;
    world.dispatcher.run_once().await.unwrap();
    let application = world.db.connection().await.unwrap();
    application.batch_execute("begin; select hubferry.erase_contact('user-1')").await.unwrap();
    let other = accepted(&world, "user-2").await;
    assert_eq!(world.work_off_queues().await.synced, 1, "it is not erased as long as nobody says so");
    let (_, summary) = world.step().await;
    assert_eq!(summary.synced, 1);
    assert_eq!(world.status_of(&other).await.0, "synced");
    application.batch_execute("commit").await.unwrap();
    drop(application);
    world.drain().await;
    assert_eq!(world.status_of(&mine).await.0, "synced");
    assert_eq!(world.hubspot.contacts().len(), 1);
    assert_eq!(occurrences(&world, "user-1@").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_no_stream_and_no_contact_is_claimed_alone_and_an_unknown_kind_dies_alone() {
    let world = World::new().await;
    subscribed(&world, "user-1", "user-1@example.test").await;
    erase(&world, "user-1").await;
    let insert = "insert into hubferry.outbox_events (event_id, kind, portal_id, lane, payload)
                  select gen_random_uuid(), 'weather.report.v1', portal_id, 'interactive', '{}' from hubferry.portals";
    world.sql(insert).await;
    let summary = world.drain().await;
    assert_eq!((summary.claimed, summary.synced, summary.dead), (2, 1, 1));
    let expected = [("dead".to_owned(), Some("unknown_kind".to_owned()), 1), ("synced".to_owned(), None, 2)];
    assert_eq!(world.statuses().await, expected);
    nothing_is_leased(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_walks_over_no_growing_table() {
    let world = World::new().await;
    let people = (0..3000).map(|n| keyed(&format!("user-{n}"), &format!("p{n}@example.test"), "subscribed"));
    world.accept(people.collect()).await;
    for n in 0..40 {
        erase(&world, &format!("user-{n}")).await;
    }
    let connection = world.db.connection().await.unwrap();
    let token = LeaseToken(Uuid::new_v4());
    let due = db::claim_due(&*connection, token, Duration::from_secs(25), &Pace::default()).await.unwrap();
    let sent: Vec<_> = due.into_iter().map(|event| (event.event_id, "m".to_owned())).collect();
    db::mark_queued(&*connection, token, &sent).await.unwrap();
    let rows = connection.query("select event_id from hubferry.outbox_events where contact_key is not null", &[]).await;
    let events: Vec<EventId> = rows.unwrap().iter().map(|row| EventId(row.get(0))).collect();
    drop(connection);

    let mut worker = world.worker.clone();
    worker.db = Db::new(&world.database.url.clone().into(), 1).unwrap();
    let before = world.rows_read_by_scans(&worker.db).await;
    let (summary, _) = worker.work(&events, Instant::now() + Duration::from_mins(1)).await.unwrap();
    assert_eq!(summary.synced, 40, "{:?}", world.statuses().await);
    let read = world.rows_read_by_scans(&worker.db).await - before;
    assert!(read < 20_000, "{read} rows were read from end to end for 40 erasures");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_and_a_decision_about_one_record_in_one_batch_do_not_get_in_each_others_way() {
    let world = World::new().await;
    subscribed(&world, "user-1", "ada@example.test").await;
    subscribed(&world, "user-2", "ada@example.test").await;
    erase(&world, "user-1").await;
    let decision = world.accept(vec![keyed("user-2", "ada@example.test", "unsubscribed")]).await.remove(0);
    world.dispatcher.run_once().await.unwrap();
    let connection = world.db.connection().await.unwrap();
    let sql = "select event_id from hubferry.outbox_events where contact_key is not null";
    let erasure: Uuid = connection.query_one(sql, &[]).await.unwrap().get(0);
    drop(connection);
    let events = [EventId(erasure), EventId(decision.event_id)];
    let (summary, _) = world.worker.work(&events, Instant::now() + Duration::from_mins(1)).await.unwrap();
    assert_eq!((summary.claimed, summary.synced, summary.lost), (2, 2, 0), "{:?}", world.statuses().await);
    assert_eq!(erasures(&world, "user-1").await, kept());
    let contacts = world.hubspot.contacts();
    assert_eq!((contacts.len(), contacts[0].get(KEY)), (1, Some("user-2")));
    nothing_is_leased(&world).await;
}
