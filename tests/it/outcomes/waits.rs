//! `Retry-After` in every form in which it has been met, as the portal and the events feel it.

use hubferry::clock;
use hubspot_simulator::{Action, Fault};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{Scene, people, respond};

/// How long a test may take between an answer and a look at its effects, in seconds.
const SLACK: f64 = 5.0;

/// The header's forms, and the wait that each asks for in seconds; none when it can't be read.
fn forms() -> Vec<(Vec<String>, Option<f64>)> {
    let date = |offset: i64| {
        let at = clock::now() + SignedDuration::from_secs(offset);
        at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    };
    vec![
        (vec!["10".into()], Some(10.0)),
        (vec![" 10 ".into()], Some(10.0)),
        (vec!["7.5".into()], Some(8.0)),
        (vec!["-3".into()], None),
        (vec!["1000abc".into()], None),
        (vec![String::new()], None),
        (vec![date(90)], Some(90.0)),
        (vec![date(-3600)], Some(1.0)),
        (vec!["86400000".into()], Some(86_400.0)),
        (vec!["5".into(), "60".into()], Some(60.0)),
        (vec![], None),
    ]
}

/// The same header several times; the names differ in case only.
fn answer(status: u16, waits: &[String], body: &Value) -> Action {
    let names = ["Retry-After", "retry-after"];
    let headers: Vec<(&str, &str)> = names.into_iter().zip(waits.iter().map(String::as_str)).collect();
    respond(status, &headers, body.clone())
}

async fn due_in(scene: &Scene, tag: &str, action: Action) -> f64 {
    let emails = people(tag, 1);
    scene.world.hubspot.add_fault(Fault::always(action));
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    let seen = scene.seen(&accepted[0]).await;
    assert_eq!(seen.status, "retry", "{tag}: {seen:?}");
    seen.due_in
}

#[tokio::test(flavor = "multi_thread")]
async fn a_freeze_lasts_as_long_as_a_readable_header_asks_between_a_second_and_five_minutes() {
    let scene = Scene::new().await;
    let body = json!({"status": "error", "policyName": "SECONDLY"});
    for (number, (waits, asked)) in forms().into_iter().enumerate() {
        let expected = asked.unwrap_or(1.0).clamp(1.0, 300.0);
        let due_in = due_in(&scene, &format!("freeze{number}x"), answer(429, &waits, &body)).await;
        assert!((expected - SLACK..=expected + 2.1).contains(&due_in), "{waits:?}: due in {due_in} s");
        let frozen = scene.freeze().await.map_or(0.0, |freeze| freeze.remaining.as_secs_f64());
        assert!((expected - SLACK..=expected).contains(&frozen), "{waits:?}: frozen for {frozen} s");
        scene.heal().await;
    }
    scene.world.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_pauses_as_long_as_a_readable_header_asks_up_to_a_day() {
    let scene = Scene::new().await;
    let body = json!({"status": "error", "category": "MIGRATION_IN_PROGRESS"});
    for (number, (waits, asked)) in forms().into_iter().enumerate() {
        let expected = asked.unwrap_or(300.0);
        let due_in = due_in(&scene, &format!("move{number}x"), answer(477, &waits, &body)).await;
        assert!((expected - SLACK..=expected).contains(&due_in), "{waits:?}: due in {due_in} s");
        let paused = scene.pause().await.map_or(0.0, |(seconds, _)| seconds);
        assert!((expected - SLACK..=expected).contains(&paused), "{waits:?}: paused for {paused} s");
        scene.heal().await;
    }
    scene.world.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backoff_is_stretched_by_a_readable_header_up_to_an_hour() {
    let scene = Scene::new().await;
    for (number, (waits, asked)) in forms().into_iter().enumerate() {
        let shortest = asked.unwrap_or(1.0).clamp(1.0, 3600.0);
        let due_in = due_in(&scene, &format!("away{number}x"), answer(503, &waits, &json!({}))).await;
        // Without a header the first wait is drawn between one and fifteen seconds.
        let longest = shortest.max(15.0);
        assert!((shortest - SLACK..=longest).contains(&due_in), "{waits:?}: due in {due_in} s");
        scene.heal().await;
    }
    scene.world.drain().await;
}
