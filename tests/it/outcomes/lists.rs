//! Segments that can't be written: a dynamic, a deleted and a foreign list, and records that a list does not know.

use std::time::Duration;

use hubspot_simulator::{AccountConfig, Action, Fault, ListConfig, ProcessingType};
use serde_json::{Value, json};

use super::{ENDPOINTS, Scene, invalid, people, respond, subscription};

fn targets(lists: &[&str]) -> Value {
    json!({
        "contact_properties": {"firstname": "firstname"},
        "subscription_type": 1001,
        "segments": {"subscribed": {"add": lists}},
    })
}

/// A list of companies, and one of contacts that comes behind all others.
fn with_more_lists(account: &mut AccountConfig) {
    let list = ListConfig::new(104, "Companies", ProcessingType::Manual);
    account.lists.push(ListConfig { object_type_id: "0-2".into(), ..list });
    account.lists.push(ListConfig::new(99_999, "The last", ProcessingType::Manual));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_cannot_be_written_ends_its_own_events_by_name_and_other_lists_go_on() {
    let scene = Scene::in_account(with_more_lists, Vec::new()).await;
    scene.world.map("plain", targets(&["101"])).await;
    for (list, reason) in
        [("103", "list_is_dynamic"), ("999", "list_not_found"), ("104", "invalid_object_type_for_list")]
    {
        // The list at fault stands between good ones.
        scene.world.map("newsletter", targets(&["101", list, "99999"])).await;
        let (emails, mates) = (people(&format!("list{list}x"), 3), people(&format!("listmate{list}x"), 3));
        let plain = |email: &String| crate::world::with(subscription(email), json!({"product": "plain"}));
        let requests = emails.iter().map(|email| subscription(email)).chain(mates.iter().map(plain));
        let accepted = scene.world.accept(requests.collect()).await;
        scene.world.step().await;
        let (dead, served) = accepted.split_at(3);
        for seen in scene.all_seen(dead).await {
            assert_eq!((seen.status.as_str(), seen.reason.as_deref()), ("dead", Some(reason)), "{list}");
        }
        for email in &emails {
            scene.assert_subscribed(email);
            let id = scene.world.hubspot.contact_by_email(email).unwrap().id;
            assert!(scene.world.hubspot.list_members(99_999).contains(&id), "the other lists go on");
        }
        for (mate, accepted) in mates.iter().zip(served) {
            assert_eq!(scene.seen(accepted).await.status, "synced", "{list}");
            scene.assert_subscribed(mate);
        }
        scene.assert_discreet().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_a_list_does_not_know_is_tried_again_and_its_mates_are_members() {
    let scene = Scene::new().await;
    let emails = people("missing", 3);
    let ids: Vec<_> =
        emails.iter().map(|email| scene.world.hubspot.seed_contact(&[("email", email)]).unwrap().to_string()).collect();
    let answer = json!({"recordsIdsAdded": [ids[0], ids[2]], "recordIdsMissing": [ids[1]]});
    scene.world.hubspot.add_fault(Fault::next(1, respond(200, &[], answer)).on_endpoint("lists.add_members"));
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    let seen = scene.all_seen(&accepted).await;
    let statuses: Vec<_> = seen.iter().map(|seen| (seen.status.as_str(), seen.attempts)).collect();
    assert_eq!(statuses, [("synced", 0), ("retry", 1), ("synced", 0)]);
    assert_eq!(seen[1].reason.as_deref(), Some("record_missing"));
    scene.heal().await;
    scene.world.drain().await;
    assert_eq!(scene.seen(&accepted[1]).await.status, "synced");
    scene.assert_subscribed(&emails[1]);
    assert_eq!(scene.contacts().len(), 3, "nobody is made twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_may_learn_of_a_record_late() {
    let scene = Scene::new().await;
    let emails = people("late", 1);
    let id = scene.world.hubspot.seed_contact(&[("email", &emails[0])]).unwrap().to_string();
    scene.strike("lists.add_members", respond(200, &[], json!({"recordIdsMissing": [id]})));
    let accepted = scene.subscribe(&emails).await;
    let mut passed = Duration::ZERO;
    while passed < Duration::from_mins(10) {
        scene.world.step().await;
        let seen = scene.seen(&accepted[0]).await;
        assert_eq!(seen.status, "retry", "given up after {passed:?}");
        let wait = Duration::from_secs_f64(seen.due_in.max(0.0) + 0.1);
        scene.time_passes(wait).await;
        passed += wait;
    }
    assert!(scene.seen(&accepted[0]).await.attempts < 12);
    scene.converges(&emails, &accepted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_a_member_already_is_settled() {
    let scene = Scene::new().await;
    let emails = people("member", 3);
    for _ in 0..2 {
        let accepted = scene.subscribe(&emails).await;
        scene.world.step().await;
        assert!(
            scene.all_seen(&accepted).await.iter().all(|seen| (seen.status.as_str(), seen.attempts) == ("synced", 0))
        );
    }
    assert_eq!(scene.world.hubspot.list_members(101).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_membership_does_not_undo_what_was_written_before_it() {
    let scene = Scene::new().await;
    let emails = people("order", 2);
    scene.strike(ENDPOINTS[3], Action::respond(400, invalid("zephyrine is on no list")));
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    for (email, seen) in emails.iter().zip(scene.all_seen(&accepted).await) {
        assert_eq!((seen.status.as_str(), seen.reason.as_deref()), ("dead", Some("validation_error")));
        assert!(scene.world.hubspot.contact_by_email(email).is_some());
    }
    scene.assert_discreet().await;
}
