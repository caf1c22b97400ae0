//! Which events are meant, and what is shown of them.

use serde_json::{Value, json};

use super::{dead, died_of_their_mapping, events, replay_of, run, run_json};
use crate::world::{World, request, with};

/// The events that a list names.
async fn listed(world: &World, options: &[&str]) -> Vec<Value> {
    let list = run_json(world, &[&["events", "list"], options].concat()).await.document(0);
    list["events"].as_array().unwrap().iter().map(|event| event["event_id"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_shows_what_needs_attention_or_what_it_is_asked_for() {
    let world = World::new().await;
    let synced = world.accept(vec![request("done@example.test", "subscribed")]).await.remove(0);
    world.drain().await;
    let dead = [dead(&world, "ada@example.test").await, dead(&world, "bob@example.test").await];
    let waiting = world
        .accept(vec![with(request("eve@example.test", "subscribed"), json!({"product": "events"}))])
        .await
        .remove(0);
    run_json(&world, &["events", "replay", &dead[0].event_id.to_string()]).await.lines(0);
    let replay = replay_of(&world, &dead[0]).await;
    world.sql("update hubferry.outbox_events set created_at = created_at - interval '2 h' where status = 'dead'").await;

    let [old, other] = [json!(dead[0].event_id), json!(dead[1].event_id)];
    let (replay, waiting, synced) = (json!(replay), json!(waiting.event_id), json!(synced.event_id));
    assert_eq!(listed(&world, &[]).await, [other.clone(), replay.clone(), waiting.clone()]);
    assert_eq!(listed(&world, &["--status=dead"]).await, [old.clone(), other.clone()]);
    assert_eq!(
        listed(&world, &["--status=synced", "--status=pending"]).await,
        [replay.clone(), waiting.clone(), synced]
    );
    assert_eq!(listed(&world, &["--product=events"]).await, [waiting]);
    assert_eq!(listed(&world, &["--older-than=1h"]).await, vec![other.clone()]);
    assert_eq!(listed(&world, &["--code=missing_scopes", "--class=configuration", "--limit=1"]).await, [other]);
    for none in ["--brand=other", "--portal=1", "--kind=other", "--class=row_invalid"] {
        assert_eq!(listed(&world, &[none]).await, Vec::<Value>::new(), "{none}");
    }
    let table = run(&world, &["events", "list", "--status=dead"]).await.stdout;
    assert!(table.contains("dead, replayed") && table.contains("acme/newsletter"), "{table}");
    assert!(!table.contains('@'), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_is_shown_and_personal_data_only_on_request() {
    let world = World::new().await;
    let accepted = died_of_their_mapping(&world, vec![request("ada@example.test", "subscribed")]).await.remove(0);
    let newer = world.accept(vec![request("ada@example.test", "unsubscribed")]).await.remove(0);
    for id in [accepted.event_id, accepted.request_id] {
        let shown = run_json(&world, &["events", "show", &id.to_string()]).await.document(0);
        assert_eq!((&shown["event_id"], &shown["status"]), (&json!(accepted.event_id), &json!("dead")));
        assert_eq!(shown["operations"][0]["operation"], "contact");
        assert!(shown["operations"][0]["status"] == "refused", "{shown}");
        assert_eq!((&shown["stream"]["sequence"], &shown["stream"]["last_sequence"]), (&json!(1), &json!(2)));
        assert_eq!(shown["stream"]["newer_events"][0]["event_id"], json!(newer.event_id));
        assert_eq!(shown["decision"]["desired_state"], "subscribed");
        let text = shown.to_string();
        assert!(!text.contains('@') && !text.contains("Ada") && !text.contains("sign-up form"), "{text}");
    }
    assert_eq!(run(&world, &["events", "show", &uuid::Uuid::new_v4().to_string()]).await.code, Some(2));

    let id = accepted.event_id.to_string();
    let personal = run(&world, &["events", "show", &id, "--personal"]).await.stdout;
    assert!(personal.contains("ada@example.test") && personal.contains("firstname: Ada"), "{personal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_replays_chunk_by_chunk_after_a_look_and_passes_over_what_is_overtaken() {
    let world = World::new().await;
    let requests: Vec<Value> = (0..620).map(|n| request(&format!("p{n}@example.test"), "subscribed")).collect();
    let accepted = world.accept(requests).await;
    world
        .sql("update hubferry.outbox_events set status = 'dead', last_error_code = 'missing_scopes', finished_at = now()")
        .await;
    // The oldest ones: whoever starts from the beginning again would meet them for ever.
    let overtaken: Vec<Value> = (0..5).map(|n| request(&format!("p{n}@example.test"), "subscribed")).collect();
    world.accept(overtaken).await;
    let preview = run(&world, &["events", "replay", "--code=missing_scopes"]).await;
    assert_eq!(preview.code, Some(0));
    for words in
        ["620 event(s)", "620 dead of acme: missing_scopes", "would be left alone: a newer decision", "with --yes"]
    {
        assert!(preview.stdout.contains(words), "{words}: {}", preview.stdout);
    }
    assert_eq!(events(&world).await, 625);

    let lines = run_json(&world, &["events", "replay", "--code=missing_scopes", "--yes"]).await.lines(3);
    assert_eq!(lines.last().unwrap(), &json!({"changed": 615, "left_alone": 5}));
    let oldest_first = accepted.iter().map(|event| json!(event.event_id));
    assert!(lines[..620].iter().map(|line| line["event_id"].clone()).eq(oldest_first));
    assert_eq!(world.drain().await.synced, 620);
    let rest = run_json(&world, &["events", "replay", "--code=missing_scopes", "--yes"]).await.lines(3);
    assert_eq!(rest.last().unwrap(), &json!({"changed": 0, "left_alone": 5}));
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_everything_nor_both_ways_of_choosing_are_taken() {
    let world = World::new().await;
    let dead = dead(&world, "ada@example.test").await;
    let id = dead.event_id.to_string();
    for wrong in [
        &["events", "replay", "--yes"][..],
        &["events", "cancel", "--yes"],
        &["events", "replay", &id, "--brand=acme", "--yes"],
        &["events", "replay", &id, "--yes", "--dry-run"],
        &["events", "replay", &id, "--pace=0"],
        &["events", "cancel", "--status=synced", "--yes"],
    ] {
        let run = run(&world, wrong).await;
        assert_eq!(run.code, Some(2), "{wrong:?}: {}", run.stderr);
    }
    assert_eq!((events(&world).await, world.status_of(&dead).await.0), (1, "dead".into()));
}
