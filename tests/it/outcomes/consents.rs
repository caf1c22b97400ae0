//! Consent that HubSpot refuses, addresses in paths, and the sizes of batches.

use hubspot_simulator::{AccountConfig, SubscriptionState};
use serde_json::json;

use super::{Scene, invalid, other_product, people, respond, subscription};

#[tokio::test(flavor = "multi_thread")]
async fn who_opted_out_is_not_subscribed_again_where_hubspot_refuses_it() {
    let refuses = |account: &mut AccountConfig| account.refuse_resubscribe = true;
    let scene = Scene::in_account(refuses, Vec::new()).await;
    let (emails, mates) = (people("optout", 2), people("optoutmate", 3));
    let long_ago = "2024-01-01T00:00:00Z".parse().unwrap();
    for email in &emails {
        scene.world.hubspot.seed_contact(&[("email", email)]).unwrap();
        scene.world.hubspot.opt_out(email, Some(1001), Some(long_ago)).unwrap();
    }
    let requests = emails.iter().chain(&mates).map(|email| subscription(email));
    let accepted = scene.world.accept(requests.collect()).await;
    let others = scene.world.accept(emails.iter().map(|email| other_product(email)).collect()).await;
    scene.world.drain().await;

    for (email, accepted) in emails.iter().zip(&accepted) {
        let seen = scene.seen(accepted).await;
        assert_eq!((seen.status.as_str(), seen.reason.as_deref()), ("superseded", Some("remote_opt_out")));
        assert_eq!(seen.attempts, 0);
        assert_eq!(scene.world.hubspot.status_of(email, 1001), SubscriptionState::Unsubscribed);
        let id = scene.world.hubspot.contact_by_email(email).unwrap().id;
        assert!(!scene.world.hubspot.list_members(101).contains(&id), "who opted out joins no segment");
    }
    for (email, accepted) in emails.iter().zip(&others) {
        assert_eq!(scene.seen(accepted).await.status, "synced", "the other events of the contact go on");
        assert_eq!(scene.world.hubspot.status_of(email, 1003), SubscriptionState::Subscribed);
    }
    for (mate, accepted) in mates.iter().zip(&accepted[emails.len()..]) {
        assert_eq!(scene.seen(accepted).await.status, "synced");
        scene.assert_subscribed(mate);
    }
    let connection = scene.world.db.connection().await.unwrap();
    let sql = "select count(*) from hubferry.applied_states where applied_state = 'unsubscribed'";
    assert_eq!(connection.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 2, "our own record says so too");
    scene.assert_discreet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opt_out_is_respected_however_the_refusal_comes() {
    let sentence = |email: &str| {
        invalid(&format!("Subscription 1001 for {email} cannot be updated because they have unsubscribed"))
    };
    // One call an address, and a whole batch for the sake of one of its rows.
    let single = Scene::single().await;
    let emails = people("single", 1);
    single.strike("preferences.write", respond(400, &[], sentence(&emails[0])));
    let accepted = single.subscribe(&emails).await;
    single.world.step().await;
    let seen = single.seen(&accepted[0]).await;
    assert_eq!((seen.status.as_str(), seen.reason.as_deref()), ("superseded", Some("remote_opt_out")));

    let scene = Scene::new().await;
    let emails = people("batch", 20);
    let fault = hubspot_simulator::Fault::always(respond(400, &[], sentence(&emails[7])));
    scene.world.hubspot.add_fault(fault.on_endpoint("preferences.batch_write").on_body(&emails[7]));
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    for (number, seen) in scene.all_seen(&accepted).await.into_iter().enumerate() {
        let expected = if number == 7 { "superseded" } else { "synced" };
        assert_eq!((seen.status.as_str(), seen.attempts), (expected, 0), "{number}: {seen:?}");
    }
    assert_eq!(scene.world.hubspot.stats().calls("preferences.batch_write"), 3);
    scene.assert_discreet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hubspot_says_that_it_holds_counts_and_not_that_it_answered() {
    let scene = Scene::new().await;
    let said = |email: &str, state: &str| {
        let result = json!({"subscriberIdString": email, "subscriptionId": 1001, "status": state, "channel": "EMAIL",
                            "timestamp": "2026-01-01T00:00:00Z"});
        respond(200, &[], json!({"status": "COMPLETE", "results": [result]}))
    };
    let emails = people("contradicted", 2);
    scene.strike("preferences.batch_write", said(&emails[0], "UNSUBSCRIBED"));
    let joining = scene.subscribe(&emails[..1]).await;
    scene.world.step().await;
    let seen = scene.seen(&joining[0]).await;
    assert_eq!((seen.status.as_str(), seen.reason.as_deref()), ("superseded", Some("remote_opt_out")));
    assert!(scene.world.hubspot.list_members(101).is_empty());

    scene.world.hubspot.clear_faults();
    scene.strike("preferences.batch_write", said(&emails[1], "SUBSCRIBED"));
    let leave = crate::world::with(subscription(&emails[1]), json!({"desired_state": "unsubscribed"}));
    let leaving = scene.world.accept(vec![leave]).await;
    scene.world.step().await;
    let seen = scene.seen(&leaving[0]).await;
    assert_eq!((seen.status.as_str(), seen.attempts), ("retry", 1), "an opt-out is not taken for done: {seen:?}");
    scene.heal().await;
    scene.world.drain().await;
    assert_eq!(scene.world.hubspot.status_of(&emails[1], 1001), SubscriptionState::Unsubscribed);
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_with_signs_of_a_path_are_encoded_once() {
    let scene = Scene::single().await;
    let emails: Vec<String> =
        ["a+b", "o'neil/x", "q?#", "ü"].map(|local| format!("zephyrine.{local}@example.test")).into();
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    scene.converges(&emails, &accepted).await;
    assert_eq!(scene.contacts().len(), emails.len());
    assert_eq!(scene.world.hubspot.stats().with_status(404), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_comes_back_with_escapes_is_our_mistake_and_never_not_found() {
    let scene = Scene::single().await;
    let emails = people("escaped", 1);
    let echo = json!({"status": "error", "category": "OBJECT_NOT_FOUND", "message": "Object not found",
                      "context": {"id": ["zephyrine%40example.test?properties=phone"]}});
    scene.strike("preferences.read", respond(404, &[], echo));
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    let seen = scene.seen(&accepted[0]).await;
    assert_eq!((seen.status.as_str(), seen.reason.as_deref()), ("dead", Some("id_encoded_wrongly")));
    scene.assert_discreet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_is_one_call_and_one_more_is_another() {
    let scene = Scene::new().await;
    for (count, calls) in [(100, 1), (101, 2)] {
        scene.world.hubspot.reset_stats();
        let emails = people(&format!("size{count}x"), count);
        let accepted = scene.subscribe(&emails).await;
        scene.world.step().await;
        for endpoint in &super::ENDPOINTS[..3] {
            assert_eq!(scene.world.hubspot.stats().calls(endpoint), calls, "{count}: {endpoint}");
        }
        assert_eq!(scene.world.hubspot.stats().with_status(400), 0);
        scene.converges(&emails, &accepted).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_to_write_is_no_call_and_settles_the_events() {
    let scene = Scene::new().await;
    let emails = people("nothing", 3);
    let accepted = scene.subscribe(&emails).await;
    scene.world.step().await;
    // As after a crash between the last call and the acknowledgement: everything has its receipt.
    scene.world.sql("update hubferry.outbox_events set status = 'pending', finished_at = null").await;
    scene.world.hubspot.reset_stats();
    scene.world.step().await;
    assert_eq!(scene.world.hubspot.stats().total, 0);
    scene.converges(&emails, &accepted).await;

    // Outdated by a newer decision before anybody looked: settled, and not a call for it.
    let outdated = scene.subscribe(&emails).await;
    let newer = scene.subscribe(&emails).await;
    scene.world.step().await;
    assert!(scene.all_seen(&outdated).await.iter().all(|seen| seen.status == "superseded"));
    assert!(scene.all_seen(&newer).await.iter().all(|seen| seen.status == "synced"));
    assert!(scene.world.hubspot.stats().calls("contacts.batch_upsert") <= 1);
}
