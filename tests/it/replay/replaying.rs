//! A replay is a new event at the head of its stream, and there is one of it.

use futures::future::join_all;
use hubferry::adapters::db::{self, Refused, ReplayedMapping};
use hubferry::model::ids::EventId;
use hubspot_simulator::SubscriptionState;
use serde_json::{Value, json};

use super::{
    ask, bury, dead, died_of_their_mapping, events, needing_attention, repair, replay_of, run, run_json, status,
};
use crate::world::{World, request, with};

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_under_a_repaired_mapping_brings_hubspot_to_what_was_decided() {
    let world = World::new().await;
    let consent = json!({"consent": {
        "legal_basis": "CONSENT_WITH_NOTICE", "explanation": "form", "given_at": "2026-03-01T08:00:00Z"}});
    let accepted = died_of_their_mapping(&world, vec![with(request("ada@example.test", "subscribed"), consent)]).await;
    let id = accepted[0].event_id.to_string();
    assert_eq!(needing_attention(&world).await, 1);

    // Under its own mapping it repeats the mistake, and stands at the head of its stream as the next dead one.
    let again = run_json(&world, &["events", "replay", &id]).await.lines(0);
    assert_eq!((&again[0]["sequence"], &again[1]), (&json!(2), &json!({"changed": 1, "left_alone": 0})));
    world.drain().await;
    let second = replay_of(&world, &accepted[0]).await;
    assert_eq!((status(&world, second).await.as_str(), needing_attention(&world).await), ("dead", 1));

    repair(&world).await;
    let done = run_json(&world, &["events", "replay", &second.to_string(), "--mapping", "current"]).await.lines(0);
    assert_eq!(done[0]["sequence"], 3);
    world.drain().await;
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Subscribed);
    assert_eq!(world.hubspot.contact_by_email("ada@example.test").unwrap().get("firstname"), Some("Ada"));
    assert_eq!(needing_attention(&world).await, 0);
    let kept = "select count(distinct (created_at, lane, payload ->> 'desired_state', payload -> 'consent')) = 1
                       and max(payload #>> '{consent,given_at}') = '2026-03-01T08:00:00.000000Z'
                       and array_agg(payload #>> '{mapping,version}' order by sequence) = '{2,2,3}'
                from hubferry.outbox_events";
    assert!(ask::<bool>(&world, kept).await, "state, consent, lane and instant are those of the decision");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_press_makes_no_second_event_and_what_succeeded_is_left_alone() {
    let world = World::new().await;
    let (synced, dead) =
        (world.accept(vec![request("bob@example.test", "subscribed")]).await, dead(&world, "ada@example.test").await);
    world.drain().await;
    world.hubspot.reset_stats();
    let id = dead.event_id.to_string();

    assert_eq!(run(&world, &["events", "replay", &id]).await.code, Some(0));
    let replay = replay_of(&world, &dead).await;
    let pressed_again = run_json(&world, &["events", "replay", &id]).await.lines(3);
    assert_eq!(
        (&pressed_again[0]["refusal"], &pressed_again[0]["other_event_id"], &pressed_again[1]["changed"]),
        (&json!("already_replayed"), &json!(replay), &json!(0))
    );
    let success = run(&world, &["events", "replay", &synced[0].event_id.to_string()]).await;
    assert_eq!(success.code, Some(3));
    assert!(success.stdout.contains("left alone: it is not dead"), "{}", success.stdout);

    assert_eq!((world.drain().await.synced, events(&world).await), (1, 3));
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Subscribed);
    let after = run_json(&world, &["events", "replay", &id]).await.lines(3);
    assert_eq!(after[0]["refusal"], "already_replayed", "nor after the replay was synced");
    let shown = run_json(&world, &["events", "show", &dead.request_id.to_string()]).await.document(0);
    assert_eq!((&shown["status"], &shown["replayed_as"]["status"]), (&json!("dead"), &json!("synced")));
}

/// All find the event dead and not replayed, and then wait for the contact.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_replays_at_once_one_makes_an_event() {
    let world = World::new().await;
    let dead = dead(&world, "ada@example.test").await;
    let (mut application, connection) =
        tokio_postgres::connect(&world.database.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let transaction = application.transaction().await.unwrap();
    transaction.execute("select from hubferry.contacts for no key update", &[]).await.unwrap();
    let replays: Vec<_> = (0..4)
        .map(|_| {
            let (db, event) = (world.db.clone(), EventId(dead.event_id));
            tokio::spawn(async move {
                let connection = db.connection().await.unwrap();
                db::replay_events(&*connection, &[event], ReplayedMapping::Same, None).await.unwrap().remove(0)
            })
        })
        .collect();
    world.somebody_waits_for_a_lock().await;
    transaction.commit().await.unwrap();
    let answers: Vec<_> = join_all(replays).await.into_iter().map(Result::unwrap).collect();

    assert_eq!(answers.iter().filter(|answer| answer.replay_id.is_some()).count(), 1);
    let late = answers.iter().filter(|answer| answer.refusal == Some(Refused::AlreadyReplayed)).count();
    assert_eq!((late, events(&world).await, world.drain().await.synced), (3, 2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opt_out_is_replayed_without_a_consent() {
    let world = World::new().await;
    world.accept(vec![request("ada@example.test", "subscribed")]).await;
    world.drain().await;
    let opt_out = with(request("ada@example.test", "unsubscribed"), json!({"consent": null}));
    world.map("newsletter", json!({"subscription_type": 999})).await;
    let accepted = world.accept(vec![opt_out]).await;
    world.drain().await;
    assert_eq!(world.status_of(&accepted[0]).await, ("dead".into(), Some("subscription_type_unknown".into())));
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Subscribed);
    repair(&world).await;
    run_json(&world, &["events", "replay", &accepted[0].event_id.to_string(), "--mapping=current"]).await.lines(0);

    world.drain().await;
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Unsubscribed);
    let applied: String = ask(&world, "select applied_state || applied_sequence from hubferry.applied_states").await;
    assert_eq!(applied, "unsubscribed3");
    // Ours, and older than what follows: it stands in nobody's way.
    world.accept(vec![request("ada@example.test", "subscribed")]).await;
    world.drain().await;
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Subscribed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_consent_is_as_old_as_it_was() {
    let world = World::new().await;
    let dead = dead(&world, "ada@example.test").await;
    world.hubspot.seed_contact(&[("email", "ada@example.test")]).unwrap();
    world.hubspot.opt_out("ada@example.test", Some(1001), None).unwrap();
    run_json(&world, &["events", "replay", &dead.event_id.to_string()]).await.lines(0);

    assert_eq!(world.drain().await.superseded, 1);
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Unsubscribed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_event_keeps_its_lane_and_a_filter_goes_the_bulk_way() {
    let world = World::new().await;
    let requests = ["a@example.test", "b@example.test", "c@example.test"]
        .map(|email| with(request(email, "subscribed"), json!({"lane": "interactive"})));
    let accepted = world.accept(requests.to_vec()).await;
    for event in &accepted {
        bury(&world, event).await;
    }
    run_json(&world, &["events", "replay", &accepted[0].event_id.to_string()]).await.lines(0);
    run_json(&world, &["events", "replay", &accepted[1].event_id.to_string(), "--lane=bulk"]).await.lines(0);
    let rest = run_json(&world, &["events", "replay", "--code=missing_scopes", "--yes"]).await.lines(0);
    assert_eq!(rest.len(), 2, "what was replayed is no longer chosen");

    let lanes = "select array_agg(r.lane order by d.created_at)
                 from hubferry.outbox_events r join hubferry.outbox_events d on r.replays = d.event_id";
    assert_eq!(ask::<Vec<String>>(&world, lanes).await, ["interactive", "bulk", "bulk"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn activating_a_repaired_mapping_releases_what_died_of_the_broken_one() {
    let world = World::new().await;
    let accepted =
        died_of_their_mapping(&world, (0..3).map(|n| request(&format!("p{n}@example.test"), "subscribed")).collect())
            .await;
    let other = dead(&world, "of-its-own-values@example.test").await;
    world
        .sql(&format!(
            "update hubferry.outbox_events set last_error_code = 'invalid_email', last_error_summary = 'row_invalid: x'
             where event_id = '{}'",
            other.event_id
        ))
        .await;
    world.map("newsletter", crate::world::newsletter_targets()).await;
    world.sql("select hubferry.activate_mapping('acme', 'newsletter', 2)").await;

    let preview = run_json(&world, &["mapping", "activate", "acme", "newsletter", "--release-dead"]).await.document(0);
    assert_eq!(
        (&preview["preview"], &preview["events"], preview["first"].as_array().unwrap().len()),
        (&json!(true), &json!(3), 3)
    );
    let active = "select version from hubferry.mappings where product = 'newsletter' and state = 'active'";
    assert_eq!((ask::<i32>(&world, active).await, events(&world).await), (2, 4), "nothing is changed");

    let lines =
        run_json(&world, &["mapping", "activate", "acme", "newsletter", "--release-dead", "--yes"]).await.lines(0);
    assert_eq!((&lines[0]["version"], lines.last().unwrap()), (&json!(3), &json!({"changed": 3, "left_alone": 0})));
    let named: Vec<&Value> = lines[1..4].iter().map(|line| &line["event_id"]).collect();
    assert!(accepted.iter().all(|event| named.contains(&&json!(event.event_id))));
    assert_eq!((world.drain().await.synced, needing_attention(&world).await), (3, 1));
}
