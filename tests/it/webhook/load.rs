//! An import in HubSpot: its notifications come ten requests at once, some answers get lost, and in the end the projection is
//! what HubSpot holds.

mod plain;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::time::{Duration, Instant};

use hubferry::adapters::db::Db;
use hubferry::flows::webhook::{LOCAL_PATH, SecretSource, Webhook, WebhookSettings};
use hubspot_simulator::{WebhookConfig, WebhookStats};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_postgres::Row;

use super::{SECRET, app, settings};
use crate::world::{World, WorldConfig};
use plain::plain_inserts;

/// One answer in twenty gets lost.
const LOST_SHARE: f64 = 0.05;

/// Of only some forty answers every third, so that some are lost for certain: that none is would happen once in two million runs.
const LOST_SHARE_OF_FEW: f64 = 0.33;

/// HubSpot's day of repeats, in nine seconds: the first repeat comes after 6 ms, amid what is sent for the first time.
const RETRY_SCALE: f64 = 0.000_1;

/// HubSpot hangs up after this.
const HUBSPOT_WAITS: Duration = Duration::from_secs(5);

/// HubSpot's requests at once, and its notifications in one; so are pgbench's clients, and its rows in a transaction.
const AT_ONCE: usize = 10;
const IN_A_REQUEST: usize = 100;

/// Contacts of one write.
const WRITTEN_AT_ONCE: usize = 100;

/// Far above what any of these takes.
const FAR_TOO_LONG: Duration = Duration::from_mins(20);

/// Properties that are compared.
const PROPERTIES: [&str; 2] = ["email", "firstname"];

#[tokio::test(flavor = "multi_thread")]
async fn after_an_import_whose_answers_were_lost_the_projection_is_what_hubspot_holds() {
    let (world, received, projected) = import(1_000, LOST_SHARE_OF_FEW).await;
    let plain = plain_inserts(&world).await;
    assert_eq!(plain.notifications, received.notifications);
    let columns = "notification_key, delivery_id, position, portal_id, subscription_type, object_type, object_id,
                   property_name, property_value, occurred_at, event_id, change_source, details";
    let other = format!("select {columns} from hubferry.webhook_events except select {columns} from hubferry.plain");
    assert_eq!(
        number(&world, &format!("select count(*) from ({other}) as other")).await,
        0,
        "the measure has other rows"
    );
    let report = report(&received, &projected, &plain);
    assert!(report.contains("received ÷ plain: 0."), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: `make webhook-load`"]
async fn fifty_thousand_contacts_are_imported() {
    let (world, received, projected) = import(50_000, LOST_SHARE).await;
    let plain = plain_inserts(&world).await;
    std::io::stderr().write_all(report(&received, &projected, &plain).as_bytes()).unwrap();
    let highest = received.latency.as_ref().map(|latency| latency.highest);
    assert!(highest.is_some_and(|highest| highest < HUBSPOT_WAITS), "{received}");
}

fn report(received: &Measured, projected: &Measured, plain: &Measured) -> String {
    let share = received.a_second() / plain.a_second();
    format!(
        "\nreceived:  {received}\nprojected: {projected}\nplain:     {plain} (pgbench)\nreceived ÷ plain: {share:.2}\n"
    )
}

/// What a part took.
struct Measured {
    notifications: u64,
    took: Duration,
    /// Where there were answers.
    latency: Option<Latency>,
}

/// How long answers took: half of them, 99 of 100, all of them, and on average where that was measured.
#[derive(Default)]
struct Latency {
    half: Duration,
    most: Duration,
    highest: Duration,
    average: Option<Duration>,
}

impl Latency {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |per_cent: usize| times[(times.len() * per_cent / 100).min(times.len() - 1)];
        Self { half: at(50), most: at(99), highest: at(100), average: None }
    }
}

impl Measured {
    fn a_second(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a rate for a person to read")]
        let notifications = self.notifications as f64;
        notifications / self.took.as_secs_f64()
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows in {:.1} s: {:.0} a second", self.notifications, self.took.as_secs_f64(), self.a_second())?;
        let Some(latency) = &self.latency else { return Ok(()) };
        write!(f, "; p50 {:.1?}, p99 {:.1?}, highest {:.1?}", latency.half, latency.most, latency.highest)?;
        latency.average.map_or(Ok(()), |average| write!(f, ", average {average:.1?}"))
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
    let [half, most, highest] = stats.answer_ms.map(Duration::from_millis);
    let received = Measured {
        notifications: number(&world, "select count(*) from hubferry.webhook_events").await,
        took: started.elapsed(),
        latency: Some(Latency { half, most, highest, average: None }),
    };
    assert_eq!(received.notifications, u64::try_from(contacts * 3 + contacts / 2).unwrap());

    let started = Instant::now();
    let worked = world.drain().await;
    let projected = Measured { notifications: received.notifications, took: started.elapsed(), latency: None };
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

async fn number(world: &World, sql: &str) -> u64 {
    rows(world, sql).await[0].get::<_, i64>(0).unsigned_abs()
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
