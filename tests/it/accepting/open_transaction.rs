//! An application may hold its transaction open after accepting. Workers do not wait for it.

use std::collections::HashSet;
use std::time::Duration;

use hubferry::adapters::db::{
    self, Connection, ContactRelease, LinkChange, Receipt, ReceiptStatus, StartedReceipt, Verdict, VerdictStatus,
};
use hubferry::model::ids::{ContactKey, EventId, LeaseToken, RecordId};
use hubferry::model::subscription::{ClaimedEvent, DesiredState};
use serde_json::json;
use uuid::Uuid;

use super::accept;
use super::setting::{PORTAL, Setting, subscribing, unsubscribing, with};

const LEASE: Duration = Duration::from_secs(25);
const SNOOZE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(2));

/// Publishes an event without a queue, and claims it as a worker does.
async fn claim(worker: &Connection, event: EventId, token: LeaseToken) -> ClaimedEvent {
    let publish =
        "update hubferry.outbox_events set status = 'queued', queued_at = clock_timestamp() where event_id = $1";
    worker.execute(publish, &[&event.0]).await.expect("a queued event");
    let batch = db::claim_batch(&**worker, &[event], token, LEASE, SNOOZE).await.expect("a claim");
    let (_, events) = batch.portals.into_values().next().expect("a claimed event");
    events.into_iter().next().expect("a claimed event")
}

/// Everything a worker writes when an event is done. Ends with an error if it had to wait for long.
async fn finish(worker: &Connection, event: &ClaimedEvent, token: LeaseToken) -> Vec<EventId> {
    let started = StartedReceipt {
        event_id: event.event_id,
        operation_key: "status:1001:subscribed".into(),
        portal_id: PORTAL,
        contact_key: event.contact.key.clone(),
        desired_hash: [7; 32],
    };
    db::start_receipts(&**worker, token, std::slice::from_ref(&started)).await.expect("started receipts");
    let contact = (PORTAL, event.contact.key.clone());
    let held = db::renew_leases(&**worker, token, LEASE, &[event.event_id], &[contact]).await.expect("renewed leases");
    assert_eq!(held.events, HashSet::from([event.event_id]));
    let verdict = Verdict {
        event_id: event.event_id,
        status: VerdictStatus::Synced,
        reason: None,
        applied: Some(DesiredState::Subscribed),
    };
    let release = ContactRelease {
        link: LinkChange::Is(RecordId(501)),
        ..ContactRelease::unchanged(PORTAL, event.contact.key.clone())
    };
    let receipt = Receipt {
        started,
        status: ReceiptStatus::Done,
        record_id: Some(RecordId(501)),
        correlation_id: None,
        remote_at: None,
    };
    let finished = db::finish_batch(&**worker, token, &[verdict], &[release], &[receipt])
        .await
        .expect("a finish that waits for nobody");
    finished.into_iter().map(|event| event.event_id).collect()
}

#[tokio::test]
async fn a_slow_application_does_not_hold_up_the_event_before_its_own() {
    let setting = Setting::new().await;
    let mut application = setting.application().await;
    let worker = setting.db.connection().await.expect("a connection");
    let of_ada = |request| with(request, "/contact/key", json!("u1"));
    let first = accept(&application, "1", &of_ada(subscribing("ada@example.test"))).await.expect("accepted");
    let token = LeaseToken(Uuid::from_u128(1));
    let event = claim(&worker, EventId(first.event_id), token).await;

    let transaction = application.transaction().await.expect("a transaction");
    // Another address and another value, so that every row that accepting can write is written and locked.
    let changed =
        with(of_ada(unsubscribing("lovelace@example.test")), "/contact/properties", json!({"firstname": "Ada"}));
    let second = accept(&transaction, "2", &changed).await.expect("accepted");

    assert_eq!(finish(&worker, &event, token).await, [event.event_id]);
    let row = setting.ask(
        "select e.status, a.applied_sequence, l.record_id, s.last_sequence
         from hubferry.outbox_events e join hubferry.applied_states a using (event_id)
         join hubferry.subscription_streams s on s.stream_id = a.stream_id
         join hubferry.contact_links l on l.contact_key = s.contact_key",
    );
    let row = row.await;
    assert_eq!(row.get::<_, &str>(0), "synced");
    assert_eq!((row.get::<_, i64>(1), row.get::<_, i64>(2), row.get::<_, i64>(3)), (1, 501, 1));

    transaction.commit().await.expect("a commit");
    let event = claim(&worker, EventId(second.event_id), LeaseToken(Uuid::from_u128(2))).await;
    assert_eq!((event.sequence, event.contact.email.as_str()), (2, "lovelace@example.test"));
    assert_eq!(event.contact.key, ContactKey("u1".into()));
}

#[tokio::test]
async fn a_slow_application_does_not_hold_up_a_claim_for_its_contact() {
    let setting = Setting::new().await;
    let mut application = setting.application().await;
    let worker = setting.db.connection().await.expect("a connection");
    let first = accept(&application, "1", &subscribing("ada@example.test")).await.expect("accepted");

    let transaction = application.transaction().await.expect("a transaction");
    accept(&transaction, "2", &unsubscribing("ada@example.test")).await.expect("accepted");
    let token = LeaseToken(Uuid::from_u128(1));
    let event = claim(&worker, EventId(first.event_id), token).await;
    assert_eq!(event.sequence, 1, "what may be rolled back supersedes nothing");
    finish(&worker, &event, token).await;
    transaction.rollback().await.expect("a rollback");
}

#[tokio::test]
async fn a_worker_in_the_middle_of_a_batch_does_not_hold_up_an_application() {
    let setting = Setting::new().await;
    let application = setting.application().await;
    let first = accept(&application, "1", &subscribing("ada@example.test")).await.expect("accepted");
    let worker = setting.db.connection().await.expect("a connection");
    let event = claim(&worker, EventId(first.event_id), LeaseToken(Uuid::from_u128(1))).await;

    // The statement of a worker, still running: its locks are held and nothing is committed.
    let mut running = setting.application().await;
    let statement = running.transaction().await.expect("a transaction");
    statement
        .execute("update hubferry.contact_links set lease_expires_at = lease_expires_at + interval '1 s'", &[])
        .await
        .expect("a locked contact");
    statement
        .execute("update hubferry.outbox_events set process_attempts = 1 where event_id = $1", &[&event.event_id.0])
        .await
        .expect("a locked event");
    application.batch_execute("set lock_timeout = '5s'").await.expect("a setting");
    let second = accept(&application, "2", &unsubscribing("ada@example.test")).await.expect("accepted without a wait");
    assert_eq!(second.sequence, 2);
}
