//! What HubSpot reported about a contact goes with it.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{erase, erasures, occurrences, subscribed, synced};
use crate::world::World;

/// A word that is in what was reported about the contact, and nowhere else.
pub(super) const SECRET: &str = "zephyrine";

/// A word that is in what was reported about another.
pub(super) const OTHER: &str = "quillon";

/// The record of the contact with this address.
pub(super) fn record_of(world: &World, email: &str) -> u64 {
    world.hubspot.contact_by_email(email).unwrap().id.0
}

/// A change of a record; the same number makes it the same notification.
pub(super) fn change(world: &World, record: u64, value: &str, number: i64) -> Value {
    json!({
        "eventId": number, "portalId": world.portal.0, "appId": 9001, "occurredAt": 1_790_000_000_000_i64 + number,
        "subscriptionType": "contact.propertyChange", "attemptNumber": 0, "objectId": record, "changeSource": "CRM_UI",
        "propertyName": "lastname", "propertyValue": value,
    })
}

/// Tables and bodies that hold a secret.
pub(super) async fn holders(world: &World, secret: &str) -> Vec<String> {
    let mut found: Vec<String> = occurrences(world, secret).await.into_iter().map(|(table, _)| table).collect();
    let connection = world.db.connection().await.unwrap();
    let sql = "select count(*) from hubferry.webhook_deliveries where position(convert_to($1, 'UTF8') in body) > 0";
    if connection.query_one(sql, &[&secret]).await.unwrap().get::<_, i64>(0) > 0 {
        found.push("bodies".into());
    }
    found
}

pub(super) async fn has_body(world: &World, delivery: Uuid) -> bool {
    let connection = world.db.connection().await.unwrap();
    let sql = "select body is not null from hubferry.webhook_deliveries where delivery_id = $1";
    connection.query_one(sql, &[&delivery]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_hubspot_reported_is_left_in_any_table_and_what_is_reported_late_is_not_kept() {
    let world = World::new().await;
    subscribed(&world, "user-1", "ada@example.test").await;
    subscribed(&world, "user-2", "bob@example.test").await;
    let (ada, bob) = (record_of(&world, "ada@example.test"), record_of(&world, "bob@example.test"));
    let first = change(&world, ada, SECRET, 1);
    world.store_delivery(&[first.clone(), change(&world, bob, OTHER, 2)]).await;
    // The first notification comes again: this delivery has no row for it, and its body holds it all the same.
    let (repeat, _) = world.store_delivery(&[first, change(&world, bob, OTHER, 3)]).await;
    let (bobs, _) = world.store_delivery(&[change(&world, bob, OTHER, 4)]).await;
    world.drain().await;
    // What a rule made of it, with a value in it.
    world
        .sql(&format!(
            "insert into hubferry.outbox_events (event_id, kind, portal_id, lane, payload)
             select gen_random_uuid(), 'effect.mail', portal_id, 'effects',
                    jsonb_build_object('notification', encode(notification_key, 'hex'), 'payload', '{SECRET}')
             from hubferry.webhook_events where property_value = '{SECRET}'"
        ))
        .await;
    // Reported, and not applied yet.
    world.store_delivery(&[change(&world, ada, SECRET, 5)]).await;
    assert_eq!(
        holders(&world, SECRET).await,
        ["crm_values", "outbox_events", "webhook_events", "bodies"],
        "the search finds what is there"
    );

    erase(&world, "user-1").await;
    world.drain().await;
    assert_eq!(erasures(&world, "user-1").await, synced());
    assert_eq!(holders(&world, SECRET).await, Vec::<String>::new());
    assert_eq!(holders(&world, OTHER).await, ["crm_values", "webhook_events", "bodies"], "others keep theirs");
    assert_eq!((has_body(&world, repeat).await, has_body(&world, bobs).await), (false, true));

    world.store_delivery(&[change(&world, ada, SECRET, 6)]).await;
    world.drain().await;
    assert_eq!(holders(&world, SECRET).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_reported_about_a_record_that_stays_stays_too() {
    let world = World::new().await;
    subscribed(&world, "user-1", "ada@example.test").await;
    subscribed(&world, "user-2", "ada@example.test").await;
    world.store_delivery(&[change(&world, record_of(&world, "ada@example.test"), OTHER, 1)]).await;
    world.drain().await;
    erase(&world, "user-1").await;
    world.drain().await;
    assert_eq!(erasures(&world, "user-1").await, super::kept());
    assert_eq!(holders(&world, OTHER).await, ["crm_values", "webhook_events", "bodies"]);
}
