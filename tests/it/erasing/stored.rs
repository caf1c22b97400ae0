//! What is left of an erased contact here.

use serde_json::json;

use super::{erase, erasures, keyed, occurrences, subscribed, synced};
use crate::world::{World, with};

/// Part of the addresses, names and consents of these tests, and of nothing else.
const SECRET: &str = "zephyrine";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_personal_is_left_in_any_table_once_hubspot_was_told() {
    let world = World::new().await;
    let consent =
        json!({"legal_basis": "CONSENT_WITH_NOTICE", "explanation": format!("{SECRET} said so on the phone")});
    let personal = |product: &str, state: &str| {
        let contact =
            json!({"key": "user-1", "email": format!("{SECRET}@example.test"), "properties": {"firstname": SECRET}});
        with(
            keyed("user-1", "", state),
            json!({"contact": contact, "consent": consent, "product": product, "lane": "interactive"}),
        )
    };
    world.accept(vec![personal("newsletter", "subscribed"), personal("events", "unsubscribed")]).await;
    world.drain().await;
    world.accept(vec![personal("newsletter", "unsubscribed"), personal("newsletter", "subscribed")]).await;
    world.dispatcher.run_once().await.unwrap();
    world.accept(vec![personal("events", "subscribed")]).await;
    assert!(occurrences(&world, SECRET).await.len() >= 2, "the search finds what is there");

    erase(&world, "user-1").await;
    // One event is with a dispatcher's queue, and the erasure has the address until HubSpot was told.
    assert_eq!(
        occurrences(&world, SECRET).await.iter().map(|(table, _)| table.as_str()).collect::<Vec<_>>(),
        ["outbox_events"]
    );
    world.drain().await;
    assert_eq!(erasures(&world, "user-1").await, synced());
    assert_eq!(occurrences(&world, SECRET).await, []);
    let connection = world.db.connection().await.unwrap();
    let sql = "select (select count(*) from hubferry.operation_receipts),
                      (select count(*) from hubferry.subscription_requests where request_hash <> hubferry.erased_hash())";
    let row = connection.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (0, 0), "hashes of values are left");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_leaves_before_the_erasure_is_finished_is_done_once_more() {
    let world = World::new().await;
    subscribed(&world, "user-1", "ada@example.test").await;
    erase(&world, "user-1").await;
    world.drain().await;
    // As if the worker had died after HubSpot was told and all was wiped, before its finish.
    world
        .sql("update hubferry.outbox_events set status = 'retry', finished_at = null where contact_key = 'user-1'")
        .await;
    let summary = world.drain().await;
    assert_eq!((summary.synced, summary.calls), (1, 1), "the key is looked for, and nothing else is known");
    assert_eq!(erasures(&world, "user-1").await, synced());
}

#[tokio::test(flavor = "multi_thread")]
async fn erasing_twice_is_the_same_answer() {
    let world = World::new().await;
    subscribed(&world, "user-1", "ada@example.test").await;
    let first = erase(&world, "user-1").await;
    let second = erase(&world, "user-1").await;
    assert_eq!((first.replayed, second.replayed), (false, true));
    assert_eq!((first.erased_at, &first.events), (second.erased_at, &second.events));
    world.drain().await;
    let third = erase(&world, "user-1").await;
    assert_eq!((third.replayed, third.events[0].status.as_str()), (true, "synced"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_in_a_transaction_that_is_rolled_back_never_happened() {
    let world = World::new().await;
    subscribed(&world, "user-1", "ada@example.test").await;
    world.sql("begin; select hubferry.erase_contact('user-1'); rollback").await;
    assert_eq!(erasures(&world, "user-1").await, []);
    assert!(!occurrences(&world, "ada@example.test").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_key_is_refused_and_its_address_may_come_again() {
    let world = World::new().await;
    let first = keyed("user-1", "ada@example.test", "subscribed");
    world.accept(vec![first.clone()]).await;
    erase(&world, "user-1").await;
    world.drain().await;
    let connection = world.db.connection().await.unwrap();
    let mut without_key = keyed("", "ada@example.test", "subscribed");
    without_key["contact"].as_object_mut().unwrap().remove("key");
    // A repeat of what was accepted before must not make a contact either.
    let requests = json!([first, keyed("user-1", "ada@example.test", "subscribed"), without_key]);
    let answers = hubferry::adapters::db::accept_subscriptions(&*connection, &requests, None).await.unwrap();
    let codes: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().map(|_| ()).map_err(|fault| fault.code.as_str())).collect();
    assert_eq!(codes, [Err("contact_erased"), Err("contact_erased"), Ok(())]);
    let sql = "select count(*), count(*) filter (where erased_at is not null) from hubferry.contacts";
    let row = connection.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (2, 1));
    drop(connection);
    world.drain().await;
    assert_eq!(world.hubspot.contacts().len(), 1, "HubSpot never knew the first one, so it takes the second");
}
