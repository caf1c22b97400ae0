//! A batch that is refused as a whole because of one row: the row is found with few calls, and fails alone.

use std::collections::BTreeMap;
use std::time::Duration;

use hubferry::adapters::db::Accepted;
use hubspot_simulator::{Action, Fault, Response};
use serde_json::{Value, json};

use super::{Scene, invalid, invalid_value, people, respond};
use crate::world::WorldConfig;

/// Rows of a batch.
const ROWS: usize = 100;

/// Calls beyond the first that finding one row of a hundred may take: 2·log2(100) + 2.
const MOST_EXTRA_CALLS: u64 = 15;

/// Everybody is subscribed in one batch, in which HubSpot refuses whatever concerns the person in the middle.
async fn refuse_one(scene: &Scene, tag: &str, endpoint: &str, refusal: Action) -> (Vec<String>, Vec<Accepted>) {
    let emails = people(tag, ROWS);
    let bad = format!("{}.{tag}42@", super::SECRET);
    scene.world.hubspot.reset_stats();
    scene.world.hubspot.add_fault(Fault::always(refusal).on_endpoint(endpoint).on_body(&bad));
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    (emails, accepted)
}

async fn assert_only_one_is_dead(scene: &Scene, emails: &[String], accepted: &[Accepted], reason: &str) {
    for (number, (email, accepted)) in emails.iter().zip(accepted).enumerate() {
        let seen = scene.seen(accepted).await;
        if number == 42 {
            assert_eq!((seen.status.as_str(), seen.reason.as_deref()), ("dead", Some(reason)));
        } else {
            assert_eq!((seen.status.as_str(), seen.attempts), ("synced", 0), "{email}: {seen:?}");
            scene.assert_subscribed(email);
        }
    }
    scene.assert_discreet().await;
}

fn truncated() -> Action {
    let body_raw = Some("{\"status\":\"error\",\"message\":\"Property values were not va".to_owned());
    Action::Respond(Response { status: 400, headers: BTreeMap::new(), body: None, body_raw })
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_contact_of_a_hundred_is_found_by_halves_or_by_name() {
    let scene = Scene::new().await;
    let named = |tag: &str| {
        let address = format!("{}.{tag}42@example.test", super::SECRET);
        invalid_value("INVALID_EMAIL", "email", &format!("Email address {address}"))
    };
    for (tag, refusal, reason, most_extra) in [
        ("halves", respond(400, &[], invalid("Invalid input JSON on line 1")), "validation_error", MOST_EXTRA_CALLS),
        ("cut", truncated(), "http_400", MOST_EXTRA_CALLS),
        ("large", Action::respond_raw(413, ""), "http_413", MOST_EXTRA_CALLS),
        ("text", respond(400, &[], named("text")), "invalid_email", 2),
    ] {
        let (emails, accepted) = refuse_one(&scene, tag, "contacts.batch_upsert", refusal).await;
        let extra = scene.world.hubspot.stats().calls("contacts.batch_upsert") - 1;
        assert!(extra <= most_extra, "{tag}: {extra} calls more");
        assert_only_one_is_dead(&scene, &emails, &accepted, reason).await;
        scene.heal().await;
        scene.world.drain().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_status_of_a_hundred_is_found_by_halves_or_by_name() {
    let scene = Scene::new().await;
    let named = |tag: &str| {
        let address = format!("{}.{tag}42@example.test", super::SECRET);
        json!({"status": "error", "category": "VALIDATION_ERROR", "message": "not valid",
               "context": {"subscriberIdString": [address]}})
    };
    let plain = || respond(400, &[], invalid("Invalid input JSON on line 1"));
    let cases: Vec<(&str, &str, Action, &str, u64)> = vec![
        ("writehalves", "preferences.batch_write", plain(), "validation_error", MOST_EXTRA_CALLS),
        ("writecut", "preferences.batch_write", truncated(), "http_400", MOST_EXTRA_CALLS),
        ("writenamed", "preferences.batch_write", respond(400, &[], named("writenamed")), "validation_error", 2),
        ("readhalves", "preferences.batch_read", plain(), "validation_error", MOST_EXTRA_CALLS),
        ("readcut", "preferences.batch_read", truncated(), "http_400", MOST_EXTRA_CALLS),
        ("readnamed", "preferences.batch_read", respond(400, &[], named("readnamed")), "validation_error", 2),
    ];
    for (tag, endpoint, refusal, reason, most_extra) in cases {
        let (emails, accepted) = refuse_one(&scene, tag, endpoint, refusal).await;
        let extra = scene.world.hubspot.stats().calls(endpoint) - 1;
        assert!(extra <= most_extra, "{tag}: {extra} calls more");
        assert_only_one_is_dead(&scene, &emails, &accepted, reason).await;
        scene.heal().await;
        scene.world.drain().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_of_a_split_is_paid_for() {
    let (call_limit, call_window) = (12, Duration::from_millis(400));
    let config = WorldConfig { call_limit, hubspot_limit: call_limit, call_window, ..WorldConfig::default() };
    let scene = Scene::with(config).await;
    let refusal = respond(400, &[], invalid("Invalid input JSON on line 1"));
    let (emails, accepted) = refuse_one(&scene, "paid", "contacts.batch_upsert", refusal).await;
    scene.world.drain().await;
    assert_only_one_is_dead(&scene, &emails, &accepted, "validation_error").await;
    let stats = scene.world.hubspot.stats();
    assert_eq!(stats.answered_429, 0);
    assert!(stats.highest_window <= call_limit as usize, "{} calls in a window", stats.highest_window);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_person_twice_in_a_batch_is_one_contact_and_settles_both() {
    let scene = Scene::new().await;
    let upper = "Zephyrine.TWICE@Example.Test";
    let requests =
        vec![super::subscription("zephyrine.twice@example.test"), super::other_product(&format!(" {upper} "))];
    let accepted = scene.world.accept(requests).await;
    scene.world.step().await;
    assert!(scene.all_seen(&accepted).await.iter().all(|seen| (seen.status.as_str(), seen.attempts) == ("synced", 0)));
    assert_eq!(scene.contacts().len(), 1);
    assert_eq!(scene.world.hubspot.stats().calls("contacts.batch_upsert"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_hubspot_finds_twice_split_the_batch_and_kill_nobody() {
    let scene = Scene::new().await;
    let emails = people("double", 8);
    let twice: Value = json!({"status": "error", "category": "VALIDATION_ERROR", "context": {"ids": [emails[3]]},
        "message": format!("Duplicate IDs found in batch input: [{}]. IDs must be unique", emails[3])});
    scene.world.hubspot.add_fault(Fault::next(1, respond(400, &[], twice)).on_endpoint("contacts.batch_upsert"));
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    assert!(scene.all_seen(&accepted).await.iter().all(|seen| (seen.status.as_str(), seen.attempts) == ("synced", 0)));
    assert_eq!(scene.world.hubspot.stats().calls("contacts.batch_upsert"), 3, "the one it names, and the others");
    scene.converges(&emails, &accepted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_all_fail_alike_end_the_search_and_who_was_not_tried_alone_is_not_blamed() {
    let scene = Scene::new().await;
    for (tag, endpoint, status, reason) in [
        ("allcontacts", "contacts.batch_upsert", 400, "validation_error"),
        ("allwrites", "preferences.batch_write", 400, "validation_error"),
        ("allmembers", "lists.add_members", 400, "validation_error"),
    ] {
        scene.world.hubspot.reset_stats();
        scene.strike(endpoint, respond(status, &[], invalid("Something new is wrong with zephyrine")));
        let emails = people(tag, ROWS);
        let accepted = scene.subscribe(&emails).await;
        scene.world.step().await;
        let calls = scene.world.hubspot.stats().calls(endpoint);
        assert!(calls <= MOST_EXTRA_CALLS + 1, "{endpoint}: {calls} calls for a hundred bad rows");
        let (mut dead, mut waiting) = (0, Vec::new());
        for ((email, accepted), seen) in emails.iter().zip(&accepted).zip(scene.all_seen(&accepted).await) {
            assert_eq!(seen.reason.as_deref(), Some(reason), "{endpoint}: {seen:?}");
            match (seen.status.as_str(), seen.attempts) {
                ("dead", 0) => dead += 1,
                ("retry", 1) => waiting.push((email.clone(), accepted.clone())),
                other => panic!("{endpoint}: {other:?}"),
            }
        }
        assert_eq!((dead, waiting.len()), (3, ROWS - 3), "{endpoint}");
        scene.assert_discreet().await;
        let (emails, accepted): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
        scene.heal().await;
        scene.world.drain().await;
        for (email, accepted) in emails.iter().zip(&accepted) {
            assert_eq!(scene.seen(accepted).await.status, "synced", "{endpoint}");
            scene.assert_subscribed(email);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_bad_rows_among_good_ones_take_a_bounded_number_of_calls() {
    let scene = Scene::new().await;
    let refusal = || respond(400, &[], invalid("Invalid input JSON on line 1"));
    for number in (0..ROWS).step_by(7) {
        let bad = format!("{}.many{number}@", super::SECRET);
        scene.world.hubspot.add_fault(Fault::always(refusal()).on_endpoint("contacts.batch_upsert").on_body(&bad));
    }
    let emails = people("many", ROWS);
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    let calls = scene.world.hubspot.stats().calls("contacts.batch_upsert");
    assert!(calls <= 41, "{calls} calls");
    for (number, seen) in scene.all_seen(&accepted).await.into_iter().enumerate() {
        let expected: &[&str] = if number % 7 == 0 { &["dead", "retry"] } else { &["synced", "retry"] };
        assert!(expected.contains(&seen.status.as_str()), "{number}: {seen:?}");
    }
    scene.world.drain().await;
    for (number, seen) in scene.all_seen(&accepted).await.into_iter().enumerate() {
        assert_eq!(seen.status, if number % 7 == 0 { "dead" } else { "synced" }, "{number}: {seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_member_of_a_hundred_is_found_by_halves() {
    let scene = Scene::new().await;
    for (tag, refusal, reason) in [
        ("memberplain", respond(400, &[], invalid("Invalid input JSON on line 1")), "validation_error"),
        ("memberlarge", Action::respond_raw(413, ""), "http_413"),
    ] {
        let emails = people(tag, ROWS);
        let ids: Vec<String> = emails
            .iter()
            .map(|email| scene.world.hubspot.seed_contact(&[("email", email)]).unwrap().to_string())
            .collect();
        scene.world.hubspot.reset_stats();
        let fault = Fault::always(refusal).on_endpoint("lists.add_members").on_body(&format!("\"{}\"", ids[42]));
        scene.world.hubspot.add_fault(fault);
        let accepted = scene.subscribe(&emails).await;
        scene.world.step().await;
        let extra = scene.world.hubspot.stats().calls("lists.add_members") - 1;
        assert!(extra <= MOST_EXTRA_CALLS, "{tag}: {extra} calls more");
        assert_only_one_is_dead(&scene, &emails, &accepted, reason).await;
        scene.heal().await;
    }
}
