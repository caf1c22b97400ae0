//! An event that is cancelled stays so, whoever is at work on it.

use std::time::Duration;

use hubferry::adapters::db::{self, Refused, ReplayedMapping};
use hubferry::model::ids::{ContactKey, EventId, LeaseToken};
use hubferry::model::pacing::WORK_LEASE;
use hubferry::model::subscription::DesiredState;
use hubspot_simulator::SubscriptionState;
use serde_json::json;
use uuid::Uuid;

use super::{ask, dead, needing_attention, run, run_json};
use crate::world::{World, request};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_loses_its_event_changes_nothing_and_frees_the_contact() {
    let world = World::new().await;
    let accepted = world.accept(vec![request("ada@example.test", "subscribed")]).await;
    world.dispatcher.run_once().await.unwrap();
    let (connection, token) = (world.db.connection().await.unwrap(), LeaseToken(Uuid::new_v4()));
    let event_id = EventId(accepted[0].event_id);
    let busy = (Duration::from_secs(2), Duration::from_secs(4));
    db::claim_batch(&*connection, &[event_id], token, WORK_LEASE, busy).await.unwrap();
    let contact_key = ContactKey(ask(&world, "select contact_key from hubferry.contacts").await);

    let lines = run_json(&world, &["events", "cancel", &event_id.to_string()]).await.lines(0);
    assert_eq!((&lines[0]["status"], &lines[1]["changed"]), (&json!("processing"), &json!(1)));
    let contacts = [(world.portal, contact_key.clone())];
    let held = db::renew_leases(&*connection, token, WORK_LEASE, &[event_id], &contacts).await.unwrap();
    assert!(held.events.is_empty(), "the next renewal tells the worker");
    let verdict = db::Verdict {
        event_id,
        status: db::VerdictStatus::Synced,
        reason: None,
        applied: Some(DesiredState::Subscribed),
    };
    let release = db::ContactRelease::unchanged(world.portal, contact_key);
    let finished = db::finish_batch(&*connection, token, &[verdict], &[release], &[]).await.unwrap();
    assert!(finished.is_empty());
    assert_eq!(world.status_of(&accepted[0]).await.0, "cancelled");
    let left = "select (select count(*) from hubferry.applied_states)
                     + (select count(*) from hubferry.contact_links where lease_token is not null)";
    assert_eq!(ask::<i64>(&world, left).await, 0);

    // The message that is still in SQS finds nothing to do, and the stream goes on with the next decision.
    assert_eq!(world.work_off_queues().await.settled, 1);
    world.accept(vec![request("ada@example.test", "subscribed")]).await;
    assert_eq!(world.drain().await.synced, 1);
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Subscribed);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_cancelled_after_a_look_only() {
    let world = World::new().await;
    let requests = (0..1_203).map(|n| request(&format!("p{n}@example.test"), "subscribed")).collect();
    world.accept(requests).await;
    let preview = run_json(&world, &["events", "cancel", "--brand=acme"]).await.document(0);
    assert_eq!((&preview["events"], preview["first"].as_array().unwrap().len()), (&json!(1_203), 10));
    assert_eq!(preview["counts"], json!([{"status": "pending", "brand": "acme", "code": null, "events": 1_203}]));
    assert_eq!(world.unfinished().await, 1_203);

    let lines = run_json(&world, &["events", "cancel", "--brand=acme", "--status=pending", "--yes"]).await.lines(0);
    assert_eq!((lines.len(), lines.last().unwrap()), (1_204, &json!({"changed": 1_203, "left_alone": 0})));
    assert_eq!(world.statuses().await, [("cancelled".into(), None, 1_203)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_or_was_replayed_is_left_alone_and_a_dead_event_is_put_away() {
    let world = World::new().await;
    let synced = world.accept(vec![request("ada@example.test", "subscribed")]).await.remove(0);
    world.drain().await;
    let (replayed, buried) = (dead(&world, "bob@example.test").await, dead(&world, "eve@example.test").await);
    run_json(&world, &["events", "replay", &replayed.event_id.to_string()]).await.lines(0);
    assert_eq!(needing_attention(&world).await, 1);
    let ids = [&synced, &replayed, &buried].map(|event| event.event_id.to_string());
    let arguments = ["events", "cancel", &ids[0], &ids[1], &ids[2]];
    assert_eq!(run_json(&world, &arguments).await.document(0)["preview"], true);

    let lines = run_json(&world, &[&arguments[..], &["--yes"]].concat()).await.lines(3);
    let refusal = |id: &String| lines.iter().find(|line| line["event_id"] == json!(id)).unwrap()["refusal"].clone();
    assert_eq!(
        [refusal(&ids[0]), refusal(&ids[1]), refusal(&ids[2])],
        [json!("finished"), json!("already_replayed"), json!(null)]
    );
    assert_eq!(world.status_of(&buried).await.0, "cancelled");
    assert_eq!((needing_attention(&world).await, world.drain().await.synced), (0, 1));
    let late = run(&world, &["events", "replay", &ids[2]]).await;
    assert!(late.code == Some(3) && late.stdout.contains("it is not dead"), "{}", late.stdout);
}

/// Whoever cancels finds the event dead and not replayed, and then waits for the row, which a replay holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_event_is_not_cancelled_while_it_is_replayed() {
    let world = World::new().await;
    let dead = dead(&world, "ada@example.test").await;
    let event = [EventId(dead.event_id)];
    let (mut person, connection) = tokio_postgres::connect(&world.database.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let transaction = person.transaction().await.unwrap();
    let replayed = db::replay_events(&transaction, &event, ReplayedMapping::Same, None).await.unwrap().remove(0);
    let cancel = tokio::spawn({
        let db = world.db.clone();
        async move {
            let connection = db.connection().await.unwrap();
            db::cancel_events(&*connection, &event).await.unwrap().remove(0)
        }
    });
    world.somebody_waits_for_a_lock().await;
    transaction.commit().await.unwrap();

    let answer = cancel.await.unwrap();
    assert_eq!((answer.refusal, answer.other_event_id), (Some(Refused::AlreadyReplayed), replayed.replay_id));
    assert_eq!(world.status_of(&dead).await.0, "dead");
}
