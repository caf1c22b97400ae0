//! An import in HubSpot: its notifications come ten requests at once, some answers get lost, and in the end the projection is
//! what HubSpot holds.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::time::{Duration, Instant};

use futures::future::join_all;
use hubferry::adapters::db::{Connection, Db};
use hubferry::flows::webhook::{LOCAL_PATH, SecretSource, Webhook, WebhookSettings};
use hubspot_simulator::{WebhookConfig, WebhookStats};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_postgres::{Row, Statement};

use super::{SECRET, app, settings};
use crate::world::{World, WorldConfig};

/// One answer in twenty gets lost.
const LOST_SHARE: f64 = 0.05;

/// Of only some forty answers every third, so that some are lost for certain: that none is would happen once in two million runs.
const LOST_SHARE_OF_FEW: f64 = 0.33;

/// HubSpot's day of repeats, in nine seconds: the first repeat comes after 6 ms, amid what is sent for the first time.
const RETRY_SCALE: f64 = 0.000_1;

/// HubSpot hangs up after this.
const HUBSPOT_WAITS: Duration = Duration::from_secs(5);

/// HubSpot's requests at once, and its notifications in one.
const AT_ONCE: usize = 10;
const IN_A_REQUEST: usize = 100;

/// Contacts of one write.
const WRITTEN_AT_ONCE: usize = 100;

const PLAIN: &str = "insert into hubferry.plain (notification_key, delivery_id, position, portal_id, subscription_type,
        object_type, object_id, property_name, property_value, occurred_at, event_id, change_source, details)
    select * from unnest($1::bytea[], $2::uuid[], $3::integer[], $4::bigint[], $5::text[], $6::text[], $7::bigint[],
        $8::text[], $9::text[], $10::timestamptz[], $11::text[], $12::text[], $13::jsonb[])";

/// Far above what any of these takes.
const FAR_TOO_LONG: Duration = Duration::from_mins(20);

/// Properties that are compared.
const PROPERTIES: [&str; 2] = ["email", "firstname"];

#[tokio::test(flavor = "multi_thread")]
async fn after_an_import_whose_answers_were_lost_the_projection_is_what_hubspot_holds() {
    import(1_000, LOST_SHARE_OF_FEW).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: `make webhook-load`"]
async fn fifty_thousand_contacts_are_imported() {
    let (world, received, projected) = import(50_000, LOST_SHARE).await;
    let plain = plain_inserts(&world).await;
    let report = format!("\nreceived:  {received}\nprojected: {projected}\nplain:     {plain}\n");
    std::io::stderr().write_all(report.as_bytes()).unwrap();
    let limit = u64::try_from(HUBSPOT_WAITS.as_millis()).unwrap();
    assert!(received.answers_ms.is_some_and(|[.., highest]| highest < limit), "{received}");
}

/// What a part took.
struct Measured {
    notifications: u64,
    took: Duration,
    /// How long answers took, where there were any: half of them, 99 of 100, all of them.
    answers_ms: Option<[u64; 3]>,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "a rate for a person to read")]
        let rate = self.notifications as f64 / self.took.as_secs_f64();
        write!(f, "{} rows in {:.1} s: {rate:.0} a second", self.notifications, self.took.as_secs_f64())?;
        match self.answers_ms {
            Some([half, most, all]) => write!(f, "; p50 {half} ms, p99 {most} ms, highest {all} ms"),
            None => Ok(()),
        }
    }
}

/// Imports contacts into HubSpot, changes every second one, and compares.
async fn import(contacts: usize, lost_share: f64) -> (World, Measured, Measured) {
    let limits = WorldConfig { call_limit: 10_000, hubspot_limit: 10_000, ..WorldConfig::default() };
    let world = World::with(limits).await;
    let target = serve(&world).await;
    let webhooks = WebhookConfig { lost_share, retry_scale: RETRY_SCALE, ..WebhookConfig::new(target, SECRET) };
    world.hubspot.send_webhooks(Some(webhooks));
    let started = Instant::now();
    for person in 0..contacts {
        let email = format!("person-{person}@example.test");
        world.hubspot.seed_contact(&[("email", &email), ("firstname", "Ada")]).unwrap();
        tokio::task::yield_now().await;
    }
    change_every_second(&world, contacts).await;
    let stats = all_delivered(&world).await;
    assert_eq!((stats.given_up, stats.statuses.keys().copied().collect::<Vec<_>>()), (0, vec![200]), "{stats:?}");
    assert!(stats.highest_in_flight <= AT_ONCE && stats.failed > 0, "{stats:?}");
    let received =
        Measured { notifications: count(&world).await, took: started.elapsed(), answers_ms: Some(stats.answer_ms) };
    assert_eq!(received.notifications, u64::try_from(contacts * 3 + contacts / 2).unwrap());

    let started = Instant::now();
    let worked = world.drain().await;
    let projected = Measured { notifications: received.notifications, took: started.elapsed(), answers_ms: None };
    assert_eq!(worked.dead, 0, "{:?}", world.statuses().await);
    let held = held(&world);
    assert_eq!(held.len(), contacts * PROPERTIES.len());
    assert!(projection(&world).await == held, "the projection is not what HubSpot holds");
    (world, received, projected)
}

/// The function, behind an address of its own. Returns the address.
async fn serve(world: &World) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}{LOCAL_PATH}", listener.local_addr().unwrap());
    let db = Db::new(&world.database.url.clone().into(), AT_ONCE).unwrap();
    let source = SecretSource::Environment(vec![app(SECRET, None)]);
    let router = Webhook::new(db, WebhookSettings { url: url.clone(), ..settings(source) }).router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// Another first name, while the notifications of the first one are still under way.
async fn change_every_second(world: &World, contacts: usize) {
    #[expect(clippy::disallowed_methods, reason = "the client of a test, with a time limit")]
    let client = reqwest::Client::builder().timeout(FAR_TOO_LONG).build().unwrap();
    let url = format!("{}/crm/v3/objects/contacts/batch/upsert", world.hubspot.base_url().trim_end_matches('/'));
    let people: Vec<usize> = (0..contacts).step_by(2).collect();
    for people in people.chunks(WRITTEN_AT_ONCE) {
        let input = |person: &usize| {
            let email = format!("person-{person}@example.test");
            json!({"id": email, "idProperty": "email", "properties": {"firstname": format!("Grace {person}")}})
        };
        let body = json!({"inputs": people.iter().map(input).collect::<Vec<Value>>()});
        let answer = client.post(&url).bearer_auth("simulator-token").json(&body).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }
}

async fn all_delivered(world: &World) -> WebhookStats {
    let looking = async {
        loop {
            let stats = world.hubspot.webhook_stats();
            if (stats.pending, stats.waiting, stats.in_flight) == (0, 0, 0) {
                return stats;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(FAR_TOO_LONG, looking).await.unwrap()
}

async fn rows(world: &World, sql: &str) -> Vec<Row> {
    world.db.connection().await.unwrap().query(sql, &[]).await.unwrap()
}

async fn count(world: &World) -> u64 {
    rows(world, "select count(*) from hubferry.webhook_events").await[0].get::<_, i64>(0).unsigned_abs()
}

/// Values by record and property.
type Values = BTreeMap<(String, String), Option<String>>;

fn held(world: &World) -> Values {
    let of = |contact: &hubspot_simulator::ContactView| {
        let id = contact.id.to_string();
        PROPERTIES.map(|name| ((id.clone(), name.to_owned()), contact.get(name).map(str::to_owned)))
    };
    world.hubspot.contacts().iter().flat_map(of).collect()
}

async fn projection(world: &World) -> Values {
    let sql = "select v.object_id::text, v.property, v.value
               from hubferry.crm_values v join hubferry.crm_records r using (portal_id, object_type, object_id)
               where r.state = 'live' and v.object_type = 'contact' and not v.tied";
    rows(world, sql).await.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect()
}

/// The same notifications, as rows alone: ten connections at once, a hundred rows a statement, into a table with the same
/// columns, checks and indexes.
async fn plain_inserts(world: &World) -> Measured {
    world.sql("create table hubferry.plain (like hubferry.webhook_events including all)").await;
    let all = rows(world, "select * from hubferry.webhook_events order by received_at").await;
    let db = Db::new(&world.database.url.clone().into(), AT_ONCE).unwrap();
    let batches: Vec<&[Row]> = all.chunks(IN_A_REQUEST).collect();
    let started = Instant::now();
    let turns = (0..AT_ONCE).map(async |turn| {
        let connection = db.connection().await.unwrap();
        let statement = connection.prepare(PLAIN).await.unwrap();
        let mut took = Vec::new();
        for rows in batches.iter().skip(turn).step_by(AT_ONCE) {
            let started = Instant::now();
            insert(&connection, &statement, rows).await;
            took.push(u64::try_from(started.elapsed().as_millis()).unwrap());
        }
        took
    });
    let mut answers: Vec<u64> = join_all(turns).await.concat();
    let took = started.elapsed();
    answers.sort_unstable();
    let at = |per_cent: usize| answers[(answers.len() * per_cent / 100).min(answers.len() - 1)];
    Measured { notifications: u64::try_from(all.len()).unwrap(), took, answers_ms: Some([at(50), at(99), at(100)]) }
}

async fn insert(connection: &Connection, statement: &Statement, rows: &[Row]) {
    macro_rules! column {
        ($type:ty, $name:literal) => {
            rows.iter().map(|row| row.get::<_, $type>($name)).collect::<Vec<$type>>()
        };
    }
    connection
        .execute(
            statement,
            &[
                &column!(Vec<u8>, "notification_key"),
                &column!(uuid::Uuid, "delivery_id"),
                &column!(i32, "position"),
                &column!(Option<i64>, "portal_id"),
                &column!(Option<String>, "subscription_type"),
                &column!(Option<String>, "object_type"),
                &column!(Option<i64>, "object_id"),
                &column!(Option<String>, "property_name"),
                &column!(Option<String>, "property_value"),
                &column!(Option<Timestamp>, "occurred_at"),
                &column!(Option<String>, "event_id"),
                &column!(Option<String>, "change_source"),
                &column!(Option<Value>, "details"),
            ],
        )
        .await
        .unwrap();
}
