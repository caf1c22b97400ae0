//! What stands against a replay, by name.

use hubferry::adapters::db::{self, Refused, ReplayedMapping};
use hubferry::model::ids::EventId;
use hubspot_simulator::SubscriptionState;
use serde_json::{Value, json};

use super::{bury, dead, events, repair, replay_of, run_json};
use crate::world::{World, request, with};

/// Why a replay was refused, and which other event it names.
async fn refusal(world: &World, event: uuid::Uuid, more: &[&str]) -> (Value, Value) {
    let id = event.to_string();
    let before = events(world).await;
    let preview = run_json(world, &[&["events", "replay", &id, "--dry-run"], more].concat()).await.document(0);
    let lines = run_json(world, &[&["events", "replay", &id], more].concat()).await.lines(3);
    assert_eq!(preview["first"][0], lines[0], "a preview says what would happen");
    assert_eq!(events(world).await, before);
    (lines[0]["refusal"].clone(), lines[0]["other_event_id"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_decision_of_the_stream_stands() {
    let world = World::new().await;
    let dead = dead(&world, "ada@example.test").await;
    let newer = world.accept(vec![request("ada@example.test", "unsubscribed")]).await;
    assert_eq!(refusal(&world, dead.event_id, &[]).await, (json!("newer_accepted"), json!(newer[0].event_id)));
    world.drain().await;
    assert_eq!(refusal(&world, dead.event_id, &[]).await, (json!("newer_accepted"), json!(newer[0].event_id)));
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Unsubscribed);
}

/// Two products with one subscription type: whoever left by the other one since then is not brought back, nor the other way round.
#[tokio::test(flavor = "multi_thread")]
async fn a_newer_opposite_decision_about_the_same_subscription_type_stands() {
    let world = World::new().await;
    world.map("events", json!({"subscription_type": 1001})).await;
    for (state, opposite) in [("subscribed", "unsubscribed"), ("unsubscribed", "subscribed")] {
        let email = format!("{state}@example.test");
        let dead = world.accept(vec![request(&email, state)]).await.remove(0);
        bury(&world, &dead).await;
        let elsewhere = |state: &str| with(request(&email, state), json!({"product": "events"}));
        world.accept(vec![elsewhere(opposite)]).await;
        let newer = world.accept(vec![elsewhere(state), elsewhere(opposite)]).await;
        assert_eq!(refusal(&world, dead.event_id, &[]).await, (json!("newer_accepted"), json!(newer[1].event_id)));
        let agrees = world.accept(vec![elsewhere(state)]).await;
        assert_eq!(agrees[0].sequence, 4);
        run_json(&world, &["events", "replay", &dead.event_id.to_string()]).await.lines(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_replayed_once_and_then_its_replay_if_that_died() {
    let world = World::new().await;
    let first = dead(&world, "ada@example.test").await;
    run_json(&world, &["events", "replay", &first.event_id.to_string()]).await.lines(0);
    let second = replay_of(&world, &first).await;
    world
        .sql(&format!(
            "update hubferry.outbox_events set status = 'dead', last_error_code = 'x', finished_at = now() where event_id = '{second}'"
        ))
        .await;
    assert_eq!(refusal(&world, first.event_id, &[]).await, (json!("already_replayed"), json!(second)));
    let lines = run_json(&world, &["events", "replay", &second.to_string()]).await.lines(0);
    assert_eq!((&lines[0]["sequence"], world.drain().await.synced), (&json!(3), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_replayed_for_an_erased_contact_nor_without_an_active_mapping() {
    let world = World::new().await;
    let (erased, unmapped) = (dead(&world, "ada@example.test").await, dead(&world, "bob@example.test").await);
    world.sql("update hubferry.contacts set erased_at = now() where email = 'ada@example.test'").await;
    world.sql("update hubferry.mappings set state = 'draft' where product = 'newsletter'").await;
    assert_eq!(refusal(&world, erased.event_id, &[]).await.0, "contact_erased");
    assert_eq!(refusal(&world, unmapped.event_id, &["--mapping=current"]).await.0, "no_active_mapping");
    assert_eq!(refusal(&world, uuid::Uuid::new_v4(), &[]).await.0, "unknown_event");
    repair(&world).await;
    run_json(&world, &["events", "replay", &unmapped.event_id.to_string(), "--mapping=current"]).await.lines(0);
    assert_eq!(world.drain().await.synced, 1);
}

/// The replay finds nothing newer, and then waits for the contact, which an application holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_is_accepted_at_the_same_time_stands() {
    let world = World::new().await;
    let dead = dead(&world, "ada@example.test").await;
    let (mut application, connection) =
        tokio_postgres::connect(&world.database.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let transaction = application.transaction().await.unwrap();
    let requests = json!([request("ada@example.test", "unsubscribed")]);
    let newer = db::accept_subscriptions(&transaction, &requests, None).await.unwrap().remove(0).unwrap();
    let replay = tokio::spawn({
        let db = world.db.clone();
        async move {
            let connection = db.connection().await.unwrap();
            db::replay_events(&*connection, &[EventId(dead.event_id)], ReplayedMapping::Same, None)
                .await
                .unwrap()
                .remove(0)
        }
    });
    world.somebody_waits_for_a_lock().await;
    transaction.commit().await.unwrap();

    let answer = replay.await.unwrap();
    assert_eq!((answer.refusal, answer.other_event_id), (Some(Refused::NewerAccepted), Some(EventId(newer.event_id))));
    world.drain().await;
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Unsubscribed);
}
