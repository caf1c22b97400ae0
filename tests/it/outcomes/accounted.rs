//! Answers that say too little, and answers that never come: nothing is settled that HubSpot did not account for, and a
//! repeat does no harm.

use std::time::Duration;

use hubferry::adapters::hubspot::{HubSpot, HubSpotConfig};
use hubspot_simulator::{Action, Fault};
use serde_json::{Value, json};

use super::{ENDPOINTS, Scene, invalid, people, respond};

fn nothing(status: u16) -> Action {
    respond(status, &[], json!({"status": "COMPLETE", "results": [], "errors": []}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_that_accounts_for_nobody_settles_nobody() {
    let scene = Scene::new().await;
    let forms = || vec![nothing(200), nothing(207), Action::respond_raw(204, ""), Action::respond_raw(200, "")];
    for (number, endpoint) in ENDPOINTS.into_iter().enumerate() {
        for (form, action) in forms().into_iter().enumerate() {
            // To a list, an object without any entry says that everybody is a member already.
            if endpoint == "lists.add_members" && form < 2 {
                continue;
            }
            let emails = people(&format!("silent{number}x{form}x"), 2);
            scene.strike(endpoint, action);
            let accepted = scene.subscribe(&emails).await;
            scene.world.step().await;
            for seen in scene.all_seen(&accepted).await {
                assert_eq!(
                    (seen.status.as_str(), seen.reason.as_deref(), seen.attempts),
                    ("retry", Some("unaccounted"), 1),
                    "{endpoint}, form {form}"
                );
                assert!((-5.0..=15.0).contains(&seen.due_in));
            }
            scene.converges(&emails, &accepted).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_inputs_only_the_one_with_a_result_is_settled() {
    let scene = Scene::new().await;
    let emails = people("half", 2);
    let known = scene.world.hubspot.seed_contact(&[("email", &emails[0]), ("firstname", "Zephyrine")]).unwrap();
    let result = json!({"id": known.to_string(), "properties": {"email": emails[0]}, "new": false});
    let half = respond(200, &[], json!({"status": "COMPLETE", "results": [result]}));
    scene.world.hubspot.add_fault(Fault::next(1, half).on_endpoint("contacts.batch_upsert"));
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    let (settled, silent) = (scene.seen(&accepted[0]).await, scene.seen(&accepted[1]).await);
    assert_eq!((settled.status.as_str(), settled.attempts), ("synced", 0));
    assert_eq!((silent.status.as_str(), silent.reason.as_deref(), silent.attempts), ("retry", Some("unaccounted"), 1));
    scene.converges(&emails, &accepted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_inside_a_success_settles_nobody_and_kills_nobody_it_does_not_name() {
    let scene = Scene::new().await;
    let errors: [Value; 3] = [
        invalid("zephyrine is not valid"),
        json!({"status": "error", "category": "INTERNAL_ERROR", "message": "zephyrine"}),
        json!({"status": "COMPLETE", "results": [], "numErrors": 1, "errors": [{"status": "error", "category": "VALIDATION_ERROR"}]}),
    ];
    for (number, endpoint) in ENDPOINTS.into_iter().enumerate() {
        for (form, error) in errors.iter().enumerate() {
            let emails = people(&format!("inside{number}x{form}x"), 2);
            scene.strike(endpoint, respond(200, &[], error.clone()));
            let accepted = scene.subscribe(&emails).await;
            scene.world.step().await;
            for seen in scene.all_seen(&accepted).await {
                assert_eq!((seen.status.as_str(), seen.attempts), ("retry", 1), "{endpoint}, form {form}: {seen:?}");
            }
            scene.assert_discreet().await;
            scene.converges(&emails, &accepted).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_inside_a_success_costs_no_attempt() {
    let scene = Scene::new().await;
    let body = json!({"status": "error", "category": "RATE_LIMITS", "policyName": "TEN_SECONDLY_ROLLING"});
    for (number, endpoint) in ENDPOINTS.into_iter().enumerate() {
        let emails = people(&format!("limitinside{number}x"), 2);
        scene.strike(endpoint, respond(200, &[], body.clone()));
        let accepted = scene.subscribe(&emails).await;
        scene.world.step().await;
        for seen in scene.all_seen(&accepted).await {
            assert_eq!(
                (seen.status.as_str(), seen.reason.as_deref(), seen.attempts),
                ("retry", Some("rate_limited_ten_secondly"), 0),
                "{endpoint}"
            );
        }
        assert!(scene.freeze().await.is_some(), "{endpoint}");
        scene.converges(&emails, &accepted).await;
    }
}

/// What happens to a call on its way, and the reason that the event shows.
fn mishaps() -> Vec<(Action, &'static [&'static str])> {
    vec![
        (Action::Html(502), &["http_502"]),
        (Action::respond_raw(504, ""), &["http_504"]),
        (Action::respond_raw(524, "error code: 524"), &["http_524"]),
        (Action::Html(200), &["html_answer"]),
        (Action::Truncate, &["http_200"]),
        (Action::CutBody, &["body_cut", "connection_lost"]),
        (Action::Cut, &["connection_lost"]),
        (Action::LoseAnswer, &["connection_lost"]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_to_a_call_on_its_way_the_repeat_is_harmless() {
    let scene = Scene::new().await;
    for (number, endpoint) in ENDPOINTS.into_iter().enumerate() {
        for (mishap, (action, reasons)) in mishaps().into_iter().enumerate() {
            let name = format!("{endpoint}, {action:?}");
            let emails = people(&format!("way{number}x{mishap}x"), 3);
            scene.strike(endpoint, action);
            let accepted = scene.subscribe(&emails).await;
            scene.world.step().await;
            for seen in scene.all_seen(&accepted).await {
                assert_eq!((seen.status.as_str(), seen.attempts), ("retry", 1), "{name}");
                assert!(reasons.contains(&seen.reason.clone().unwrap().as_str()), "{name}: {seen:?}");
            }
            assert_eq!((scene.pause().await, scene.freeze().await), (None, None), "{name}");
            let before = changed_at(&scene, &emails);
            scene.assert_discreet().await;
            scene.converges(&emails, &accepted).await;
            for (before, after) in before.iter().zip(changed_at(&scene, &emails)) {
                assert!(before.is_none() || *before == after, "{name}: a status that was written is not changed again");
            }
        }
    }
}

fn changed_at(scene: &Scene, emails: &[String]) -> Vec<Option<jiff::Timestamp>> {
    let account = scene.world.hubspot.account(scene.world.portal.0.unsigned_abs());
    emails.iter().map(|email| account.status_changed_at(email, 1001)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opt_out_whose_answer_was_lost_is_known_as_ours_when_the_person_comes_back() {
    let scene = Scene::new().await;
    for (number, action) in [Action::LoseAnswer, Action::CutBody, Action::Truncate].into_iter().enumerate() {
        let name = format!("{action:?}");
        let emails = people(&format!("leaving{number}x"), 1);
        let leave = crate::world::with(super::subscription(&emails[0]), json!({"desired_state": "unsubscribed"}));
        scene.strike("preferences.batch_write", action);
        let left = scene.world.accept(vec![leave]).await;
        scene.world.step().await;
        assert_eq!(scene.seen(&left[0]).await.status, "retry", "{name}");

        // The consent is old, so only the note of our own opt-out tells that it is not the person's.
        scene.heal().await;
        let consent =
            json!({"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "form", "given_at": "2024-01-01T00:00:00Z"});
        let back = crate::world::with(super::subscription(&emails[0]), json!({"consent": consent}));
        let back = scene.world.accept(vec![back]).await;
        scene.world.drain().await;
        assert_eq!(scene.seen(&left[0]).await.status, "superseded", "{name}");
        assert_eq!(scene.seen(&back[0]).await.status, "synced", "{name}: {:?}", scene.seen(&back[0]).await);
        scene.assert_subscribed(&emails[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hubspot_away_slow_or_without_end_is_tried_again() {
    let mut scene = Scene::new().await;
    let client = scene.world.worker.hubspot.clone();
    let with_url = |url: &str, limit: Duration| {
        HubSpot::new(HubSpotConfig { call_time_limit: limit, ..HubSpotConfig::new(url.parse().unwrap()) }).unwrap()
    };
    let here = scene.world.hubspot.base_url();
    let (short, long) = (Duration::from_millis(300), Duration::from_secs(15));
    let endless = format!("\"{}\"", "x".repeat(9 * 1024 * 1024));
    for (number, (client_of_case, action, reason)) in [
        (with_url("http://127.0.0.1:1", long), None, "connect_failed"),
        (with_url(&here, short), Some(Action::SlowAnswerMs(1_000)), "timeout"),
        (with_url(&here, short), Some(Action::DelayMs(1_000)), "timeout"),
        (with_url(&here, long), Some(Action::respond_raw(200, endless)), "body_too_large"),
    ]
    .into_iter()
    .enumerate()
    {
        let emails = people(&format!("away{number}x"), 2);
        scene.world.worker.hubspot = client_of_case;
        if let Some(action) = action {
            scene.strike("contacts.batch_upsert", action);
        }
        let accepted = scene.subscribe(&emails).await;
        scene.world.step().await;
        for seen in scene.all_seen(&accepted).await {
            assert_eq!(
                (seen.status.as_str(), seen.reason.as_deref(), seen.attempts),
                ("retry", Some(reason), 1),
                "{number}"
            );
        }
        scene.world.worker.hubspot = client.clone();
        scene.converges(&emails, &accepted).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_none_is_not_sent_and_pauses_the_portal() {
    let mut scene = Scene::new().await;
    let good = std::mem::replace(&mut scene.world.worker.tokens.default, "zephyrine\ntoken".into());
    let emails = people("tokenform", 2);
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    assert_eq!(scene.world.hubspot.stats().total, 0);
    assert_eq!(scene.pause().await.unwrap().1, "credential_refused");
    for seen in scene.all_seen(&accepted).await {
        assert_eq!((seen.status.as_str(), seen.attempts), ("retry", 0), "{seen:?}");
    }
    scene.assert_discreet().await;
    scene.world.worker.tokens.default = good;
    scene.converges(&emails, &accepted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_that_does_not_end_ends_in_a_dead_event_with_a_name_after_twelve_attempts() {
    let scene = Scene::new().await;
    scene.strike("contacts.batch_upsert", Action::Html(502));
    let emails = people("endless", 1);
    let accepted = scene.subscribe(&emails).await;
    scene.world.drain().await;
    let seen = scene.seen(&accepted[0]).await;
    assert_eq!((seen.status.as_str(), seen.reason.as_deref()), ("dead", Some("attempts_exhausted")));
    assert_eq!(scene.world.hubspot.stats().calls("contacts.batch_upsert"), 12);
    scene.assert_discreet().await;

    scene.world.hubspot.clear_faults();
    let again = scene.subscribe(&emails).await;
    scene.converges(&emails, &again).await;
}
