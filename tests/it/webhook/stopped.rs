//! PostgreSQL stops while HubSpot delivers: 503, then HubSpot's repeats, and nothing is missing.

use std::path::Path;
use std::process::Stdio;

use hubferry::adapters::db::{self, Db};
use hubferry::flows::webhook::{LOCAL_PATH, SecretSource, Webhook, WebhookSettings};
use hubspot_simulator::{Simulator, SimulatorConfig, WebhookConfig, WebhookStats};
use tokio::net::TcpListener;
use tokio::process::Command;

use super::{PORTAL, SECRET, app, settings};
use crate::accepting::setting::FAR_TOO_LONG;
use crate::servers::redis_url;

const SERVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/local/servers.sh");

/// Contacts that are made while PostgreSQL runs, and as many while it does not.
const CONTACTS: usize = 1_000;

/// A contact with these properties is three notifications: its creation, its address, its name.
const NOTIFICATIONS_PER_CONTACT: usize = 3;

/// HubSpot's day of repeats, in a minute and a half.
const RETRY_SCALE: f64 = 0.001;

/// Deliveries that PostgreSQL's absence has cost before it comes back.
const LEAST_REFUSED: u64 = 15;

/// A PostgreSQL that this test alone uses, and may stop.
struct OwnPostgres {
    folder: tempfile::TempDir,
}

impl OwnPostgres {
    async fn start() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let postgres = Self { folder };
        postgres.run("start").await;
        postgres
    }

    async fn run(&self, verb: &str) {
        let mut command = Command::new(SERVERS);
        command.arg(verb).arg(self.folder.path()).arg("--test").env_remove("HUBFERRY_TEST_DATABASE_URL");
        command.env("HUBFERRY_TEST_REDIS_URL", redis_url()).stdout(Stdio::null());
        assert!(command.status().await.expect("a shell").success(), "servers.sh {verb}");
    }

    fn url(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("stack.env")).expect("stack.env");
        let url = text.lines().find_map(|line| line.strip_prefix("HUBFERRY_TEST_DATABASE_URL=")).expect("a URL");
        url.replace('\\', "")
    }
}

impl Drop for OwnPostgres {
    /// Whatever became of the test, no server outlives it.
    fn drop(&mut self) {
        let folder: &Path = self.folder.path();
        let _ = std::process::Command::new(SERVERS).arg("stop").arg(folder).stdout(Stdio::null()).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgresql_stops_in_the_middle_and_nothing_is_missing_after_the_repeats() {
    let postgres = OwnPostgres::start().await;
    let url = postgres.url();
    db::migrate(&url.clone().into()).await.expect("a schema");
    let db = Db::new(&url.into(), 10).expect("a URL");
    let portal = format!("insert into hubferry.portals (portal_id, name) values ({PORTAL}, 'main')");
    db.connection().await.expect("a connection").batch_execute(&portal).await.expect("a portal");
    let simulator = simulator(serve(db.clone()).await).await;

    add_contacts(&simulator, "before");
    until(&simulator, |stats| stats.delivered > 0).await;
    postgres.run("stop").await;
    add_contacts(&simulator, "during");
    until(&simulator, |stats| stats.statuses.get(&503).is_some_and(|refused| *refused >= LEAST_REFUSED)).await;
    postgres.run("start").await;
    until(&simulator, |stats| (stats.pending, stats.waiting, stats.in_flight) == (0, 0, 0)).await;

    let stats = simulator.webhook_stats();
    assert_eq!(stats.given_up, 0, "{stats:?}");
    assert_eq!(stats.statuses.keys().collect::<Vec<_>>(), [&200, &503], "{stats:?}");
    let count = async |what: &str| -> usize {
        let connection = db.connection().await.expect("a connection");
        let sql = format!("select count(*) from hubferry.{what}");
        let row = connection.query_one(&sql, &[]).await.expect("a count");
        usize::try_from(row.get::<_, i64>(0)).expect("a count")
    };
    assert_eq!(count("webhook_events where state = 'received'").await, 2 * CONTACTS * NOTIFICATIONS_PER_CONTACT);
    assert_eq!(count("webhook_events where subscription_type = 'contact.creation'").await, 2 * CONTACTS);
    // What was stored though its answer came too late is known when it comes again, and makes no second event.
    let events = count("outbox_events where kind = 'webhook.delivery.v1'").await;
    assert_eq!(count("webhook_deliveries where fresh > 0").await, events);
}

/// The function, behind an address of its own. Returns the address.
async fn serve(db: Db) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}{LOCAL_PATH}", listener.local_addr().expect("an address"));
    let source = SecretSource::Environment(vec![app(SECRET, None)]);
    let router = Webhook::new(db, WebhookSettings { url: url.clone(), ..settings(source) }).router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

async fn simulator(target: String) -> Simulator {
    let webhooks = WebhookConfig { retry_scale: RETRY_SCALE, ..WebhookConfig::new(target, SECRET) };
    let config = SimulatorConfig { webhooks: Some(webhooks), ..SimulatorConfig::default() };
    Simulator::start(config).await.expect("a simulator")
}

fn add_contacts(simulator: &Simulator, when: &str) {
    for person in 0..CONTACTS {
        let email = format!("{when}-{person}@example.test");
        simulator.seed_contact(&[("email", &email), ("firstname", "Ada")]).expect("a contact");
    }
}

async fn until(simulator: &Simulator, is_so: impl Fn(&WebhookStats) -> bool) {
    let looking = async {
        while !is_so(&simulator.webhook_stats()) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let ended = tokio::time::timeout(2 * FAR_TOO_LONG, looking).await;
    assert!(ended.is_ok(), "it does not come: {:?}", simulator.webhook_stats());
}
