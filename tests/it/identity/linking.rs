//! The first write, and records that are merged or deleted.

use hubspot_simulator::{Action, Fault, SubscriptionState};
use serde_json::json;

use super::{KEY, key_at, keyed, link_of, nothing_is_leased};
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_contact_that_hubspot_has_is_taken_over_with_all_it_holds() {
    let world = World::new().await;
    let seeded =
        world.hubspot.seed_contact(&[("email", "ada@example.test"), ("company", "Analytical Engines")]).unwrap();
    world.accept(vec![keyed("user-1", "ada@example.test", "subscribed")]).await;
    world.drain().await;

    let contact = world.hubspot.contact_by(KEY, "user-1").unwrap();
    assert_eq!((contact.id, contact.get("company")), (seeded, Some("Analytical Engines")));
    assert_eq!(contact.get("firstname"), Some("user-1"));
    assert_eq!(world.hubspot.contacts().len(), 1);
}

/// Two records merged into one: the survivor has the first one's key and both addresses.
async fn merged(world: &World) {
    world
        .accept(vec![
            keyed("user-1", "one@example.test", "subscribed"),
            keyed("user-2", "two@example.test", "subscribed"),
        ])
        .await;
    world.drain().await;
    let id = |email| world.hubspot.contact_by_email(email).unwrap().id;
    world.hubspot.merge(id("one@example.test"), id("two@example.test")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn merged_contacts_go_on_as_one_record_under_the_older_ones_key() {
    for first in ["user-1", "user-2"] {
        let world = World::new().await;
        merged(&world).await;
        let second = if first == "user-1" { "user-2" } else { "user-1" };
        for key in [first, second] {
            let email = if key == "user-1" { "one@example.test" } else { "two@example.test" };
            world.accept(vec![keyed(key, email, "unsubscribed")]).await;
            let summary = world.drain().await;
            assert_eq!(summary.dead, 0, "{:?}", world.statuses().await);
        }

        let survivor = &world.hubspot.contacts()[0];
        assert_eq!(world.hubspot.contacts().len(), 1);
        assert_eq!((survivor.get(KEY), survivor.get("email")), (Some("user-1"), Some("one@example.test")));
        assert!(world.hubspot.list_members(101).is_empty());
        for key in ["user-1", "user-2"] {
            assert_eq!(link_of(&world, key).await, Some(survivor.id.0), "{key}, {first} first");
        }
        for email in ["one@example.test", "two@example.test"] {
            assert_eq!(world.hubspot.status_of(email, 1001), SubscriptionState::Unsubscribed);
        }
        nothing_is_leased(&world).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_misses_the_record_leads_to_the_one_it_was_merged_into() {
    let world = World::new().await;
    let both = [("user-1", "one@example.test"), ("user-2", "two@example.test")];
    world.accept(both.map(|(key, email)| keyed(key, email, "unsubscribed")).to_vec()).await;
    world.drain().await;
    world.accept(vec![keyed("user-2", "two@example.test", "subscribed")]).await;
    world.hubspot.add_fault(Fault::next(1, Action::respond(503, json!({}))).on_path("/lists/"));
    world.step().await;
    // The contact is written, only its list is left to do: with the id of a record that is merged away now.
    let [one, two] = both.map(|(_, email)| world.hubspot.contact_by_email(email).unwrap().id);
    world.hubspot.merge(one, two).unwrap();
    world.make_due().await;
    let summary = world.drain().await;

    assert_eq!((summary.synced, summary.dead), (1, 0), "{:?}", world.statuses().await);
    let survivor = world.hubspot.contact_by_email("two@example.test").unwrap();
    assert_eq!(link_of(&world, "user-2").await, Some(survivor.id.0));
    assert!(world.hubspot.list_members(101).contains(&survivor.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_contact_is_made_again_by_the_next_decision() {
    let world = World::new().await;
    world.accept(vec![keyed("user-1", "ada@example.test", "subscribed")]).await;
    world.drain().await;
    let deleted = world.hubspot.contact_by_email("ada@example.test").unwrap().id;
    world.hubspot.delete(deleted).unwrap();
    world.accept(vec![keyed("user-1", "ada@example.test", "subscribed")]).await;
    world.drain().await;

    let contact = world.hubspot.contact_by(KEY, "user-1").unwrap();
    assert_ne!(contact.id, deleted);
    assert_eq!(link_of(&world, "user-1").await, Some(contact.id.0));
    assert!(world.hubspot.list_members(101).contains(&contact.id));
    assert_eq!(key_at(&world, "ada@example.test").as_deref(), Some("user-1"));
}
