//! Several contacts of ours that are one record in HubSpot.

use hubspot_simulator::{Action, Fault, SubscriptionState};
use serde_json::json;

use super::{KEY, key_at, keyed, link_of, nothing_is_leased};
use crate::world::{World, newsletter_targets, request, with};

/// Every key that the record's unique property held after each step.
async fn keys_after(world: &World, steps: Vec<serde_json::Value>) -> Vec<Option<String>> {
    let mut keys = Vec::new();
    for step in steps {
        world.accept(vec![step]).await;
        world.drain().await;
        keys.push(key_at(world, "ada@example.test"));
    }
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_contacts_with_one_address_the_older_one_keeps_its_key_on_the_record() {
    let world = World::new().await;
    let step = |key| keyed(key, "ada@example.test", "subscribed");
    let keys = keys_after(&world, vec![step("user-9"), step("user-1"), step("user-9"), step("user-1")]).await;

    assert!(keys.iter().all(|key| key.as_deref() == Some("user-9")), "{keys:?}");
    assert_eq!(world.hubspot.contacts().len(), 1);
    assert_eq!(link_of(&world, "user-1").await, link_of(&world, "user-9").await);
    nothing_is_leased(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_the_application_comes_before_one_of_ours() {
    let world = World::new().await;
    let nameless = request("ada@example.test", "subscribed");
    let keys = keys_after(&world, vec![nameless, keyed("user-1", "ada@example.test", "subscribed")]).await;

    assert_ne!(keys[0], keys[1]);
    assert_eq!(keys[1].as_deref(), Some("user-1"));
    assert_eq!(world.hubspot.contacts().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_contacts_with_one_address_are_written_together_in_one_batch() {
    let world = World::new().await;
    let accepted = world
        .accept(vec![
            keyed("user-1", "ada@example.test", "subscribed"),
            keyed("user-2", "ada@example.test", "unsubscribed"),
        ])
        .await;
    let summary = world.drain().await;

    assert_eq!((summary.synced, summary.retried, summary.snoozed), (2, 0, 0), "{:?}", world.statuses().await);
    assert_eq!(world.status_of(&accepted[0]).await.0, "synced");
    assert_eq!(key_at(&world, "ada@example.test").as_deref(), Some("user-1"));
    assert_eq!(link_of(&world, "user-1").await, link_of(&world, "user-2").await);
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Unsubscribed);
    assert!(world.hubspot.list_members(101).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_decision_that_comes_late_does_not_undo_the_other_contacts_newer_one() {
    for (older, newer) in [("unsubscribed", "subscribed"), ("subscribed", "unsubscribed")] {
        let world = World::new().await;
        world.accept(vec![keyed("user-1", "ada@example.test", older)]).await;
        world.sql("update hubferry.outbox_events set next_attempt_at = clock_timestamp() + interval '1 day'").await;
        world.accept(vec![keyed("user-2", "ada@example.test", newer)]).await;
        world.step().await;
        world.drain().await;

        let expected =
            if newer == "subscribed" { SubscriptionState::Subscribed } else { SubscriptionState::Unsubscribed };
        assert_eq!(world.hubspot.status_of("ada@example.test", 1001), expected);
        assert_eq!(world.hubspot.list_members(101).len(), usize::from(newer == "subscribed"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opt_out_of_one_contact_is_our_own_for_the_other() {
    let world = World::new().await;
    let old = json!({"consent": {"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "form", "given_at": "2024-01-01T00:00:00Z"}});
    world.accept(vec![keyed("user-1", "ada@example.test", "unsubscribed")]).await;
    world.drain().await;
    world.accept(vec![with(keyed("user-2", "ada@example.test", "subscribed"), old)]).await;
    world.drain().await;

    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Subscribed);
}

/// A record with two addresses, which a person made; the first is user-1's.
async fn two_addresses(world: &World) {
    world
        .hubspot
        .seed_contact(&[("email", "ada@example.test"), ("hs_additional_emails", "second@example.test")])
        .unwrap();
    world.accept(vec![keyed("user-1", "ada@example.test", "subscribed")]).await;
    world.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contact_with_the_second_address_of_a_record_leaves_key_and_address_to_the_first() {
    let world = World::new().await;
    two_addresses(&world).await;
    for _ in 0..2 {
        world.accept(vec![keyed("user-2", "second@example.test", "subscribed")]).await;
        let summary = world.drain().await;
        assert_eq!((summary.dead, summary.retried), (0, 0), "{:?}", world.statuses().await);

        let record = &world.hubspot.contacts()[0];
        assert_eq!(world.hubspot.contacts().len(), 1);
        assert_eq!((record.get(KEY), record.get("email")), (Some("user-1"), Some("ada@example.test")));
        assert_eq!(record.get("firstname"), Some("user-2"));
        assert_eq!(link_of(&world, "user-2").await, Some(record.id.0));
    }
    world.accept(vec![keyed("user-1", "ada@example.test", "subscribed")]).await;
    assert_eq!(world.drain().await.synced, 1);
    assert_eq!(world.hubspot.contacts()[0].get(KEY), Some("user-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contact_with_a_bad_value_that_finds_somebody_on_its_record_leaves_key_and_address_to_it_all_the_same() {
    let world = World::new().await;
    two_addresses(&world).await;
    let mut targets = newsletter_targets();
    targets["contact_properties"]["birthday"] = json!({"property": "born", "type": "date"});
    world.map("newsletter", targets).await;
    let contact = json!({"key": "user-2", "email": "second@example.test", "properties": {"born": "unknown"}});
    let accepted = world.accept(vec![with(keyed("user-2", "", "subscribed"), json!({"contact": contact}))]).await;
    world.drain().await;

    assert_eq!(world.status_of(&accepted[0]).await, ("dead".to_owned(), Some("invalid_date".to_owned())));
    let record = &world.hubspot.contacts()[0];
    assert_eq!((record.get(KEY), record.get("email")), (Some("user-1"), Some("ada@example.test")));
    assert_eq!(link_of(&world, "user-2").await, Some(record.id.0));
    nothing_is_leased(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_address_that_hubspot_refuses_as_taken_leads_to_its_record() {
    let world = World::new().await;
    two_addresses(&world).await;
    let id = world.hubspot.contact_by_email("ada@example.test").unwrap().id;
    for (round, message) in
        [format!("Contact already exists. Existing ID: {id}"), "Contact already exists.".into()].into_iter().enumerate()
    {
        let refusal = json!({"status": "error", "category": "CONFLICT", "message": message});
        world.hubspot.add_fault(
            Fault::next(1, Action::respond(409, refusal))
                .on_endpoint("contacts.batch_upsert")
                .on_body("second@example.test"),
        );
        world.accept(vec![keyed(&format!("user-{}", round + 2), "second@example.test", "subscribed")]).await;
        let summary = world.drain().await;
        assert_eq!((summary.synced, summary.dead, summary.retried), (1, 0, 0), "{:?}", world.statuses().await);
        assert_eq!(link_of(&world, &format!("user-{}", round + 2)).await, Some(id.0));
        world.hubspot.clear_faults();
    }
    assert_eq!(world.hubspot.contacts().len(), 1);
    assert_eq!(key_at(&world, "ada@example.test").as_deref(), Some("user-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_changes_its_address_gets_a_record_of_its_own() {
    let world = World::new().await;
    two_addresses(&world).await;
    world.accept(vec![keyed("user-2", "second@example.test", "subscribed")]).await;
    world.drain().await;
    world.accept(vec![keyed("user-2", "third@example.test", "subscribed")]).await;
    world.drain().await;

    assert_eq!(world.hubspot.contacts().len(), 2);
    assert_eq!(key_at(&world, "third@example.test").as_deref(), Some("user-2"));
    assert_eq!(key_at(&world, "ada@example.test").as_deref(), Some("user-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_holds_one_contact_of_a_record_holds_up_the_others() {
    let world = World::new().await;
    world.accept(vec![keyed("user-1", "ada@example.test", "subscribed")]).await;
    world.drain().await;
    let first = world.accept(vec![keyed("user-1", "ada@example.test", "subscribed")]).await;
    let second = world.accept(vec![keyed("user-2", "ada@example.test", "subscribed")]).await;
    world.dispatcher.run_once().await.unwrap();
    let connection = world.db.connection().await.unwrap();
    let claim = async |event: uuid::Uuid| {
        let token = hubferry::model::ids::LeaseToken(uuid::Uuid::new_v4());
        let second = std::time::Duration::from_secs(1);
        let events = [hubferry::model::ids::EventId(event)];
        hubferry::adapters::db::claim_batch(&*connection, &events, token, second * 25, (second, second)).await.unwrap()
    };
    assert_eq!(claim(first[0].event_id).await.portals.len(), 1);
    assert_eq!(claim(second[0].event_id).await.busy, 1);
}
