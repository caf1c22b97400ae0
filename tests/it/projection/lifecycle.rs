//! Records that come and go, their associations, and the contacts of ours that they are.

use serde_json::{Value, json};

use super::{Crm, RECORD, T};

async fn state(crm: &Crm) -> String {
    crm.ask(&format!("select state from hubferry.crm_records where object_id = {RECORD}")).await[0].get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_what_happened_to_it_last_whatever_came_last() {
    let crm = Crm::new().await;
    let kinds = [("creation", "live"), ("deletion", "deleted"), ("restore", "live"), ("deletion", "deleted")];
    let notes: Vec<Value> = (0..).zip(kinds).map(|(at, (kind, _))| crm.note(kind, T + at, json!({}))).collect();
    for length in 1..=notes.len() {
        for start in 0..length {
            crm.world.sql("truncate hubferry.crm_records, hubferry.webhook_deliveries cascade").await;
            let mut turned = notes[..length].to_vec();
            turned.rotate_left(start);
            for note in &turned {
                crm.deliver(std::slice::from_ref(note)).await;
            }
            assert_eq!(state(&crm).await, kinds[length - 1].1, "{length} {start}");
            crm.world.sql("truncate hubferry.crm_records, hubferry.webhook_deliveries cascade").await;
            crm.deliver(&turned).await;
            assert_eq!(state(&crm).await, kinds[length - 1].1, "together: {length} {start}");
            let created = crm.ask("select created_at from hubferry.crm_records").await[0].get::<_, jiff::Timestamp>(0);
            assert_eq!(created.as_millisecond(), T);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_record_loses_its_contact_and_a_restored_one_gets_it_back() {
    let crm = Crm::new().await;
    crm.linked("user-1", RECORD).await;
    crm.deliver(&[crm.note("deletion", T + 10, json!({}))]).await;
    assert_eq!(crm.link("user-1").await, None);
    // Late and older.
    crm.deliver(&[crm.note("restore", T + 5, json!({}))]).await;
    assert_eq!(crm.link("user-1").await, None);
    crm.deliver(&[crm.note("restore", T + 20, json!({}))]).await;
    assert_eq!(crm.link("user-1").await, Some(RECORD));
    assert_eq!(crm.count("contact_links where deleted_record_id is not null").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contact_that_found_another_record_meanwhile_stays_there_when_the_old_one_comes_back() {
    let crm = Crm::new().await;
    crm.linked("user-1", RECORD).await;
    crm.deliver(&[crm.note("deletion", T, json!({}))]).await;
    crm.world.sql("update hubferry.contact_links set record_id = 77, linked_at = clock_timestamp()").await;
    crm.deliver(&[crm.note("restore", T + 1, json!({}))]).await;
    assert_eq!(crm.link("user-1").await, Some(77));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_write_after_a_deletion_makes_a_record_again() {
    let crm = Crm::new().await;
    let request = || {
        crate::world::with(
            crate::world::request("ada@example.test", "subscribed"),
            json!({"contact": {"key": "user-1", "email": "ada@example.test"}}),
        )
    };
    crm.world.accept(vec![request()]).await;
    crm.world.drain().await;
    let record = crm.world.hubspot.contact_by_email("ada@example.test").expect("a contact").id;
    crm.world.hubspot.delete(record).expect("a deletion");
    let record = i64::try_from(record.0).expect("an id");
    crm.deliver(&[crm.note("deletion", T, json!({"objectId": record}))]).await;
    crm.world.accept(vec![request()]).await;
    let summary = crm.world.drain().await;
    assert_eq!((summary.synced, summary.retried), (1, 0), "no call is wasted on the record that is gone");
    assert_ne!(crm.link("user-1").await, Some(record));
    assert!(crm.link("user-1").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn associations_follow_the_newest_word_about_them() {
    let crm = Crm::new().await;
    let word =
        |at: i64, removed: bool, primary: bool| {
            crm.note("associationChange", at, json!({
            "objectId": null, "associationType": "CONTACT_TO_COMPANY", "fromObjectId": RECORD, "toObjectId": 555,
            "associationRemoved": removed, "isPrimaryAssociation": primary,
        }))
        };
    crm.deliver(&[word(T + 3, true, false), word(T + 1, false, false), word(T + 1, false, true)]).await;
    crm.deliver(&[word(T + 2, false, false)]).await;
    let rows =
        crm.ask("select to_type, to_id, is_primary, removed from hubferry.crm_associations order by is_primary").await;
    let rows: Vec<(String, i64, bool, bool)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    assert_eq!(rows, [("company".into(), 555, false, true), ("company".into(), 555, true, false)]);
    assert_eq!(crm.settled().await, ["applied", "applied", "superseded:older", "applied"]);

    let generic = json!({"subscriptionType": "object.associationChange", "objectId": null, "fromObjectTypeId": "0-1",
                         "toObjectTypeId": "0-3", "fromObjectId": RECORD, "toObjectId": 77, "associationTypeId": 4,
                         "associationCategory": "HUBSPOT_DEFINED"});
    crm.deliver(&[crate::world::with(crm.note("associationChange", T, json!({})), generic)]).await;
    let rows = crm.ask("select association from hubferry.crm_associations where to_type = 'deal'").await;
    assert_eq!(rows[0].get::<_, String>(0), "HUBSPOT_DEFINED:4");
}
