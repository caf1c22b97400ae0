//! Addresses that change, and addresses that others have.

use hubspot_simulator::SubscriptionState;

use super::{KEY, key_at, keyed, link_of, nothing_is_leased};
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn who_changes_to_an_address_that_hubspot_knows_becomes_that_record() {
    let world = World::new().await;
    world.accept(vec![keyed("user-1", "old@example.test", "subscribed")]).await;
    world.drain().await;
    let old = world.hubspot.contact_by_email("old@example.test").unwrap().id;
    let known =
        world.hubspot.seed_contact(&[("email", "new@example.test"), ("company", "Analytical Engines")]).unwrap();
    world.accept(vec![keyed("user-1", "new@example.test", "subscribed")]).await;
    let summary = world.drain().await;

    assert_eq!((summary.synced, summary.dead, summary.retried), (1, 0, 0), "{:?}", world.statuses().await);
    let record = world.hubspot.contact_by(KEY, "user-1").unwrap();
    assert_eq!((record.id, record.get("company")), (known, Some("Analytical Engines")));
    assert_eq!(link_of(&world, "user-1").await, Some(known.0));
    assert!(world.hubspot.list_members(101).contains(&known));
    assert_eq!(world.hubspot.status_of("new@example.test", 1001), SubscriptionState::Subscribed);
    let left = world.hubspot.contact_by_email("old@example.test").unwrap();
    assert_eq!((left.id, left.get(KEY)), (old, None), "it stays, without the key");

    world.accept(vec![keyed("user-1", "newest@example.test", "subscribed")]).await;
    world.drain().await;
    assert_eq!(world.hubspot.contact_by_email("newest@example.test").unwrap().id, known);
    nothing_is_leased(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_contacts_swap_addresses_in_one_batch_or_one_after_the_other() {
    for together in [true, false] {
        let world = World::new().await;
        world
            .accept(vec![
                keyed("user-1", "one@example.test", "subscribed"),
                keyed("user-2", "two@example.test", "subscribed"),
            ])
            .await;
        world.drain().await;
        let swapped =
            [keyed("user-1", "two@example.test", "subscribed"), keyed("user-2", "one@example.test", "unsubscribed")];
        if together {
            world.accept(swapped.to_vec()).await;
        } else {
            let [first, second] = swapped;
            world.accept(vec![first]).await;
            world.drain().await;
            world.accept(vec![second]).await;
        }
        let summary = world.drain().await;
        assert_eq!(summary.dead, 0, "{:?}", world.statuses().await);
        // Where it was not clear yet who has an address, the next decision settles it.
        world.accept(vec![keyed("user-1", "two@example.test", "subscribed")]).await;
        world.drain().await;

        assert_eq!(world.hubspot.contacts().len(), 2);
        for (key, email) in [("user-1", "two@example.test"), ("user-2", "one@example.test")] {
            let record = world.hubspot.contact_by_email(email).unwrap();
            assert_eq!(record.get(KEY), Some(key), "together: {together}");
            assert_eq!(record.get("firstname"), Some(key));
            assert_eq!(link_of(&world, key).await, Some(record.id.0));
        }
        assert_eq!(world.hubspot.status_of("one@example.test", 1001), SubscriptionState::Unsubscribed);
        assert_eq!(world.hubspot.status_of("two@example.test", 1001), SubscriptionState::Subscribed);
        nothing_is_leased(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_changes_to_the_address_of_another_contact_shares_its_record() {
    let world = World::new().await;
    world
        .accept(vec![
            keyed("user-1", "one@example.test", "subscribed"),
            keyed("user-2", "two@example.test", "subscribed"),
        ])
        .await;
    world.drain().await;
    let shared = world.hubspot.contact_by_email("one@example.test").unwrap().id;
    world.accept(vec![keyed("user-2", "one@example.test", "unsubscribed")]).await;
    let summary = world.drain().await;

    assert_eq!(summary.dead, 0, "{:?}", world.statuses().await);
    assert_eq!(key_at(&world, "one@example.test").as_deref(), Some("user-1"));
    assert_eq!(key_at(&world, "two@example.test"), None);
    for key in ["user-1", "user-2"] {
        assert_eq!(link_of(&world, key).await, Some(shared.0));
    }
    assert_eq!(world.hubspot.status_of("one@example.test", 1001), SubscriptionState::Unsubscribed);
    assert_eq!(world.hubspot.contacts().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_was_lost_is_found_by_the_key_even_under_a_new_address() {
    let world = World::new().await;
    world.accept(vec![keyed("user-1", "old@example.test", "subscribed")]).await;
    world.drain().await;
    world.sql("update hubferry.contact_links set record_id = null, linked_at = null").await;
    world.accept(vec![keyed("user-1", "new@example.test", "subscribed")]).await;
    let summary = world.drain().await;

    assert_eq!((summary.synced, summary.retried), (1, 0), "{:?}", world.statuses().await);
    assert_eq!(world.hubspot.contacts().len(), 1);
    assert_eq!(key_at(&world, "new@example.test").as_deref(), Some("user-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn key_and_address_on_two_records_come_together_on_the_one_with_the_address() {
    let world = World::new().await;
    world.accept(vec![keyed("user-1", "old@example.test", "subscribed")]).await;
    world.drain().await;
    world.sql("update hubferry.contact_links set record_id = null, linked_at = null").await;
    let known = world.hubspot.seed_contact(&[("email", "new@example.test")]).unwrap();
    world.accept(vec![keyed("user-1", "new@example.test", "subscribed")]).await;
    let summary = world.drain().await;

    assert_eq!(summary.dead, 0, "{:?}", world.statuses().await);
    assert_eq!(world.hubspot.contact_by(KEY, "user-1").unwrap().id, known);
    assert_eq!(link_of(&world, "user-1").await, Some(known.0));
}
