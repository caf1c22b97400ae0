//! 477 and 401: the portal is paused in the database, for every process, until it may be called again.

use std::time::Duration;

use hubferry::adapters::db;
use hubferry::model::ids::PortalId;
use hubspot_simulator::{Action, Fault};
use serde_json::{Value, json};

use super::{ENDPOINTS, Scene, people, respond, subscription};
use crate::world::{WorldConfig, with};

const HOUR: Duration = Duration::from_hours(1);

fn unauthorized(category: &str) -> Value {
    json!({"status": "error", "category": category, "message": "The OAuth token of zephyrine@example.test is refused"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_of_hours_pauses_the_portal_durably_and_it_resumes_by_itself() {
    let scene = Scene::new().await;
    scene.world.hubspot.add_fault(Fault::always(Action::migrating(7200)));
    let (first, second) = (people("moved", 3), people("later", 2));
    let accepted = scene.subscribe(&first).await;
    scene.world.step().await;
    let (paused, reason) = scene.pause().await.expect("the portal is paused");
    assert!((7190.0..=7200.0).contains(&paused), "{paused} s");
    assert_eq!(reason, "migrating");
    for seen in scene.all_seen(&accepted).await {
        assert_eq!((seen.status.as_str(), seen.reason.as_deref(), seen.attempts), ("retry", Some("migrating"), 0));
        assert!((7190.0..=7200.0).contains(&seen.due_in), "due in {} s", seen.due_in);
    }

    // Neither what is due nor what is new is published while it lasts.
    let later = scene.subscribe(&second).await;
    scene.world.make_due().await;
    scene.world.hubspot.reset_stats();
    let (published, worked) = scene.world.step().await;
    assert_eq!((published.queued, worked.messages), (0, 0));
    assert_eq!(scene.world.hubspot.stats().total, 0);

    // The move is not over when the pause is: one look, and another pause.
    scene.time_passes(2 * HOUR).await;
    scene.world.step().await;
    assert!(scene.pause().await.is_some());
    assert!(scene.world.hubspot.stats().with_status(477) <= 2, "a look and not a storm");

    scene.assert_discreet().await;
    scene.world.hubspot.clear_faults();
    scene.time_passes(2 * HOUR).await;
    scene.world.drain().await;
    scene.converges(&[first, second].concat(), &[accepted.clone(), later.clone()].concat()).await;
    assert!(scene.all_seen(&[accepted, later].concat()).await.iter().all(|seen| seen.attempts == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_under_way_when_the_portal_was_paused_waits_without_a_call() {
    let scene = Scene::new().await;
    let emails = people("underway", 2);
    let accepted = scene.subscribe(&emails).await;
    scene.world.dispatcher.run_once().await.unwrap();
    scene
        .world
        .sql("update hubferry.portals set paused_until = clock_timestamp() + interval '1 h', paused_reason = 'migrating'")
        .await;
    let worked = scene.world.work_off_queues().await;
    assert_eq!((worked.snoozed, worked.calls), (2, 0));
    for seen in scene.all_seen(&accepted).await {
        assert_eq!((seen.reason.as_deref(), seen.attempts), (Some("portal_paused"), 0));
        assert!((3590.0..=3600.0).contains(&seen.due_in), "due in {} s", seen.due_in);
    }
    scene.converges(&emails, &accepted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_token_pauses_the_portal_whatever_the_reason_and_whichever_call_met_it() {
    let scene = Scene::new().await;
    for (number, (endpoint, category)) in ENDPOINTS
        .into_iter()
        .flat_map(|endpoint| [(endpoint, "EXPIRED_AUTHENTICATION"), (endpoint, "INVALID_AUTHENTICATION")])
        .enumerate()
    {
        let emails = people(&format!("token{number}x"), 2);
        scene.world.hubspot.reset_stats();
        scene.strike(endpoint, respond(401, &[], unauthorized(category)));
        let accepted = scene.subscribe(&emails).await;
        scene.world.step().await;
        let (paused, reason) = scene.pause().await.expect("the portal is paused");
        assert!((290.0..=300.0).contains(&paused), "{endpoint}: {paused} s");
        assert_eq!(reason, "credential_refused");
        for seen in scene.all_seen(&accepted).await {
            assert_eq!((seen.status.as_str(), seen.attempts), ("retry", 0), "{endpoint}: {seen:?}");
        }
        scene.world.make_due().await;
        let (published, _) = scene.world.step().await;
        assert_eq!(published.queued, 0, "{endpoint}");
        assert_eq!(scene.world.hubspot.stats().with_status(401), 1, "a token is not tried again at once");
        scene.assert_discreet().await;
        scene.converges(&emails, &accepted).await;
        assert!(scene.all_seen(&accepted).await.iter().all(|seen| seen.attempts == 0), "{endpoint}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hours_without_a_valid_token_cost_no_attempt_and_a_look_every_five_minutes() {
    let scene = Scene::new().await;
    let emails = people("tokenless", 4);
    scene.world.hubspot.add_fault(Fault::always(respond(401, &[], unauthorized("INVALID_AUTHENTICATION"))));
    let accepted = scene.subscribe(&emails).await;
    for _ in 0..40 {
        scene.world.step().await;
        scene.time_passes(Duration::from_secs(301)).await;
    }
    let looks = scene.world.hubspot.stats().with_status(401);
    assert!((40..=80).contains(&looks), "{looks} calls in 40 pauses");
    assert!(scene.all_seen(&accepted).await.iter().all(|seen| (seen.status.as_str(), seen.attempts) == ("retry", 0)));
    scene.converges(&emails, &accepted).await;
}

/// The portal's pause ended so long ago.
async fn pause_ended(scene: &Scene, seconds: f64) {
    let end = format!("paused_until = clock_timestamp() - interval '{seconds} s', paused_reason = 'migrating'");
    scene.world.sql(&format!("update hubferry.portals set {end}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_pause_a_portal_comes_back_step_by_step() {
    let scene = Scene::with(WorldConfig::default()).await;
    let emails = people("returning", 600);
    let accepted = scene.subscribe(&emails).await;
    pause_ended(&scene, 0.0).await;
    assert_eq!(scene.world.dispatcher.run_once().await.unwrap().claimed, 10, "a few first");
    assert_eq!(scene.world.dispatcher.run_once().await.unwrap().claimed, 0, "while those are under way");
    assert_eq!(scene.world.work_off_queues().await.synced, 10);
    assert_eq!(scene.world.dispatcher.run_once().await.unwrap().claimed, 10, "and then more");
    // A sixth of a minute, a thirty-sixth of the window of 9,000.
    pause_ended(&scene, 10.0).await;
    let claimed = scene.world.dispatcher.run_once().await.unwrap().claimed;
    assert!((240..300).contains(&claimed), "{claimed}");
    pause_ended(&scene, 60.0).await;
    assert_eq!(scene.world.dispatcher.run_once().await.unwrap().claimed, 580 - claimed, "as before");
    scene.world.drain().await;
    assert!(scene.all_seen(&accepted).await.iter().all(|seen| (seen.status.as_str(), seen.attempts) == ("synced", 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_still_refused_after_the_pause_is_noticed_by_a_few() {
    let scene = Scene::with(WorldConfig::default()).await;
    scene.world.hubspot.add_fault(Fault::always(respond(401, &[], unauthorized("INVALID_AUTHENTICATION"))));
    let emails = people("visitor", 300);
    let requests = emails.iter().map(|email| with(subscription(email), json!({"lane": "interactive"})));
    let accepted = scene.world.accept(requests.collect()).await;
    for _ in 0..3 {
        pause_ended(&scene, 0.0).await;
        let (published, worked) = scene.world.step().await;
        assert_eq!((published.claimed, worked.snoozed), (10, 10), "a look and not a storm, for visitors too");
        assert!(scene.pause().await.is_some(), "paused again");
    }
    let touched = scene.all_seen(&accepted).await.iter().filter(|seen| seen.status != "pending").count();
    assert_eq!(touched, 30);
    assert!(scene.world.hubspot.stats().with_status(401) <= 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_that_is_resumed_comes_back_step_by_step_too() {
    let scene = Scene::with(WorldConfig::default()).await;
    let emails = people("resumed", 50);
    let accepted = scene.subscribe(&emails).await;
    let connection = scene.world.db.connection().await.unwrap();
    let until = hubferry::clock::now() + HOUR;
    assert!(db::pause_portal_until(&*connection, scene.world.portal, until, "maintenance").await.unwrap());
    assert_eq!(scene.world.step().await.0.claimed, 0);
    scene
        .world
        .sql("update hubferry.outbox_events set status = 'retry', next_attempt_at = clock_timestamp() + interval '1 h'")
        .await;

    let resumed = db::resume_portal(&*connection, scene.world.portal).await.unwrap().unwrap();
    assert_eq!((resumed.was_paused, resumed.events), (true, 50));
    assert_eq!(scene.world.step().await.0.claimed, 10);
    let again = db::resume_portal(&*connection, scene.world.portal).await.unwrap().unwrap();
    assert_eq!((again.was_paused, again.events), (false, 0));
    assert_eq!(db::resume_portal(&*connection, PortalId(1)).await.unwrap(), None);
    scene.world.drain().await;
    assert!(scene.all_seen(&accepted).await.iter().all(|seen| seen.status == "synced"));
}
