//! The main job: what was accepted is what HubSpot holds.

use hubferry::model::plan::WriteMode;
use hubspot_simulator::{Action, Fault, SubscriptionState};
use serde_json::json;

use crate::world::{World, WorldConfig, request, with};

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_reaches_hubspot() {
    let world = World::new().await;
    let accepted =
        world.accept(vec![with(request("ada@example.test", "subscribed"), json!({"lane": "interactive"}))]).await;

    let summary = world.drain().await;

    assert_eq!(summary.synced, 1, "{:?}", world.statuses().await);
    assert_eq!(world.status_of(&accepted[0]).await, ("synced".into(), None));
    let contact = world.hubspot.contact_by_email("ada@example.test").unwrap();
    assert_eq!(contact.get("firstname"), Some("Ada"));
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Subscribed);
    assert!(world.hubspot.list_members(101).contains(&contact.id));
    assert_eq!(summary.calls, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_takes_the_contact_out_of_status_and_segment() {
    let world = World::new().await;
    world.accept(vec![request("ada@example.test", "subscribed")]).await;
    world.drain().await;
    world.accept(vec![request("ada@example.test", "unsubscribed")]).await;
    world.drain().await;

    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Unsubscribed);
    assert!(world.hubspot.list_members(101).is_empty());
    assert_eq!(world.hubspot.contacts().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_state_is_superseded_without_a_call() {
    let world = World::new().await;
    let accepted = world
        .accept(vec![request("ada@example.test", "subscribed"), request("ada@example.test", "unsubscribed")])
        .await;
    world.drain().await;

    assert_eq!(world.status_of(&accepted[0]).await.0, "superseded");
    assert_eq!(world.status_of(&accepted[1]).await.0, "synced");
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Unsubscribed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_address_changes_the_contact_instead_of_making_another() {
    let world = World::new().await;
    let keyed = |email: &str| {
        with(request(email, "subscribed"), json!({"contact": {"key": "user-1", "email": email, "properties": {}}}))
    };
    world.accept(vec![keyed("old@example.test")]).await;
    world.drain().await;
    world.accept(vec![keyed("new@example.test")]).await;
    world.drain().await;

    assert_eq!(world.hubspot.contacts().len(), 1);
    assert!(world.hubspot.contact_by_email("new@example.test").is_some());
    assert_eq!(
        world.hubspot.contact_by("hubferry_contact_key", "user-1").unwrap().get("email"),
        Some("new@example.test")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_without_batch_endpoints_is_written_one_contact_a_call() {
    let world = World::with(WorldConfig { write_mode: WriteMode::Single, ..WorldConfig::default() }).await;
    let people: Vec<_> = (0..30).map(|n| request(&format!("p{n}@example.test"), "subscribed")).collect();
    world.accept(people).await;
    let summary = world.drain().await;

    assert_eq!(summary.synced, 30, "{:?}", world.statuses().await);
    assert_eq!(world.hubspot.status_of("p7@example.test", 1001), SubscriptionState::Subscribed);
    assert_eq!(world.hubspot.stats().answered_429, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_contacts_cost_at_most_five_calls_a_hundred_events() {
    let world = World::new().await;
    let people: Vec<_> = (0..1000).map(|n| request(&format!("p{n}@example.test"), "subscribed")).collect();
    world.accept(people).await;
    let summary = world.drain().await;

    assert_eq!(summary.synced, 1000, "{:?}", world.statuses().await);
    assert!(summary.calls <= 50, "{} calls", summary.calls);
    assert_eq!(world.hubspot.list_members(101).len(), 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_may_be_called_in_a_version_of_its_own() {
    let world = World::new().await;
    world.hubspot.add_fault(Fault::always(Action::respond(500, json!({}))).on_path("/2026-09/"));
    world.sql("update hubferry.portals set api_version = '2026-03'").await;
    world.accept(vec![request("ada@example.test", "subscribed")]).await;
    let summary = world.drain().await;

    assert_eq!((summary.synced, summary.retried), (1, 0), "{:?}", world.statuses().await);
}
