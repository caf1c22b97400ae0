//! Uncertain values of companies, deals and custom objects are read too, each type by its own call.

use hubferry::adapters::db::{self, NotificationFilter};
use hubspot_simulator::{Action, Fault, RecordId};
use jiff::ToSpan as _;
use serde_json::{Value, json};

use super::{Crm, T};
use crate::world::with;

const COMPANIES: &str = "companies.batch_read";
const PET: &str = "2-7001";

async fn crm() -> Crm {
    let crm = Crm::new().await;
    crm.world
        .sql(
            "insert into hubferry.projected_types select portal_id, object_type
             from hubferry.portals, unnest(array['company', 'deal', '2-7001', '2-9999']) as object_type",
        )
        .await;
    crm
}

/// A record of another type in HubSpot.
fn seeded(crm: &Crm, object_type: &str, values: &[(&str, &str)]) -> i64 {
    let account = crm.world.hubspot.account(crm.world.portal.0.unsigned_abs());
    let RecordId(id) = account.seed_record(object_type, values).expect("a record");
    i64::try_from(id).expect("an id")
}

/// A change of a record of another type, as HubSpot reports it.
fn change(crm: &Crm, object_type: &str, record: i64, property: &str, value: &str) -> Value {
    let kind = if object_type.contains('-') {
        json!({"subscriptionType": "object.propertyChange", "objectTypeId": object_type})
    } else {
        json!({"subscriptionType": format!("{object_type}.propertyChange")})
    };
    with(crm.change_of(record, property, value, T), kind)
}

/// Two values at one instant.
fn tie(crm: &Crm, object_type: &str, record: i64, property: &str, values: [&str; 2]) -> [Value; 2] {
    values.map(|value| change(crm, object_type, record, property, value))
}

/// A value, and whether it is uncertain.
async fn value(crm: &Crm, object_type: &str, record: i64, property: &str) -> (Option<String>, bool) {
    let sql = format!(
        "select value, tied from hubferry.crm_values
         where object_type = '{object_type}' and object_id = {record} and property = '{property}'"
    );
    let row = &crm.ask(&sql).await[0];
    (row.get(0), row.get(1))
}

fn certain(value: &str) -> (Option<String>, bool) {
    (Some(value.to_owned()), false)
}

#[tokio::test(flavor = "multi_thread")]
async fn ties_of_every_projected_type_are_settled_by_one_read_of_each_type() {
    let crm = crm().await;
    let companies = ["Delft", "Gouda"].map(|city| seeded(&crm, "companies", &[("city", city), ("name", "Acme")]));
    let (deal, pet) = (seeded(&crm, "deals", &[("dealstage", "won")]), seeded(&crm, PET, &[("name", "Rex")]));
    assert_eq!((companies[0], deal), (deal, pet), "types count their records each for itself");
    let RecordId(contact) = crm.world.hubspot.seed_contact(&[("email", "ada@example.test"), ("city", "Ede")]).unwrap();
    let contact = i64::try_from(contact).unwrap();
    let mut notes: Vec<Value> = companies.iter().flat_map(|id| tie(&crm, "company", *id, "city", ["A", "B"])).collect();
    notes.extend(tie(&crm, "company", companies[0], "name", ["A", "B"]));
    notes.extend(tie(&crm, "deal", deal, "dealstage", ["lost", "open"]));
    notes.extend(tie(&crm, PET, pet, "name", ["Max", "Bo"]));
    notes.extend(["A", "B"].map(|city| crm.change_of(contact, "city", city, T)));
    crm.world.hubspot.reset_stats();
    crm.deliver(&notes).await;

    assert_eq!(value(&crm, "company", companies[0], "city").await, certain("Delft"));
    assert_eq!(value(&crm, "company", companies[0], "name").await, certain("Acme"));
    assert_eq!(value(&crm, "company", companies[1], "city").await, certain("Gouda"));
    assert_eq!(value(&crm, "deal", deal, "dealstage").await, certain("won"));
    assert_eq!(value(&crm, PET, pet, "name").await, certain("Rex"));
    assert_eq!(crm.value_of(contact, "city").await, Some(certain("Ede")));
    let calls = crm.world.hubspot.stats();
    let calls = [COMPANIES, "deals.batch_read", "pets.batch_read", "contacts.batch_read"].map(|name| calls.calls(name));
    assert_eq!(calls, [1; 4]);
    assert_eq!(crm.count("crm_records where read_event_id is not null").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_may_not_be_read_is_asked_once_stays_uncertain_and_is_read_when_it_is_replayed() {
    let crm = crm().await;
    let (company, deal) = (seeded(&crm, "companies", &[("city", "Delft")]), seeded(&crm, "deals", &[("amount", "7")]));
    let unknown = 4711;
    let scope = json!({"status": "error", "category": "MISSING_SCOPES", "message": "no"});
    crm.world.hubspot.add_fault(Fault::always(Action::respond(403, scope)).on_endpoint(COMPANIES));
    let mut notes: Vec<Value> = tie(&crm, "company", company, "city", ["A", "B"]).into();
    notes.extend(tie(&crm, "deal", deal, "amount", ["1", "2"]));
    // A custom type that the account has no more.
    notes.extend(tie(&crm, "2-9999", unknown, "name", ["A", "B"]));
    let event = crm.receive(&notes).await.expect("an event");
    crm.world.hubspot.reset_stats();
    let summary = crm.work(&[event]).await;

    assert_eq!((summary.synced, summary.denied_reads), (1, 2), "{:?}", crm.world.statuses().await);
    assert_eq!(value(&crm, "company", company, "city").await, (Some("B".into()), true));
    assert_eq!(value(&crm, "2-9999", unknown, "name").await, (Some("B".into()), true));
    assert_eq!(value(&crm, "deal", deal, "amount").await, certain("7"), "others are read all the same");
    assert_eq!(crm.count("crm_records where read_event_id is not null").await, 0, "nobody owes a read");
    assert_eq!(crm.world.unfinished().await, 0);
    assert_eq!(crm.world.hubspot.stats().calls(COMPANIES), 1);

    crm.world.hubspot.clear_faults();
    replay(&crm).await;
    let summary = crm.world.drain().await;
    assert_eq!((summary.synced, summary.denied_reads), (1, 1));
    assert_eq!(value(&crm, "company", company, "city").await, certain("Delft"));
    assert_eq!(value(&crm, "2-9999", unknown, "name").await, (Some("B".into()), true));
}

/// As `hubferry webhooks replay` does.
async fn replay(crm: &Crm) {
    let now = hubferry::clock::now();
    let states = Some(vec!["applied".to_owned(), "superseded".to_owned()]);
    let filter = NotificationFilter {
        since: now - 1.hour(),
        until: now + 1.hour(),
        states,
        portal: None,
        subscription_type: None,
    };
    let connection = crm.world.db.connection().await.unwrap();
    let page = db::replay_notifications(&*connection, &filter, None, 100, uuid::Uuid::new_v4()).await.unwrap();
    assert_eq!((page.notifications, page.events), (6, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_fails_for_now_is_made_again() {
    let crm = crm().await;
    let company = seeded(&crm, "companies", &[("city", "Delft")]);
    crm.world.hubspot.add_fault(Fault::next(1, Action::Html(503)).on_endpoint(COMPANIES));
    let event = crm.receive(&tie(&crm, "company", company, "city", ["A", "B"])).await.expect("an event");
    let summary = crm.work(&[event]).await;
    assert_eq!((summary.retried, summary.denied_reads), (1, 0));
    crm.publish().await;
    assert_eq!(crm.work(&[event]).await.synced, 1);
    assert_eq!(value(&crm, "company", company, "city").await, certain("Delft"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_survivor_of_a_merge_of_companies_is_read() {
    let crm = crm().await;
    let company = seeded(&crm, "companies", &[("city", "Delft")]);
    let of_companies = |note: Value, kind: &str| with(note, json!({"subscriptionType": format!("company.{kind}")}));
    crm.deliver(&[of_companies(crm.change_of(1, "city", "Utrecht", T), "propertyChange")]).await;
    crm.deliver(&[of_companies(crm.merge(&[1, 2], company, T + 10), "merge")]).await;
    assert_eq!(value(&crm, "company", company, "city").await, certain("Delft"));
}
