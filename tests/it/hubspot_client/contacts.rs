//! Contacts: rows of a batch find their answers, whatever HubSpot does to the batch.

use hubferry::adapters::hubspot::{
    Class, ContactRecord, ContactUpdate, ContactUpsert, NewProperty, NewPropertyGroup, Row, Sent,
};
use hubferry::model::plan::ROWS_PER_CALL;
use hubspot_simulator::RecordId;

use super::{UPSERT, World, by_email, properties};

fn refused<R: std::fmt::Debug>(row: &Row<R>) -> (Class, &str) {
    match row {
        Row::Refused(refusal) => (refusal.class, refusal.code.as_str()),
        other => panic!("{other:?} is not refused"),
    }
}

fn record(row: &Row<ContactRecord>) -> &ContactRecord {
    match row {
        Row::Done(record) => record,
        other => panic!("{other:?} is not done"),
    }
}

#[tokio::test]
async fn a_bad_row_is_refused_alone_and_the_others_are_written_whatever_their_order() {
    let world = World::new().await;
    let emails: Vec<String> = (0..ROWS_PER_CALL).map(|number| format!("p{number}@example.test")).collect();
    let mut emails: Vec<&str> = emails.iter().map(String::as_str).collect();
    emails[42] = "not-an-email";
    let call = world.account().upsert_contacts("email", &by_email(&emails)).await;
    let rows = call.result.unwrap();
    for (index, (row, email)) in rows.iter().zip(&emails).enumerate() {
        match row {
            Row::Done(contact) => {
                let id: RecordId = world.simulator.contact_by_email(email).unwrap().id;
                assert_eq!((contact.record_id.as_str(), contact.new), (id.0.to_string().as_str(), Some(true)));
            }
            row => assert_eq!((index, refused(row)), (42, (Class::RowInvalid, "invalid_email"))),
        }
    }
    assert_eq!((rows.len(), world.simulator.contacts().len(), world.calls()), (100, 99, 1));
}

#[tokio::test]
async fn a_repeated_upsert_updates_and_an_empty_value_clears() {
    let world = World::new().await;
    let account = world.account();
    account.upsert_contacts("email", &by_email(&["ann@example.test"])).await.result.unwrap();
    let mut again = by_email(&["Ann@Example.test"]);
    again[0].properties.insert("firstname".to_owned(), String::new());
    let rows = account.upsert_contacts("email", &again).await.result.unwrap();
    assert!(matches!(&rows[0], Row::Done(contact) if contact.new == Some(false)));
    assert_eq!(world.simulator.contact_by_email("ann@example.test").unwrap().get("firstname"), None);
}

#[tokio::test]
async fn a_contact_found_by_a_unique_property_keeps_its_record_when_its_address_changes() {
    let world = World::new().await;
    let account = world.account();
    let group = NewPropertyGroup { name: "hubferry".to_owned(), label: "hubferry".to_owned() };
    let property = NewProperty {
        name: "hubferry_key".to_owned(),
        label: "Key".to_owned(),
        group: "hubferry".to_owned(),
        description: "Stable key of the contact".to_owned(),
        unique: true,
    };
    account.create_property_group(&group).await.result.unwrap();
    let created = account.create_property(&property).await.result.unwrap();
    assert!(created.unique);
    let upsert = |email: &str| ContactUpsert {
        trace_id: "e1".to_owned(),
        id: "k-1".to_owned(),
        properties: properties(&[("hubferry_key", "k-1"), ("email", email)]),
    };
    for email in ["old@example.test", "new@example.test"] {
        account.upsert_contacts("hubferry_key", &[upsert(email)]).await.result.unwrap();
    }
    let contacts = world.simulator.contacts();
    assert_eq!((contacts.len(), contacts[0].get("email")), (1, Some("new@example.test")));
    let read = account.read_contacts(Some("hubferry_key"), &["k-1", "k-2"], &["email"]).await.result.unwrap();
    assert_eq!(record(&read[0]).properties["email"].as_deref(), Some("new@example.test"));
    assert_eq!(refused(&read[1]).0, Class::Gone);
}

#[tokio::test]
async fn an_address_that_belongs_to_somebody_else_is_a_conflict_of_that_row() {
    let world = World::new().await;
    let ann = world.simulator.seed_contact(&[("email", "ann@example.test")]).unwrap();
    let bob = world.simulator.seed_contact(&[("email", "bob@example.test")]).unwrap();
    let update = ContactUpdate {
        trace_id: "e1".to_owned(),
        record_id: bob.0.to_string(),
        properties: properties(&[("email", "ann@example.test")]),
    };
    let rows = world.account().update_contacts(&[update]).await.result.unwrap();
    assert_eq!(refused(&rows[0]).0, Class::Conflict);
    let Row::Refused(refusal) = &rows[0] else { unreachable!() };
    assert!(refusal.existing_id.as_ref().is_none_or(|id| *id == ann.0.to_string()));
}

#[tokio::test]
async fn a_record_that_was_merged_away_is_gone_for_an_update_and_found_by_a_read() {
    let world = World::new().await;
    let ann = world.simulator.seed_contact(&[("email", "ann@example.test")]).unwrap();
    let old = world.simulator.seed_contact(&[("email", "ann.old@example.test")]).unwrap();
    let other = world.simulator.seed_contact(&[("email", "bob@example.test")]).unwrap();
    let survivor = world.simulator.merge(ann, old).unwrap();
    let update = |id: RecordId| ContactUpdate {
        trace_id: format!("t{}", id.0),
        record_id: id.0.to_string(),
        properties: properties(&[("firstname", "Ann")]),
    };
    let rows = world.account().update_contacts(&[update(old), update(other)]).await.result.unwrap();
    assert_eq!(refused(&rows[0]), (Class::Gone, "silently_omitted"));
    assert_eq!(record(&rows[1]).record_id, other.0.to_string());

    let emails = ["ann.old@example.test", "nobody@example.test", "BOB@example.test"];
    let read = world.account().read_contacts(Some("email"), &emails, &[]).await.result.unwrap();
    assert_eq!(record(&read[0]).record_id, survivor.0.to_string());
    assert_eq!(refused(&read[1]).0, Class::Gone);
    assert_eq!(record(&read[2]).record_id, other.0.to_string());
}

#[tokio::test]
async fn the_same_contact_twice_makes_a_batch_that_is_to_be_split() {
    let world = World::new().await;
    let rows = by_email(&["ann@example.test", "Ann@Example.test", "bob@example.test"]);
    let refusal = world.account().upsert_contacts("email", &rows).await.result.unwrap_err();
    assert_eq!((refusal.class, refusal.code.as_str()), (Class::WholeBatchInvalid, "duplicate_ids"));
    assert!(refusal.named.ids.contains("ann@example.test"));
    assert!(!refusal.named.ids.contains("bob@example.test"));
}

#[tokio::test]
async fn an_id_property_without_unique_values_is_configuration() {
    let world = World::new().await;
    let rows = by_email(&["ann@example.test", "bob@example.test"]);
    let refusal = world.account().upsert_contacts("firstname", &rows).await.result.unwrap_err();
    assert_eq!((refusal.class, refusal.code.as_str()), (Class::Configuration, "id_property_not_unique"));
}

#[tokio::test]
async fn a_property_that_does_not_exist_is_named_and_is_configuration() {
    let world = World::new().await;
    let mut rows = by_email(&["ann@example.test"]);
    rows[0].properties.insert("no_such_property".to_owned(), "x".to_owned());
    let call = world.account().upsert_contacts("email", &rows).await;
    let refusal = match call.result {
        Ok(rows) => match rows.into_iter().next() {
            Some(Row::Refused(refusal)) => refusal,
            other => panic!("{other:?}"),
        },
        Err(refusal) => refusal,
    };
    assert_eq!((refusal.class, refusal.code.as_str()), (Class::Configuration, "property_doesnt_exist"));
    assert_eq!(refusal.named.property.as_deref(), Some("no_such_property"));
}

#[tokio::test]
async fn more_rows_than_a_batch_takes_and_no_row_at_all_make_no_call() {
    let world = World::new().await;
    let emails: Vec<String> = (0..=ROWS_PER_CALL).map(|number| format!("p{number}@example.test")).collect();
    let emails: Vec<&str> = emails.iter().map(String::as_str).collect();
    let call = world.account().upsert_contacts("email", &by_email(&emails)).await;
    assert_eq!(call.sent, Sent::No);
    let refusal = call.result.unwrap_err();
    assert_eq!((refusal.class, refusal.code.as_str()), (Class::WholeBatchInvalid, "batch_too_large"));
    let call = world.account().upsert_contacts("email", &[]).await;
    assert_eq!((call.sent, call.result), (Sent::No, Ok(Vec::new())));
    assert_eq!(world.calls(), 0);
    let call = world.account().upsert_contacts("email", &by_email(&emails[..ROWS_PER_CALL])).await;
    assert!(call.result.unwrap().iter().all(|row| matches!(row, Row::Done(_))));
    assert_eq!(world.simulator.stats().calls(UPSERT), 1);
}

#[tokio::test]
async fn a_contact_that_is_deleted_for_good_is_gone_and_its_address_refused() {
    let world = World::new().await;
    let id = world.simulator.seed_contact(&[("email", "ann@example.test")]).unwrap();
    let record = hubferry::model::ids::RecordId(i64::try_from(id.0).unwrap());
    let account = world.account();
    let call = account.gdpr_delete(record).await;
    assert_eq!((call.result, call.sent, world.calls()), (Ok(()), Sent::Maybe, 1));
    let rows = account.read_contacts(None, &[&record.to_string()], &[]).await.result.unwrap();
    assert_eq!(refused(&rows[0]).0, Class::Gone);
    let rows = account.upsert_contacts("email", &by_email(&["ann@example.test"])).await.result.unwrap();
    assert_eq!(refused(&rows[0]).0, Class::RowInvalid);
}
