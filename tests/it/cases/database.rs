//! What PostgreSQL does under load, after a failover and behind a pooler.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use hubferry::adapters::db::{
    self, ContactRelease, Db, LinkChange, Receipt, ReceiptStatus, Renewed, StartedReceipt, Unpublished, Verdict,
    VerdictStatus,
};
use hubferry::model::ids::{ContactKey, EventId, LeaseToken, PortalId, RecordId};
use hubferry::model::pacing::{Pace, WORK_LEASE};
use hubferry::model::subscription::{ClaimedEvent, DesiredState};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::{BUSY, FAR_TOO_LONG, ask, events, pooler, publish_silently, rows, session, soon, token, until_blocked};
use crate::world::{World, WorldConfig, request, with};

/// Every contact's requests for both products.
fn both_products(contacts: usize) -> Vec<Value> {
    let both = |n| {
        ["newsletter", "events"]
            .map(|product| with(request(&format!("p{n}@example.test"), "subscribed"), json!({"product": product})))
    };
    (0..contacts).flat_map(both).collect()
}

fn synced(event: EventId) -> Verdict {
    Verdict { event_id: event, status: VerdictStatus::Synced, reason: None, applied: Some(DesiredState::Subscribed) }
}

fn started(event: EventId, portal_id: PortalId, contact: &ContactKey) -> StartedReceipt {
    StartedReceipt {
        event_id: event,
        operation_key: "status:1001:unsubscribed".into(),
        portal_id,
        contact_key: contact.clone(),
        desired_hash: [7; 32],
    }
}

fn done(started: StartedReceipt) -> Receipt {
    let status = ReceiptStatus::Done;
    Receipt { started, status, record_id: Some(RecordId(501)), correlation_id: None, remote_at: None }
}

fn release(portal_id: PortalId, contact: &ContactKey) -> ContactRelease {
    ContactRelease { link: LinkChange::Is(RecordId(501)), ..ContactRelease::unchanged(portal_id, contact.clone()) }
}

/// Claims events by hand.
async fn claim(db: &Db, ids: &[EventId], token: LeaseToken, lease: Duration) -> Vec<ClaimedEvent> {
    let connection = db.connection().await.unwrap();
    let batch = db::claim_batch(&*connection, ids, token, lease, BUSY).await.unwrap();
    batch.portals.into_values().flat_map(|(_, events)| events).collect()
}

/// Two rows of one key in a statement abort all of it, and a batch with such a pair never gets through.
#[tokio::test(flavor = "multi_thread")]
async fn one_contact_many_times_in_a_batch_is_written_once() {
    let world = World::new().await;
    let spellings = ["ada@example.test", " ADA@example.test", "Ada@Example.TEST "];
    let states = ["unsubscribed", "subscribed"];
    let requests = spellings.iter().flat_map(|email| {
        states.iter().flat_map(|state| {
            ["newsletter", "events"].map(|product| with(request(email, state), json!({"product": product})))
        })
    });
    let ids = events(&world.accept(requests.collect()).await);
    publish_silently(&world).await;
    let (summary, _) = world.worker.work(&[ids.clone(), ids].concat(), soon()).await.unwrap();

    assert_eq!((summary.synced, summary.superseded), (2, 10), "{:?}", world.statuses().await);
    assert_eq!((world.unfinished().await, world.hubspot.contacts().len()), (0, 1));
    let applied = "select array_agg(applied_state || applied_sequence order by stream_id) from hubferry.applied_states";
    assert_eq!(ask::<Vec<String>>(&world, applied).await, ["subscribed6", "subscribed6"]);
}

/// Batches of many workers, all at once, each over the same contacts in another order: claim, renew, note, finish.
async fn crowd(world: &Arc<World>, batches: Vec<Vec<EventId>>) {
    let start = Arc::new(Barrier::new(batches.len()));
    let mut running = JoinSet::new();
    for ids in batches {
        let (world, start) = (world.clone(), start.clone());
        running.spawn(async move {
            start.wait().await;
            let token = token();
            let claimed = claim(&world.db, &ids, token, WORK_LEASE).await;
            let ids: Vec<EventId> = claimed.iter().map(|event| event.event_id).collect();
            // All have one record, so whoever is claimed is leased with the others.
            let leased = claimed.iter().flat_map(|event| event.contact.leased.iter().map(|key| (event.portal_id, key)));
            let contacts: BTreeSet<_> = leased.map(|(portal, key)| (portal, key.clone())).collect();
            let contacts: Vec<_> = contacts.into_iter().collect();
            let verdicts: Vec<Verdict> = ids.iter().rev().copied().map(synced).collect();
            let started = claimed.iter().map(|event| started(event.event_id, event.portal_id, &event.contact.key));
            let started: Vec<StartedReceipt> = started.collect();
            let releases: Vec<_> = contacts.iter().rev().map(|(portal, contact)| release(*portal, contact)).collect();
            let receipts: Vec<Receipt> = started.iter().cloned().map(done).collect();
            let [one, two] = [world.db.connection().await.unwrap(), world.db.connection().await.unwrap()];
            db::start_receipts(&*one, token, &started).await.unwrap();
            // A renewal whose batch has ended meanwhile goes on in the database.
            let (renewed, finished) = tokio::join!(
                db::renew_leases(&*one, token, WORK_LEASE, &ids, &contacts),
                db::finish_batch(&*two, token, &verdicts, &releases, &receipts),
            );
            assert!(renewed.unwrap().events.len() <= ids.len());
            assert_eq!(finished.unwrap().len(), ids.len());
        });
    }
    tokio::time::timeout(FAR_TOO_LONG, running.join_all()).await.expect("nobody waits for ever");
}

/// Two statements that lock the same rows in opposite orders end with one of them broken off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_over_the_same_contacts_in_opposite_orders_do_not_deadlock() {
    let mut world = World::new().await;
    world.db = Db::new(&world.database.url.clone().into(), 12).unwrap();
    let world = Arc::new(world);
    let ids = events(&world.accept(both_products(150)).await);
    for round in 0..12 {
        publish_silently(&world).await;
        let (newsletter, other): (Vec<_>, Vec<_>) = ids.chunks(2).map(|both| (both[0], both[1])).unzip();
        let mut batches =
            [newsletter[..75].to_vec(), newsletter[75..].to_vec(), other[..75].to_vec(), other[75..].to_vec()];
        batches[round % 4].reverse();
        batches[(round + 1) % 4].reverse();
        crowd(&world, batches.to_vec()).await;
        if world.unfinished().await == 0 {
            // All over again, with the same rows.
            world.sql("update hubferry.outbox_events set status = 'retry', finished_at = null").await;
        }
    }
    publish_silently(&world).await;
    crowd(&world, vec![ids]).await;
    assert_eq!(world.unfinished().await, 0);
}

/// A statement with a parameter a value ends at 65,535 of them, or wraps and does less than it was asked to.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_takes_seventy_thousand_rows_and_accounts_for_each() {
    const ROWS: usize = 70_000;
    let world = World::new().await;
    let mut ids = events(&world.accept(both_products(1)[..1].to_vec()).await);
    let real = ids[0];
    publish_silently(&world).await;
    ids.extend((1..ROWS).map(|_| EventId(Uuid::new_v4())));
    ids.reverse();
    let connection = world.db.connection().await.unwrap();
    let token = token();
    let batch = db::claim_batch(&*connection, &ids, token, WORK_LEASE, BUSY).await.unwrap();
    let claimed = &batch.portals[&world.portal].1[0];
    assert_eq!((claimed.event_id, batch.unknown.len()), (real, ROWS - 1));

    let key = |n: usize| if n == 0 { claimed.contact.key.clone() } else { ContactKey(format!("c{n}")) };
    let contacts: Vec<_> = (0..ROWS).map(|n| (world.portal, key(n))).collect();
    let renewed = db::renew_leases(&*connection, token, WORK_LEASE, &ids, &contacts).await.unwrap();
    assert_eq!(renewed.events, HashSet::from([real]));
    let receipts: Vec<_> = ids.iter().map(|id| started(*id, world.portal, &claimed.contact.key)).collect();
    assert_eq!(db::start_receipts(&*connection, token, &receipts).await.unwrap(), 1);
    let verdicts: Vec<_> = ids.iter().copied().map(synced).collect();
    let releases: Vec<_> = contacts.iter().map(|(portal, contact)| release(*portal, contact)).collect();
    let receipts: Vec<_> = receipts.into_iter().map(done).collect();
    let finished = db::finish_batch(&*connection, token, &verdicts, &releases, &receipts).await.unwrap();
    let finished: Vec<EventId> = finished.iter().map(|event| event.event_id).collect();
    assert_eq!(finished, [real]);
    let sent: Vec<_> = ids.iter().map(|id| (*id, "m".to_owned())).collect();
    assert_eq!(db::mark_queued(&*connection, token, &sent).await.unwrap(), 0);
    assert_eq!(world.unfinished().await, 0);
}

/// A lease that is counted from before a wait for a lock has ended by the time it is granted, and two own the row.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_was_waited_for_has_its_full_time() {
    let world = World::new().await;
    let ids = events(&world.accept(both_products(1)).await);
    publish_silently(&world).await;
    let first = token();
    let contact = claim(&world.db, &ids[..1], first, Duration::ZERO).await.remove(0).contact.key;
    let mut slow = session(&world.database.url).await;
    for renewing in [false, true] {
        let holding = slow.transaction().await.unwrap();
        holding.execute("select from hubferry.contact_links for update", &[]).await.unwrap();
        let (db, id, contact, portal) = (world.db.clone(), ids[1], contact.clone(), world.portal);
        let waiting = tokio::spawn(async move {
            if renewing {
                let connection = db.connection().await.unwrap();
                db::renew_leases(&*connection, first, WORK_LEASE, &[], &[(portal, contact)]).await.unwrap();
            } else {
                // The first claim's lease has ended, so this one takes over.
                assert_eq!(claim(&db, &[id], first, WORK_LEASE).await.len(), 1);
            }
        });
        until_blocked(&world.database.url, 1).await;
        let released_at: jiff::Timestamp = holding.query_one("select clock_timestamp()", &[]).await.unwrap().get(0);
        holding.commit().await.unwrap();
        waiting.await.unwrap();
        let lease = jiff::SignedDuration::try_from(WORK_LEASE).unwrap();
        let ends = ask::<jiff::Timestamp>(&world, "select lease_expires_at from hubferry.contact_links").await;
        assert!(ends >= released_at + lease, "{released_at} {ends}");
        let event = "select max(lease_expires_at) from hubferry.outbox_events where status = 'processing'";
        assert!(renewing || ask::<jiff::Timestamp>(&world, event).await >= released_at + lease);
    }
    world
        .sql(
            "update hubferry.outbox_events set lease_expires_at = clock_timestamp() where status = 'processing';
               update hubferry.contact_links set lease_expires_at = clock_timestamp()",
        )
        .await;
    assert_eq!(world.drain().await.synced, 2);
}

/// Somebody who was paused for longer than the lease comes back and finishes what another one is in the middle of.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_stale_owner_tries_changes_a_row() {
    let world = World::new().await;
    let ids = events(&world.accept(both_products(1)[..1].to_vec()).await);
    let connection = world.db.connection().await.unwrap();
    let (stale_dispatcher, stale, fresh) = (token(), token(), token());
    db::claim_due(&*connection, stale_dispatcher, Duration::ZERO, &Pace::default()).await.unwrap();
    claim(&world.db, &ids, stale, Duration::ZERO).await;
    let claimed = claim(&world.db, &ids, fresh, WORK_LEASE).await.remove(0);
    let before = rows(&world).await;

    let contact = (world.portal, claimed.contact.key.clone());
    let receipt = started(ids[0], world.portal, &contact.1);
    let releases = [release(world.portal, &contact.1)];
    let unpublished = Unpublished { event_id: ids[0], due_in: None, charged: true, code: "sqs_refused" };
    let finish = async |token| {
        let receipts = [done(receipt.clone())];
        let finished = db::finish_batch(&*connection, token, &[synced(ids[0])], &releases, &receipts).await.unwrap();
        finished.into_iter().map(|event| event.event_id).collect::<Vec<_>>()
    };
    // The dispatcher that published it long ago, the worker before, and somebody who shows the event's id as a token.
    for token in [stale_dispatcher, stale, LeaseToken(ids[0].0)] {
        let renewed = db::renew_leases(&*connection, token, WORK_LEASE, &ids, std::slice::from_ref(&contact)).await;
        assert_eq!(renewed.unwrap(), Renewed::default());
        assert_eq!(db::start_receipts(&*connection, token, std::slice::from_ref(&receipt)).await.unwrap(), 0);
        assert_eq!(db::mark_queued(&*connection, token, &[(ids[0], "m".into())]).await.unwrap(), 0);
        let returned = db::return_unpublished(&*connection, token, std::slice::from_ref(&unpublished)).await;
        assert_eq!(returned.unwrap(), 0);
        assert!(finish(token).await.is_empty());
    }
    assert_eq!(rows(&world).await, before);

    assert_eq!(finish(fresh).await, ids);
    let after = rows(&world).await;
    assert!(finish(fresh).await.is_empty(), "what is finished is not finished again");
    assert_eq!(rows(&world).await, after);
    assert_eq!(world.unfinished().await, 0);
}

/// A lock of a session outlives the process that took it, and nobody ever migrates again.
#[tokio::test(flavor = "multi_thread")]
async fn the_lock_of_a_migration_that_was_killed_is_free() {
    let world = World::new().await;
    let url = &world.database.url;
    // The key spells the program's name.
    let key = i64::from_be_bytes(*b"hubferry");
    let killed = session(url).await;
    killed.execute("select pg_advisory_lock($1)", &[&key]).await.unwrap();
    let abandoned = tokio::spawn({
        let url = url.clone().into();
        async move { db::migrate(&url).await }
    });
    until_blocked(url, 1).await;
    // The second process gives up while it waits, and the first one is killed.
    abandoned.abort();
    assert!(abandoned.await.unwrap_err().is_cancelled());
    let next = tokio::spawn({
        let url = url.clone().into();
        async move { db::migrate(&url).await }
    });
    let pid: i32 = killed.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    ask::<bool>(&world, &format!("select pg_terminate_backend({pid})")).await;
    let summary = tokio::time::timeout(FAR_TOO_LONG, next).await.expect("the lock is free").unwrap().unwrap();

    assert!(summary.applied.is_empty() && summary.version.is_some());
    assert_eq!(
        ask::<i64>(
            &world,
            "select count(*) from pg_locks where locktype = 'advisory'
        and database = (select oid from pg_database where datname = current_database())"
        )
        .await,
        0
    );
}

/// A statement that was prepared under a name meets a session that knows another one of that name, or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_works_through_a_pooler_that_changes_sessions_between_transactions() {
    let limits = WorldConfig { call_limit: 10_000, hubspot_limit: 10_000, ..WorldConfig::default() };
    let mut world = World::with(limits).await;
    let pooled = pooler::before(&world.database.url).await;
    let clients = || Db::new(&pooled.clone().into(), 2).unwrap();
    (world.dispatcher.db, world.worker.db, world.reconciler.db) = (clients(), clients(), clients());
    let direct = std::mem::replace(&mut world.db, clients());
    for round in 0..25 {
        let state = if round % 2 == 0 { "subscribed" } else { "unsubscribed" };
        let people = (0..8).map(|n| request(&format!("p{n}@example.test"), state)).collect();
        let (accepted, repaired) = tokio::join!(world.accept(people), world.reconciler.run(soon()));
        repaired.unwrap();
        let (one, two) = tokio::join!(world.dispatcher.run_once(), world.dispatcher.run_once());
        assert_eq!(one.unwrap().queued + two.unwrap().queued, 8);
        let ids = events(&accepted);
        let (one, two) = tokio::join!(world.worker.work(&ids[..4], soon()), world.worker.work(&ids[4..], soon()));
        assert_eq!(one.unwrap().0.synced + two.unwrap().0.synced, 8, "{round}");
    }
    world.db = direct;
    assert_eq!(world.unfinished().await, 0);
}

/// A time that a library can't represent makes every batch and every poll that meets it fail as a whole.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_with_a_time_out_of_range_ends_alone() {
    let world = World::new().await;
    let accepted = world.accept((0..5).map(|n| request(&format!("p{n}@example.test"), "subscribed")).collect()).await;
    let odd = accepted[2].event_id;
    for time in ["infinity", "-infinity"] {
        for column in ["created_at", "queued_at", "next_attempt_at", "finished_at"] {
            let connection = world.db.connection().await.unwrap();
            let change = format!("update hubferry.outbox_events set {column} = '{time}' where event_id = '{odd}'");
            let refused = connection.batch_execute(&change).await.unwrap_err();
            assert_eq!(refused.code(), Some(&SqlState::CHECK_VIOLATION), "{column} {time}");
        }
    }
    world.sql(&format!("update hubferry.outbox_events set created_at = '58692-01-01' where event_id = '{odd}'")).await;
    let summary = world.drain().await;
    assert_eq!((summary.synced, summary.dead), (4, 1), "{:?}", world.statuses().await);
    assert_eq!(world.status_of(&accepted[2]).await, ("dead".into(), Some("unreadable_time".into())));
    let connection = world.db.connection().await.unwrap();
    assert_eq!(db::status_counts(&*connection).await.unwrap()[0].dead, 1);
}

/// After a failover the pool's sessions lead to a server that answers every test and refuses every write.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_can_not_write_any_more_is_not_handed_out_again() {
    let world = World::new().await;
    let db = Db::new(&world.database.url.clone().into(), 1).unwrap();
    db.connection().await.unwrap().batch_execute("set default_transaction_read_only = on").await.unwrap();
    let connection = db.connection().await.unwrap();
    let answers =
        db::accept_subscriptions(&*connection, &json!([request("ada@example.test", "subscribed")]), None).await;
    assert!(answers.unwrap()[0].is_ok());
    assert_eq!(world.drain().await.synced, 1);
}

/// While every server is a standby, nobody may be told that the request was taken, and no event may pay for it.
#[tokio::test(flavor = "multi_thread")]
async fn while_no_server_takes_writes_everything_waits_and_then_goes_on() {
    let world = World::new().await;
    world.accept(vec![request("ada@example.test", "subscribed")]).await;
    let name: String = ask(&world, "select current_database()::text").await;
    let operator = session(&world.database.url).await;
    let end_sessions = "select pg_terminate_backend(pid) from pg_stat_activity
                        where datname = current_database() and pid <> pg_backend_pid()";
    operator.batch_execute(&format!("alter database {name} set default_transaction_read_only = on")).await.unwrap();
    operator.query(end_sessions, &[]).await.unwrap();
    for _ in 0..2 {
        let failure = world.db.connection().await.err().expect("no session that can write");
        assert!(matches!(failure, db::DbFailure::Unreachable { .. }), "{failure}");
        assert!(world.dispatcher.run_once().await.is_err() && world.reconciler.run(soon()).await.is_err());
    }
    operator
        .batch_execute(&format!(
            "set transaction_read_only = off; alter database {name} reset default_transaction_read_only"
        ))
        .await
        .unwrap();
    assert_eq!(world.drain().await.synced, 1);
    assert_eq!(
        ask::<i64>(&world, "select sum(process_attempts + publish_attempts)::bigint from hubferry.outbox_events").await,
        0
    );
}
