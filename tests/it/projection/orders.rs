//! A thousand random orders of the same hundred notifications, split over deliveries and over two workers at once.

use hubferry::adapters::db::Db;
use hubferry::model::ids::EventId;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use serde_json::{Value, json};

use super::{Crm, T, work};

/// Orders; each is a record of its own.
const ORDERS: i64 = 1_000;

/// Notifications of each order, repeats among them.
const NOTIFICATIONS: usize = 100;

/// Deliveries over which each order is split.
const DELIVERIES: usize = 10;

const PROPERTIES: [&str; 4] = ["city", "lifecyclestage", "hs_email_optout", "hs_email_optout_1001"];

/// What happened: property, value, and when.
type Story = Vec<(&'static str, String, i64)>;

/// Instants are few, so that several values fall on one.
fn story() -> Story {
    let mut random = rand::rng();
    let mut story: Story = (0..NOTIFICATIONS - 20)
        .map(|_| {
            let property = *PROPERTIES.choose(&mut random).expect("a property");
            let value = ["true", "false", "a", ""].choose(&mut random).expect("a value");
            (property, (*value).to_owned(), T + rand::random_range(0..40))
        })
        .collect();
    // Repeats of what there is.
    let repeats: Story = (0..20).map(|_| story.choose(&mut random).expect("a change").clone()).collect();
    story.extend(repeats);
    story
}

/// The value that counts in the end, and whether it is uncertain.
fn expected(story: &Story, property: &str) -> Option<(String, bool)> {
    let newest = story.iter().filter(|(of, ..)| *of == property).map(|(.., at)| *at).max()?;
    let mut values: Vec<&str> = story
        .iter()
        .filter(|(of, _, at)| *of == property && *at == newest)
        .map(|(_, value, _)| value.as_str())
        .collect();
    values.sort_unstable();
    values.dedup();
    let opts_out = property.starts_with("hs_email_optout") && values.contains(&"true");
    let last = if opts_out { "true" } else { values.last()? };
    Some((last.to_owned(), values.len() > 1))
}

/// Every order by itself, and then place by place: the first tenth of each in the first delivery, and so on.
fn deliveries(crm: &Crm, story: &Story) -> Vec<Vec<Value>> {
    let mut deliveries = vec![Vec::new(); DELIVERIES];
    for record in 1..=ORDERS {
        let mut turned = story.clone();
        turned.shuffle(&mut rand::rng());
        for (place, (property, value, at)) in turned.iter().enumerate() {
            let note = crm.change_of(record, property, value, *at);
            let delivery: &mut Vec<Value> = &mut deliveries[place * DELIVERIES / NOTIFICATIONS];
            // HubSpot's own repeats, and its second word on the same change.
            if rand::random_ratio(1, 20) {
                delivery.push(crate::world::with(note.clone(), json!({"attemptNumber": 1})));
            }
            delivery.push(note);
        }
    }
    deliveries
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_orders_over_ten_deliveries_and_two_workers_at_once_come_to_the_same() {
    let crm = Crm::new().await;
    // Nothing is read, so that what is uncertain stays so.
    crm.world.sql("update hubferry.portals set mode = 'off'").await;
    let story = story();
    let mut events: Vec<EventId> = Vec::new();
    for chunk in deliveries(&crm, &story).iter().flat_map(|delivery| delivery.chunks(9_000)) {
        events.push(crm.receive(chunk).await.expect("an event"));
    }
    events.shuffle(&mut rand::rng());
    let mut second = crm.world.worker.clone();
    second.db = Db::new(&crm.world.database.url.clone().into(), 2).expect("a URL");
    for pair in events.chunks(2) {
        // The same two deliveries in both workers' hands: each is claimed once, and the records are the same.
        let turned: Vec<EventId> = pair.iter().rev().copied().collect();
        tokio::join!(work(&crm.world.worker, &pair[..1]), work(&second, &turned[..1]));
    }
    let open = crm
        .ask("select coalesce(last_error_code, '') from hubferry.outbox_events where last_error_code <> 'portal_off'")
        .await;
    assert!(open.is_empty(), "no deadlock, no failure");
    assert_eq!(crm.count("webhook_events where state = 'received'").await, 0);

    for property in PROPERTIES {
        let sql = format!(
            "select value, tied, count(*) from hubferry.crm_values where property = '{property}' group by 1, 2"
        );
        let found: Vec<(String, bool, i64)> =
            crm.ask(&sql).await.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        let wanted: Vec<_> =
            expected(&story, property).map(|(value, tied)| (value, tied, ORDERS)).into_iter().collect();
        assert_eq!(found, wanted, "{property}: {story:?}");
    }
}
