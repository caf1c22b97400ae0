//! Records that became one.

use serde_json::json;

use super::{Crm, T};

/// Nothing is read, so that what is owed can be looked at.
async fn unread() -> Crm {
    let crm = Crm::new().await;
    crm.world.sql("update hubferry.portals set mode = 'off'").await;
    crm
}

#[tokio::test(flavor = "multi_thread")]
async fn links_of_every_merged_record_lead_to_the_survivor_and_a_late_deletion_changes_nothing() {
    let crm = Crm::new().await;
    for (key, record) in [("user-0", 90_210), ("user-1", 90_211), ("user-2", 90_212)] {
        crm.linked(key, record).await;
    }
    let merge = crm.merge(&[90_210, 90_211, 90_212], 90_300, T);
    let deletion = crm.note("deletion", T - 1000, json!({"objectId": 90_211, "changeFlag": "DELETED"}));
    crm.deliver(&[merge, deletion]).await;
    crm.deliver(&[crm.note("deletion", T + 1000, json!({"objectId": 90_212}))]).await;
    for key in ["user-0", "user-1", "user-2"] {
        assert_eq!(crm.link(key).await, Some(90_300), "{key}");
    }
    assert_eq!(crm.settled().await, ["superseded:merged", "applied", "superseded:merged"]);
    assert_eq!(crm.count("contacts where erased_at is not null").await, 0);
    let roots = crm
        .ask(&format!(
            "select hubferry.crm_root({}, 'contact', id) from unnest(array[90210, 90211, 90212]) as id",
            crm.world.portal.0
        ))
        .await;
    assert!(roots.iter().all(|row| row.get::<_, i64>(0) == 90_300));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_came_before_its_merge_loses_no_contact() {
    let crm = Crm::new().await;
    crm.linked("user-1", 90_211).await;
    crm.deliver(&[crm.note("deletion", T - 1000, json!({"objectId": 90_211}))]).await;
    assert_eq!(crm.link("user-1").await, None);
    crm.deliver(&[crm.merge(&[90_210, 90_211], 90_300, T)]).await;
    assert_eq!(crm.link("user-1").await, Some(90_300));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_survivor_is_named_by_the_new_id_else_by_the_primary_one() {
    let crm = Crm::new().await;
    crm.linked("user-1", 90_211).await;
    crm.deliver(&[crm.note(
        "merge",
        T,
        json!({"objectId": 90_210, "primaryObjectId": 90_210, "mergedObjectIds": [90_211]}),
    )])
    .await;
    assert_eq!(crm.link("user-1").await, Some(90_210));
    crm.linked("user-2", 1_002).await;
    crm.deliver(&[crm.note("merge", T, json!({"objectId": 1_001, "mergedObjectIds": [1_002]}))]).await;
    assert_eq!(crm.link("user-2").await, Some(1_001));
}

#[tokio::test(flavor = "multi_thread")]
async fn merges_over_two_hops_come_to_the_same_in_every_order() {
    let orders = [[0, 1, 2, 3], [1, 0, 2, 3], [3, 1, 2, 0], [2, 3, 0, 1], [3, 2, 1, 0], [1, 3, 0, 2]];
    for order in orders {
        for together in [false, true] {
            let crm = unread().await;
            crm.linked("user-1", 1).await;
            crm.linked("user-3", 3).await;
            let notes = [
                crm.merge(&[1, 2], 10, T + 10),
                crm.merge(&[10, 3], 20, T + 20),
                crm.change_of(1, "city", "Utrecht", T + 5),
                crm.change_of(3, "city", "Delft", T + 6),
            ];
            let turned: Vec<_> = order.iter().map(|place| notes[*place].clone()).collect();
            for batch in turned.chunks(if together { 4 } else { 1 }) {
                let event = crm.receive(batch).await.expect("an event");
                crm.work(&[event]).await;
            }
            assert_eq!(
                (crm.link("user-1").await, crm.link("user-3").await),
                (Some(20), Some(20)),
                "{order:?} {together}"
            );
            assert_eq!(crm.value_of(20, "city").await, Some((Some("Delft".into()), true)), "{order:?} {together}");
            assert_eq!(crm.count("crm_values").await, 1);
            assert_eq!(crm.count("crm_records where read_event_id is not null").await, 1, "{order:?} {together}");
            assert_eq!(
                crm.count("webhook_events where changed and occurred_at >= to_timestamp(1790000000.010)").await,
                0
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn associations_move_along() {
    let crm = Crm::new().await;
    let word = |from: i64, at: i64| {
        crm.note(
            "associationChange",
            at,
            json!({
                "objectId": null, "associationType": "CONTACT_TO_COMPANY", "fromObjectId": from, "toObjectId": 555,
            }),
        )
    };
    crm.deliver(&[word(1, T), word(2, T + 1)]).await;
    crm.deliver(&[crm.merge(&[1, 2], 10, T + 10)]).await;
    crm.deliver(&[word(1, T + 2)]).await;
    let rows = crm.ask("select from_id from hubferry.crm_associations").await;
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), [10]);
}

#[tokio::test(flavor = "multi_thread")]
async fn merges_that_lead_in_a_circle_end() {
    let crm = Crm::new().await;
    crm.linked("user-1", 1).await;
    crm.deliver(&[crm.merge(&[1], 2, T), crm.merge(&[2], 1, T)]).await;
    crm.deliver(&[crm.merge(&[2], 1, T + 1)]).await;
    crm.deliver(&[crm.change_of(1, "city", "Utrecht", T + 5), crm.change_of(2, "city", "Delft", T + 6)]).await;
    assert!(crm.link("user-1").await.is_some());
}
