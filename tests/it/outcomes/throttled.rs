//! 429 and 423: they stop calls for a time and cost nothing.

use std::time::Duration;

use hubspot_simulator::{Action, Fault};
use serde_json::{Value, json};

use super::{ENDPOINTS, Scene, people, respond};
use crate::world::WorldConfig;

/// Events come back within this time after the end of a freeze, in seconds.
const SPREAD: f64 = 2.1;

/// How long a test may take between an answer and a look at its effects, in seconds.
const SLACK: f64 = 5.0;

fn limit(policy: &str, sentence: &str) -> Value {
    let mut body = json!({"status": "error", "category": "RATE_LIMITS", "errorType": "RATE_LIMIT",
                          "message": format!("{sentence} zephyrine.limit@example.test")});
    if !policy.is_empty() {
        body["policyName"] = json!(policy);
    }
    body
}

/// Every form of 429, the reason that the event shows, and how long nobody calls, in seconds.
fn every_429() -> Vec<(Action, &'static str, f64)> {
    let wait = |seconds: &'static str| [("Retry-After", seconds)];
    vec![
        (respond(429, &[], limit("SECONDLY", "You have reached your secondly limit.")), "rate_limited_secondly", 1.0),
        (respond(429, &wait("30"), limit("SECONDLY", "")), "rate_limited_secondly", 30.0),
        (respond(429, &[], limit("TEN_SECONDLY_ROLLING", "")), "rate_limited_ten_secondly", 10.0),
        (respond(429, &wait("3"), limit("TEN_SECONDLY_ROLLING", "")), "rate_limited_ten_secondly", 10.0),
        (respond(429, &wait("120"), limit("TEN_SECONDLY_ROLLING", "")), "rate_limited_ten_secondly", 120.0),
        (respond(429, &wait("86400"), limit("TEN_SECONDLY_ROLLING", "")), "rate_limited_ten_secondly", 300.0),
        (
            respond(429, &[], limit("", "You have reached your ten_secondly_rolling limit.")),
            "rate_limited_ten_secondly",
            10.0,
        ),
        (respond(429, &[], limit("DAILY", "You have reached your daily limit.")), "rate_limited_daily", 3600.0),
        (respond(429, &wait("7200"), limit("DAILY", "")), "rate_limited_daily", 7200.0),
        (respond(429, &[], limit("", "Too many requests.")), "rate_limited", 10.0),
        (respond(429, &wait("60"), limit("", "")), "rate_limited", 60.0),
        (Action::Html(429), "rate_limited", 10.0),
        (Action::respond_raw(429, ""), "rate_limited", 10.0),
        (respond(429, &[("content-type", "text/html"), ("Retry-After", "45")], json!("<html>")), "rate_limited", 45.0),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_429_stops_the_portal_for_its_time_and_costs_no_attempt() {
    let scene = Scene::new().await;
    for (number, (action, reason, freeze)) in every_429().into_iter().enumerate() {
        let name = format!("{number}: {action:?}");
        let emails = people(&format!("limit{number}x"), 2);
        scene.world.hubspot.add_fault(Fault::always(action));
        let accepted = scene.subscribe(&emails).await;
        scene.world.step().await;

        for seen in scene.all_seen(&accepted).await {
            assert_eq!((seen.status.as_str(), seen.reason.as_deref()), ("retry", Some(reason)), "{name}");
            assert_eq!(seen.attempts, 0, "{name}");
            assert!((freeze - SLACK..=freeze + SPREAD).contains(&seen.due_in), "{name}: due in {} s", seen.due_in);
        }
        let frozen = scene.freeze().await.map_or(0.0, |freeze| freeze.remaining.as_secs_f64());
        assert!((freeze - SLACK..=freeze).contains(&frozen), "{name}: frozen for {frozen} s");
        assert!(scene.world.hubspot.contact_by_email(&emails[0]).is_none(), "{name}");
        if freeze > SLACK {
            scene.world.make_due().await;
            let (_, again) = scene.world.step().await;
            // For the rest of a day nothing is even published.
            let came = if reason == "rate_limited_daily" { 0 } else { 2 };
            assert_eq!((again.calls, again.snoozed), (0, came), "{name}: nobody calls while the portal is frozen");
        }
        scene.assert_discreet().await;
        scene.converges(&emails, &accepted).await;
        assert!(scene.all_seen(&accepted).await.iter().all(|seen| seen.attempts == 0), "{name}");
    }
}

/// Seconds until HubSpot's day ends, as its usage endpoint says.
async fn until_reset(scene: &Scene) -> f64 {
    let tokens = &scene.world.worker.tokens;
    let account = scene.world.worker.hubspot.account(scene.world.portal, tokens.of(scene.world.portal));
    let reset = account.daily_usage().await.result.unwrap().unwrap().resets_at.unwrap();
    reset.duration_since(hubferry::clock::now()).as_secs_f64()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_days_limit_pauses_the_portal_until_midnight_in_its_own_zone() {
    for zone in ["Pacific/Auckland", "America/Los_Angeles"] {
        let scene = Scene::in_account(|account| account.time_zone = zone.into(), Vec::new()).await;
        scene.strike("contacts.batch_upsert", respond(429, &[], limit("DAILY", "")));
        let (emails, later) = (people("day", 3), people("evening", 3));
        let accepted = scene.subscribe(&emails).await;
        scene.world.step().await;
        let reset = until_reset(&scene).await;
        let (paused, reason) = scene.pause().await.expect("the portal is paused");
        assert!((reset - SLACK..=reset + SLACK).contains(&paused), "{zone}: paused for {paused} s of {reset} s");
        assert_eq!(reason, "rate_limited_daily");
        for seen in scene.all_seen(&accepted).await {
            assert_eq!((seen.status.as_str(), seen.attempts), ("retry", 0));
            assert!((reset - SLACK..=reset + SLACK + SPREAD).contains(&seen.due_in), "{zone}: {seen:?}");
        }

        // Nothing is published for the rest of the day, and it is not asked again.
        scene.world.hubspot.reset_stats();
        let more = scene.subscribe(&later).await;
        scene.world.make_due().await;
        assert_eq!(scene.world.step().await.0.claimed, 0);
        assert_eq!(scene.world.hubspot.stats().total, 0);
        scene.converges(&[emails, later].concat(), &[accepted, more].concat()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_whose_end_hubspot_does_not_tell_is_looked_at_again_each_hour() {
    let scene = Scene::in_account(|account| account.daily = Some(12), Vec::new()).await;
    let (first, second) = (people("morning", 2), people("noon", 2));
    let served = scene.subscribe(&first).await;
    scene.world.step().await;
    assert!(scene.all_seen(&served).await.iter().all(|seen| seen.status == "synced"));
    // Whatever is left of the day is used up by somebody else.
    let tokens = &scene.world.worker.tokens;
    let account = scene.world.worker.hubspot.account(scene.world.portal, tokens.of(scene.world.portal));
    while account.account_details().await.result.is_ok() {}
    scene.world.hubspot.reset_stats();
    let waiting = scene.subscribe(&second).await;
    scene.world.step().await;
    let (paused, reason) = scene.pause().await.expect("the portal is paused");
    assert!((3600.0 - SLACK..=3600.0).contains(&paused), "{paused} s");
    assert_eq!(reason, "rate_limited_daily");
    assert!(scene.all_seen(&waiting).await.iter().all(|seen| (seen.status.as_str(), seen.attempts) == ("retry", 0)));
    assert!(scene.world.hubspot.stats().total <= 3, "the calls under way, and one question");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_429_in_the_middle_stops_the_calls_that_would_follow() {
    let scene = Scene::new().await;
    for endpoint in ENDPOINTS {
        let emails = people(&endpoint.replace(['.', '_'], "-"), 3);
        scene.world.hubspot.reset_stats();
        scene.strike(endpoint, respond(429, &[], limit("TEN_SECONDLY_ROLLING", "")));
        let accepted = scene.subscribe(&emails).await;
        scene.world.step().await;

        for seen in scene.all_seen(&accepted).await {
            assert_eq!(seen.reason.as_deref(), Some("rate_limited_ten_secondly"), "{endpoint}");
            assert_eq!((seen.status.as_str(), seen.attempts), ("retry", 0), "{endpoint}");
        }
        assert_eq!(scene.world.hubspot.stats().answered_429, 1, "{endpoint}");
        let later = ENDPOINTS.iter().skip_while(|other| **other != endpoint).skip(1);
        for later in later.filter(|later| **later != "preferences.batch_read") {
            assert_eq!(scene.world.hubspot.stats().calls(later), 0, "{later} after {endpoint}");
        }
        scene.converges(&emails, &accepted).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_called_after_a_429_comes_back_when_the_freeze_ends() {
    let scene = Scene::new().await;
    // More than one call has room for, so that a 429 to the first keeps the others from being made.
    let emails = people("behind", 450);
    scene.world.hubspot.add_fault(Fault::always(respond(
        429,
        &[("Retry-After", "60")],
        limit("TEN_SECONDLY_ROLLING", ""),
    )));
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    for seen in scene.all_seen(&accepted).await {
        assert_eq!((seen.status.as_str(), seen.attempts), ("retry", 0));
        assert!((60.0 - SLACK..=60.0 + SPREAD).contains(&seen.due_in), "{seen:?}");
    }
    assert!(scene.world.hubspot.stats().answered_429 < 10, "at most the calls that were under way");
    scene.converges(&emails, &accepted).await;
}

/// A 429 answer as HubSpot spreads them over an hour: of every limit but the day's, with and without a wait.
fn next_429(round: u32) -> Action {
    match round % 5 {
        0 => respond(429, &[], limit("TEN_SECONDLY_ROLLING", "")),
        1 => respond(429, &[("Retry-After", "120")], limit("", "")),
        2 => Action::Html(429),
        3 => respond(429, &[], limit("SECONDLY", "")),
        _ => respond(429, &[("Retry-After", "nonsense")], limit("TEN_SECONDLY_ROLLING", "")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_hour_of_429_kills_nothing_and_costs_no_attempt() {
    let window = Duration::from_millis(200);
    let config = WorldConfig { call_limit: 20, hubspot_limit: 20, call_window: window, ..WorldConfig::default() };
    let scene = Scene::with(config).await;
    let emails = people("hour", 10);
    let accepted = scene.subscribe(&emails).await;
    let (mut passed, mut rounds) = (Duration::ZERO, 0);
    while passed < Duration::from_hours(1) {
        scene.world.hubspot.clear_faults();
        scene.world.hubspot.add_fault(Fault::always(next_429(rounds)));
        scene.world.step().await;
        let frozen = scene.freeze().await.map_or(Duration::from_secs(1), |freeze| freeze.remaining);
        let until_all_are_due = frozen + Duration::from_secs(2);
        scene.time_passes(until_all_are_due).await;
        passed += until_all_are_due;
        rounds += 1;
    }
    assert!(rounds > 50, "{rounds} rounds");
    let stats = scene.world.hubspot.stats();
    assert!(stats.answered_429 >= u64::from(rounds), "every round was refused: {stats:?}");
    for seen in scene.all_seen(&accepted).await {
        assert_eq!((seen.status.as_str(), seen.attempts), ("retry", 0));
    }
    scene.converges(&emails, &accepted).await;
    assert!(scene.all_seen(&accepted).await.iter().all(|seen| seen.attempts == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_waited_for_and_costs_no_attempt_however_often() {
    let scene = Scene::new().await;
    let locked = json!({"status": "error", "category": "LOCKED", "message": "zephyrine is locked"});
    for (number, (endpoint, wait)) in
        ENDPOINTS.into_iter().flat_map(|endpoint| [(endpoint, None), (endpoint, Some("60"))]).enumerate()
    {
        let emails = people(&format!("lock{number}x"), 2);
        let headers: Vec<_> = wait.into_iter().map(|wait| ("Retry-After", wait)).collect();
        scene.strike(endpoint, respond(423, &headers, locked.clone()));
        let accepted = scene.subscribe(&emails).await;
        for _ in 0..3 {
            scene.world.make_due().await;
            scene.world.step().await;
            let shortest = if wait.is_some() { 60.0 } else { 2.0 };
            for seen in scene.all_seen(&accepted).await {
                assert_eq!((seen.status.as_str(), seen.reason.as_deref()), ("retry", Some("locked")), "{endpoint}");
                assert_eq!(seen.attempts, 0, "{endpoint}");
                let due_in = seen.due_in;
                assert!((shortest - 1.5..=shortest + SPREAD).contains(&due_in), "{endpoint}: {due_in} s");
            }
        }
        assert_eq!(scene.freeze().await, None, "a lock is of a record, not of the portal");
        scene.assert_discreet().await;
        scene.converges(&emails, &accepted).await;
        assert!(scene.all_seen(&accepted).await.iter().all(|seen| seen.attempts == 0), "{endpoint}");
    }
}
