//! Contacts that were deleted for privacy: nothing about them is kept, and nothing is written for them again.

use serde_json::json;

use super::{Crm, RECORD, T};

/// A word that no other data holds.
const SECRET: &str = "Zephyrine";

/// Rows of any table that hold the word.
async fn occurrences(crm: &Crm) -> Vec<String> {
    let tables = crm
        .ask(
            "select table_name::text from information_schema.tables
                          where table_schema = 'hubferry' and table_type = 'BASE TABLE'",
        )
        .await;
    let mut found = Vec::new();
    for table in tables {
        let table: String = table.get(0);
        let sql = format!(
            "select count(*) from hubferry.{table} t where t::text ilike '%{SECRET}%'
                           or t::text ilike '%' || encode('{SECRET}', 'hex') || '%'"
        );
        if crm.ask(&sql).await[0].get::<_, i64>(0) > 0 {
            found.push(table);
        }
    }
    found
}

async fn prepared() -> Crm {
    let crm = Crm::new().await;
    let request = crate::world::with(
        crate::world::request("ada@example.test", "subscribed"),
        json!({"contact": {"key": "user-1", "email": "ada@example.test", "properties": {"firstname": SECRET}}}),
    );
    crm.world.accept(vec![request]).await;
    crm.world
        .sql(&format!(
            "insert into hubferry.contact_links (portal_id, contact_key, record_id, linked_at)
                            select portal_id, 'user-1', {RECORD}, clock_timestamp() from hubferry.portals"
        ))
        .await;
    crm.deliver(&[crm.change("firstname", SECRET, T - 100), crm.change_of(77, "city", "Utrecht", T)]).await;
    assert!(!occurrences(&crm).await.is_empty());
    crm
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_about_the_contact_goes_whatever_comes_first() {
    for turned in [false, true] {
        for together in [false, true] {
            let crm = prepared().await;
            let mut notes = [
                crm.note("privacyDeletion", T, json!({})),
                crm.note("deletion", T, json!({"changeFlag": "DELETED"})),
                crm.change("email", &format!("{SECRET}@example.test"), T - 10_000),
            ];
            if turned {
                notes.reverse();
            }
            for batch in notes.chunks(if together { 3 } else { 1 }) {
                crm.deliver(batch).await;
            }
            crm.deliver(&[crm.change("lastname", SECRET, T + 5)]).await;
            assert_eq!(occurrences(&crm).await, Vec::<String>::new(), "{turned} {together}");
            assert_eq!(crm.count("crm_records where erased_at is not null and erase_event_id is null").await, 1);
            assert_eq!(crm.count("contacts where erased_at is not null").await, 1);
            let pending = crm.count("outbox_events where stream_id is not null and status = 'cancelled'").await;
            assert_eq!(pending, 1, "what was pending for the contact is stopped");
            assert_eq!(crm.count("outbox_events where kind = 'contact.erase.v1'").await, 1);
            assert_eq!(crm.value_of(77, "city").await, Some((Some("Utrecht".into()), false)), "others stay");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_became_part_of_it_is_forgotten_too() {
    for turned in [false, true] {
        let crm = Crm::new().await;
        crm.linked("user-1", 1).await;
        crm.deliver(&[crm.change_of(1, "firstname", SECRET, T), crm.change_of(2, "firstname", SECRET, T)]).await;
        let mut notes = [crm.merge(&[1, 2], 10, T + 10), crm.note("privacyDeletion", T + 20, json!({"objectId": 10}))];
        if turned {
            notes.reverse();
        }
        for note in &notes {
            crm.deliver(std::slice::from_ref(note)).await;
        }
        assert_eq!(occurrences(&crm).await, Vec::<String>::new(), "{turned}");
        assert_eq!(crm.count("contacts where erased_at is not null").await, 1, "{turned}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_holds_the_contact_holds_up_the_erasure_and_nothing_else() {
    let crm = prepared().await;
    let application = crm.world.db.connection().await.unwrap();
    application.batch_execute("begin; select from hubferry.contacts for update").await.unwrap();
    let erasing = crm.receive(&[crm.note("privacyDeletion", T, json!({}))]).await.expect("an event");
    let other = crm.receive(&[crm.change_of(78, "city", "Delft", T)]).await.expect("an event");
    let summary = crm.work(&[erasing, other]).await;
    assert_eq!((summary.synced, summary.retried), (1, 1));
    assert_eq!(crm.count("crm_records where erase_event_id is not null").await, 1);
    application.batch_execute("commit").await.unwrap();
    crm.publish().await;
    assert_eq!(crm.work(&[erasing]).await.synced, 1);
    assert_eq!(occurrences(&crm).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_of_an_unlinked_record_erases_nobody() {
    let crm = prepared().await;
    crm.deliver(&[crm.note("privacyDeletion", T, json!({"objectId": 77}))]).await;
    assert_eq!(crm.count("contacts where erased_at is not null").await, 0);
    assert_eq!(crm.count("crm_values where object_id = 77").await, 0);
}
