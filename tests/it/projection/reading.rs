//! What is uncertain is read, as far as the budget allows, and newer word counts all the same.

use hubspot_simulator::{Action, Fault, RecordId};

use super::{Crm, T};
use crate::world::WorldConfig;

const READ: &str = "contacts.batch_read";

/// A contact in HubSpot with a city.
fn seeded(crm: &Crm, city: &str) -> i64 {
    let email = format!("p{}@example.test", rand::random::<u64>());
    let RecordId(id) = crm.world.hubspot.seed_contact(&[("email", &email), ("city", city)]).expect("a contact");
    i64::try_from(id).expect("an id")
}

#[tokio::test(flavor = "multi_thread")]
async fn several_values_at_one_instant_are_settled_by_what_hubspot_holds() {
    let crm = Crm::new().await;
    let (first, second) = (seeded(&crm, "Delft"), seeded(&crm, ""));
    crm.world.hubspot.reset_stats();
    let notes = [(first, "Utrecht"), (first, "Delft"), (second, "Utrecht"), (second, "Delft")];
    let notes = notes.map(|(record, city)| crm.change_of(record, "city", city, T));
    crm.deliver(&notes).await;
    assert_eq!(crm.value_of(first, "city").await, Some((Some("Delft".into()), false)));
    assert_eq!(crm.value_of(second, "city").await, Some((None, false)));
    assert_eq!(crm.world.hubspot.stats().calls(READ), 1, "one call for all of them");
    assert_eq!(crm.count("crm_records where read_event_id is not null").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_call_left_what_was_applied_stays_and_the_read_is_made_later() {
    let crm = Crm::with(WorldConfig { call_limit: 1, ..WorldConfig::default() }).await;
    let record = seeded(&crm, "Delft");
    crm.world.sql("update hubferry.portals set call_window_ms = 3600000").await;
    let mut busy = vec![crm.change_of(record, "city", "Utrecht", T), crm.change_of(record, "city", "Delft", T)];
    crm.deliver(&busy).await;
    busy.push(crm.change_of(record, "city", "Leiden", T + 1));
    busy.push(crm.change_of(record, "city", "Gouda", T + 1));
    let event = crm.receive(&busy[2..]).await.expect("an event");
    let summary = crm.work(&[event]).await;
    assert_eq!((summary.snoozed, summary.calls, summary.synced), (1, 0, 0), "{:?}", crm.world.statuses().await);
    assert_eq!(crm.value_of(record, "city").await, Some((Some("Leiden".into()), true)));
    assert_eq!(crm.count("crm_records where read_event_id is not null").await, 1, "what is owed can be seen");

    crm.world.sql("update hubferry.portals set call_limit = 100").await;
    crm.publish().await;
    assert_eq!(crm.work(&[event]).await.synced, 1);
    assert_eq!(crm.value_of(record, "city").await, Some((Some("Delft".into()), false)));
    let row =
        &crm.ask(&format!("select process_attempts from hubferry.outbox_events where event_id = '{event}'")).await[0];
    assert_eq!(row.get::<_, i32>(0), 0, "a snooze is no attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_read_is_tried_again_and_the_projection_is_there_meanwhile() {
    let crm = Crm::new().await;
    let record = seeded(&crm, "Delft");
    crm.world.hubspot.add_fault(Fault::next(1, Action::Html(503)).on_endpoint(READ));
    let notes = [crm.change_of(record, "city", "Utrecht", T), crm.change_of(record, "city", "Delft", T)];
    let event = crm.receive(&notes).await.expect("an event");
    assert_eq!(crm.work(&[event]).await.retried, 1);
    assert_eq!(crm.value_of(record, "city").await, Some((Some("Utrecht".into()), true)));
    crm.publish().await;
    assert_eq!(crm.work(&[event]).await.synced, 1);
    assert_eq!(crm.value_of(record, "city").await, Some((Some("Delft".into()), false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn word_that_is_newer_than_what_was_asked_for_is_not_overwritten_by_the_read() {
    let crm = Crm::new().await;
    let record = seeded(&crm, "Delft");
    crm.world.sql("update hubferry.portals set mode = 'off'").await;
    let notes = [crm.change_of(record, "city", "Utrecht", T), crm.change_of(record, "city", "Delft", T)];
    let event = crm.receive(&notes).await.expect("an event");
    crm.work(&[event]).await;
    crm.deliver(&[crm.change_of(record, "city", "Leiden", T + 1)]).await;
    crm.world.sql("update hubferry.portals set mode = 'live'").await;
    crm.publish().await;
    let summary = crm.work(&[event]).await;
    assert_eq!((summary.synced, summary.calls), (1, 0), "nothing is uncertain any more");
    assert_eq!(crm.value_of(record, "city").await, Some((Some("Leiden".into()), false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_survivor_of_a_merge_is_read_once_and_older_word_about_the_merged_changes_nothing() {
    let crm = Crm::new().await;
    let survivor = seeded(&crm, "Delft");
    crm.deliver(&[crm.change_of(1, "city", "Utrecht", T), crm.change_of(2, "city", "Leiden", T + 1)]).await;
    crm.world.hubspot.reset_stats();
    crm.deliver(&[crm.merge(&[1, 2], survivor, T + 10)]).await;
    assert_eq!(crm.value_of(survivor, "city").await, Some((Some("Delft".into()), false)));
    crm.deliver(&[crm.change_of(2, "city", "Gouda", T + 5)]).await;
    assert_eq!(crm.value_of(survivor, "city").await, Some((Some("Delft".into()), false)));
    assert_eq!(crm.world.hubspot.stats().calls(READ), 1);
    crm.deliver(&[crm.change_of(survivor, "city", "Gouda", T + 11)]).await;
    assert_eq!(crm.value_of(survivor, "city").await, Some((Some("Gouda".into()), false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_gone_when_it_is_read_holds_nothing_up() {
    let crm = Crm::new().await;
    crm.deliver(&[crm.change_of(77, "city", "Utrecht", T), crm.change_of(77, "city", "Delft", T)]).await;
    assert_eq!(crm.value_of(77, "city").await, Some((Some("Utrecht".into()), true)));
    assert_eq!(crm.count("crm_records where read_event_id is not null").await, 0);
}
