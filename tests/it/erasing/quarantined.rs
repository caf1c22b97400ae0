//! What could not be read of HubSpot's reports goes with the contact that it names.

use serde_json::{Value, json};
use uuid::Uuid;

use super::reported::{OTHER, SECRET, change, has_body, holders, record_of};
use super::{erase, erasures, keyed, subscribed, synced};
use crate::world::{World, with};

const ADA: &str = "ada@example.test";
const BOB: &str = "bob@example.test";

/// A notification that names no record, so that it is quarantined, with this text in it.
fn unread(world: &World, text: &str, number: i64) -> Value {
    let mut note = change(world, 1, text, number);
    note.as_object_mut().unwrap().remove("objectId");
    note
}

/// A delivery of which nothing could be read.
async fn unreadable(world: &World, reason: &str, body: &[u8]) -> Uuid {
    let delivery = Uuid::new_v4();
    let connection = world.db.connection().await.unwrap();
    let sql = "insert into hubferry.webhook_deliveries (delivery_id, headers, body, body_bytes, secret, signature_version, notifications,
                                                        fresh, unreadable)
               values ($1, '{}', $2, 0, 'current', 'v3', 0, 0, $3)";
    connection.execute(sql, &[&delivery, &body, &reason]).await.unwrap();
    delivery
}

async fn quarantined(world: &World) -> i64 {
    let connection = world.db.connection().await.unwrap();
    let sql = "select count(*) from hubferry.webhook_events where state = 'quarantined'";
    connection.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn json_that_could_not_be_read_goes_if_it_names_the_contacts_record_or_address_and_else_stays() {
    let world = World::new().await;
    subscribed(&world, "user-1", ADA).await;
    subscribed(&world, "user-2", BOB).await;
    let ada = record_of(&world, ADA);
    let no_time = json!({"occurredAt": "soon"});
    let theirs = [
        unread(&world, &format!("{SECRET} <ADA@Example.test>"), 1),
        with(change(&world, ada, SECRET, 2), no_time.clone()),
        with(unread(&world, &format!("{SECRET} {ADA}"), 3), json!({"portalId": "?"})),
    ];
    world.store_delivery(&theirs).await;
    let others = [
        unread(&world, &format!("{OTHER} {BOB}"), 4),
        // Another record, whose number holds hers.
        with(change(&world, ada * 10, OTHER, 5), no_time),
    ];
    let (kept, _) = world.store_delivery(&others).await;
    world.drain().await;
    assert_eq!(quarantined(&world).await, 5);
    assert_eq!(holders(&world, SECRET).await, ["webhook_events", "bodies"], "the search finds what is there");

    erase(&world, "user-1").await;
    world.drain().await;
    assert_eq!(erasures(&world, "user-1").await, synced());
    assert_eq!(holders(&world, SECRET).await, Vec::<String>::new());
    assert_eq!(holders(&world, OTHER).await, ["webhook_events", "bodies"]);
    assert!(has_body(&world, kept).await);
    assert_eq!(quarantined(&world).await, 5, "that there was something stays known");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_she_had_before_is_searched_for_too() {
    let world = World::new().await;
    subscribed(&world, "user-1", ADA).await;
    let earlier =
        with(change(&world, record_of(&world, ADA), "Ada@Old.example.test", 1), json!({"propertyName": "email"}));
    world.store_delivery(&[earlier]).await;
    world.store_delivery(&[unread(&world, &format!("{SECRET} ada@old.example.test"), 2)]).await;
    world.drain().await;
    erase(&world, "user-1").await;
    world.drain().await;
    assert_eq!(holders(&world, SECRET).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_could_not_be_read_goes_if_it_names_the_contact_or_can_t_be_searched() {
    let world = World::new().await;
    subscribed(&world, "user-1", ADA).await;
    let ada = record_of(&world, ADA);
    let mut gone = Vec::new();
    for body in [format!("[{{\"objectId\":{ada},"), "<ADA\\u0040example.test>".into(), format!("x={ADA}")] {
        gone.push(unreadable(&world, "not_json", body.as_bytes()).await);
    }
    gone.push(unreadable(&world, "not_text", b"\x1f\x8b\x08\x00\xff").await);
    let kept = unreadable(&world, "not_json", b"<html>bob@example.test").await;
    erase(&world, "user-1").await;
    world.drain().await;
    for delivery in gone {
        assert!(!has_body(&world, delivery).await);
    }
    assert!(has_body(&world, kept).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_goes_too_for_a_contact_that_hubspot_deleted_for_privacy_and_for_one_that_it_never_knew() {
    let world = World::new().await;
    subscribed(&world, "user-1", ADA).await;
    let deletion =
        with(change(&world, record_of(&world, ADA), "", 1), json!({"subscriptionType": "contact.privacyDeletion"}));
    world.store_delivery(&[unread(&world, &format!("{SECRET} {ADA}"), 2)]).await;
    world.store_delivery(&[deletion]).await;
    world.drain().await;
    assert_eq!(holders(&world, SECRET).await, Vec::<String>::new());

    world.accept(vec![keyed("user-2", BOB, "subscribed")]).await;
    world.store_delivery(&[unread(&world, &format!("{SECRET} {BOB}"), 3)]).await;
    erase(&world, "user-2").await;
    world.drain().await;
    assert_eq!(holders(&world, SECRET).await, Vec::<String>::new());
}

/// Both searches by their indexes, whatever else is stored.
#[tokio::test(flavor = "multi_thread")]
async fn the_search_looks_at_what_could_not_be_read_and_at_nothing_else() {
    let world = World::new().await;
    let notes: Vec<Value> = (0..3000).map(|n| change(&world, 77, OTHER, n)).collect();
    for notes in notes.chunks(100) {
        world.store_delivery(notes).await;
    }
    world.sql("analyze hubferry.webhook_events; analyze hubferry.webhook_deliveries").await;
    let session = hubferry::adapters::db::Db::new(&world.database.url.clone().into(), 1).unwrap();
    let before = world.rows_read_by_scans(&session).await;
    let erasing = session.connection().await.unwrap();
    let sql = "select hubferry.wipe_reports($1, '{99}', array['ada@example.test'])";
    erasing.execute(sql, &[&world.portal.0]).await.unwrap();
    drop(erasing);
    let read = world.rows_read_by_scans(&session).await - before;
    assert!(read < 500, "{read} rows were read by scans");
}
