//! A whole small world for a test: a database, queues, a simulated HubSpot, and the functions between them, driven step by
//! step until nothing is left to do.

mod deliveries;

use std::time::Duration;

use hubferry::adapters::budget::Budget;
use hubferry::adapters::db::{self, AcceptAnswer, Accepted, Db, NewPortal};
use hubferry::adapters::hubspot::{HubSpot, HubSpotConfig, NewProperty};
use hubferry::adapters::sqs::{QueueUrls, Sqs};
use hubferry::config::HubSpotTokens;
use hubferry::flows::dispatcher::{DispatchSummary, Dispatcher};
use hubferry::flows::reconciler::Reconciler;
use hubferry::flows::worker::{Worker, WorkerSummary};
use hubferry::model::envelope::{SigningKey, SigningKeys};
use hubferry::model::ids::PortalId;
use hubferry::model::mapping::Targets;
use hubferry::model::pacing::Pace;
use hubferry::model::plan::WriteMode;
use hubspot_simulator::{AccountConfig, BurstLimit, Simulator, SimulatorConfig};
use serde_json::{Value, json};
use sqs_emulator::event_source::{self, EventSourceMapping, Invocation};
use sqs_emulator::{QueueSettings, SqsEmulator};
use tokio_postgres::Client;

use crate::servers::{TestDatabase, fresh_database, redis_url};

/// What every message that a worker meets in tests is sealed with: 32 bytes of zero.
pub(crate) const SIGNING_KEY: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// The access token of the simulated portal.
pub(crate) const SIMULATOR_TOKEN: &str = "simulator-token";

/// A message that came so often without being acknowledged is a dead letter.
pub(crate) const MOST_RECEIVES: u32 = 5;

/// Deliveries of one invocation.
const INBOUND_BATCH: usize = 50;

/// Rounds after which a test that does not come to rest fails.
const MOST_ROUNDS: u32 = 200;

/// Time that an invocation has, by the function's own measure and by the platform's.
const INVOCATION_TIME: Duration = Duration::from_secs(90);

/// The settings that tests vary.
pub(crate) struct WorldConfig {
    /// Our own limit: calls in a window.
    pub(crate) call_limit: u32,
    /// Length of our window.
    pub(crate) call_window: Duration,
    /// HubSpot's limit in the same window.
    pub(crate) hubspot_limit: u32,
    /// How consent is written.
    pub(crate) write_mode: WriteMode,
    /// Messages in a bulk batch.
    pub(crate) bulk_batch: usize,
}

impl Default for WorldConfig {
    fn default() -> Self {
        Self {
            call_limit: 150,
            call_window: Duration::from_secs(10),
            hubspot_limit: 190,
            write_mode: WriteMode::Batch,
            bulk_batch: 500,
        }
    }
}

/// Everything there is.
pub(crate) struct World {
    pub(crate) db: Db,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) worker: Worker,
    pub(crate) reconciler: Reconciler,
    pub(crate) hubspot: Simulator,
    pub(crate) queues: SqsEmulator,
    pub(crate) portal: PortalId,
    pub(crate) database: TestDatabase,
    pub(crate) mappings: [EventSourceMapping; 3],
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(WorldConfig::default()).await
    }

    pub(crate) async fn with(config: WorldConfig) -> Self {
        hubferry::startup::tls();
        // A portal of its own, since all tests share one Redis.
        let portal = PortalId(rand::random_range(1..i64::MAX / 2));
        let database = fresh_database().await;
        let db = Db::new(&database.url.clone().into(), 6).unwrap();
        let hubspot = simulator(portal, &config).await;
        let queues = SqsEmulator::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let urls = create_queues(&queues);
        let client = HubSpot::new(HubSpotConfig::new(hubspot.base_url().parse().unwrap())).unwrap();
        let keys = SigningKeys { current: SigningKey::parse(SIGNING_KEY).unwrap(), next: None };
        let tokens = HubSpotTokens { default: SIMULATOR_TOKEN.into(), by_portal: [].into() };
        let batches = [(&urls.interactive, 10), (&urls.bulk, config.bulk_batch), (&urls.inbound, INBOUND_BATCH)];
        let mappings = batches.map(|(url, batch_size)| {
            let mut mapping = EventSourceMapping::new(url.clone());
            mapping.batch_size = batch_size;
            mapping.batching_window = Duration::from_secs(u64::from(batch_size > 10));
            mapping.report_batch_item_failures = true;
            mapping.function_timeout = INVOCATION_TIME;
            mapping
        });
        let sqs = Sqs::with_client(queues.client(), urls);
        let world = Self {
            dispatcher: Dispatcher { db: db.clone(), sqs: sqs.clone(), keys: keys.clone(), pace: Pace::default() },
            worker: Worker {
                db: db.clone(),
                budget: Budget::connect(&redis_url()).unwrap(),
                hubspot: client,
                tokens,
                keys,
            },
            reconciler: Reconciler { db: db.clone(), queues: Some(sqs), queued_too_long: Duration::from_mins(5) },
            db,
            hubspot,
            queues,
            portal,
            database,
            mappings,
        };
        world.configure(&config).await;
        world
    }

    /// A portal, its unique property, the brand `acme` with the products `newsletter` and `events`, and their mappings.
    async fn configure(&self, config: &WorldConfig) {
        let connection = self.db.connection().await.unwrap();
        let portal = NewPortal {
            portal_id: self.portal,
            name: "test".into(),
            call_limit: config.call_limit,
            call_window: config.call_window,
            write_mode: config.write_mode,
            unique_property: "hubferry_contact_key".into(),
            api_version: None,
        };
        db::ensure_portal(&*connection, &portal).await.unwrap();
        self.map("newsletter", newsletter_targets()).await;
        self.map("events", json!({"contact_properties": {"firstname": "firstname"}, "subscription_type": 1003})).await;
        let token = SIMULATOR_TOKEN.into();
        let property = NewProperty {
            name: "hubferry_contact_key".into(),
            label: "Contact key".into(),
            group: "contactinformation".into(),
            description: "The contact's key".into(),
            unique: true,
        };
        self.worker.hubspot.account(self.portal, &token).create_property(&property).await.result.unwrap();
        self.hubspot.reset_stats();
    }

    /// Makes these targets the active mapping of a product of `acme`.
    pub(crate) async fn map(&self, product: &str, targets: Value) {
        let targets: Targets = serde_json::from_value(targets).unwrap();
        let connection = self.db.connection().await.unwrap();
        db::ensure_product(&*connection, self.portal, "acme", product).await.unwrap();
        db::push_mapping(&*connection, "acme", product, &targets).await.unwrap();
        db::activate_mapping(&*connection, "acme", product, None).await.unwrap();
    }

    /// Accepts requests; panics unless every one is accepted.
    pub(crate) async fn accept(&self, requests: Vec<Value>) -> Vec<Accepted> {
        let connection = self.db.connection().await.unwrap();
        let mut accepted = Vec::new();
        for chunk in requests.chunks(500) {
            let answers = db::accept_subscriptions(&*connection, &json!(chunk), None).await.unwrap();
            accepted.extend(answers.into_iter().map(AcceptAnswer::unwrap));
        }
        accepted
    }

    /// One round of the dispatcher, then every message that is there.
    pub(crate) async fn step(&self) -> (DispatchSummary, WorkerSummary) {
        let published = self.dispatcher.run_once().await.unwrap();
        (published, self.work_off_queues().await)
    }

    /// Hands every message that is there to the worker.
    pub(crate) async fn work_off_queues(&self) -> WorkerSummary {
        let total = std::sync::Arc::new(std::sync::Mutex::new(WorkerSummary::default()));
        for mapping in &self.mappings {
            let handler = |event, invocation: Invocation| {
                let (worker, total) = (self.worker.clone(), total.clone());
                async move {
                    let (response, summary) = worker.handle(event, invocation.deadline).await?;
                    add(&mut total.lock().unwrap(), &summary);
                    Ok(response)
                }
            };
            event_source::drain(&self.queues.client(), mapping, &handler).await.unwrap();
        }
        total.lock().unwrap().clone()
    }

    /// Steps until every event is finished. Whatever waits for its time is made due, so that nothing is slept through.
    pub(crate) async fn drain(&self) -> WorkerSummary {
        let mut total = WorkerSummary::default();
        for _ in 0..MOST_ROUNDS {
            let (_, worked) = self.step().await;
            add(&mut total, &worked);
            if self.unfinished().await == 0 {
                return total;
            }
            self.make_due().await;
        }
        panic!("events are left unfinished: {:?}", self.statuses().await);
    }

    /// What waits for its time is due now.
    pub(crate) async fn make_due(&self) {
        self.sql("update hubferry.outbox_events set next_attempt_at = clock_timestamp() where status in ('pending', 'retry')").await;
    }

    pub(crate) async fn unfinished(&self) -> i64 {
        let connection = self.db.connection().await.unwrap();
        let sql = "select count(*) from hubferry.outbox_events where finished_at is null";
        connection.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Events by status and reason, for assertions and for failing tests.
    pub(crate) async fn statuses(&self) -> Vec<(String, Option<String>, i64)> {
        let connection = self.db.connection().await.unwrap();
        let sql = "select status, last_error_code, count(*) from hubferry.outbox_events group by 1, 2 order by 1, 2";
        let rows = connection.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
    }

    /// Status and reason of one event.
    pub(crate) async fn status_of(&self, accepted: &Accepted) -> (String, Option<String>) {
        let connection = self.db.connection().await.unwrap();
        let sql = "select status, last_error_code from hubferry.outbox_events where event_id = $1";
        let row = connection.query_one(sql, &[&accepted.event_id]).await.unwrap();
        (row.get(0), row.get(1))
    }

    /// Returns once a statement in this world's database waits for a lock.
    pub(crate) async fn somebody_waits_for_a_lock(&self) {
        let connection = self.db.connection().await.unwrap();
        let sql =
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
        while connection.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Rows read by scans from end to end so far, after the session of this pool of one has told its own.
    pub(crate) async fn rows_read_by_scans(&self, session: &Db) -> i64 {
        let told = session.connection().await.unwrap();
        told.batch_execute("select pg_stat_force_next_flush()").await.unwrap();
        drop(told);
        let connection = self.db.connection().await.unwrap();
        let sql =
            "select coalesce(sum(seq_tup_read), 0)::bigint from pg_stat_user_tables where schemaname = 'hubferry'";
        connection.query_one(sql, &[]).await.unwrap().get(0)
    }

    pub(crate) async fn sql(&self, sql: &str) {
        let connection = self.db.connection().await.unwrap();
        let client: &Client = &connection;
        client.batch_execute(sql).await.unwrap();
    }
}

/// A request of a contact without a key, under an idempotency key of its own.
pub(crate) fn request(email: &str, state: &str) -> Value {
    json!({
        "idempotency_key": uuid::Uuid::new_v4().to_string(),
        "brand": "acme",
        "product": "newsletter",
        "contact": {"email": email, "properties": {"firstname": "Ada"}},
        "desired_state": state,
        "consent": {"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "sign-up form"},
        "lane": "bulk",
    })
}

/// The same request with some members replaced.
pub(crate) fn with(mut request: Value, changes: Value) -> Value {
    let (Value::Object(members), Value::Object(changes)) = (&mut request, changes) else { panic!("not objects") };
    members.extend(changes);
    request
}

pub(crate) fn newsletter_targets() -> Value {
    json!({
        "contact_properties": {"firstname": "firstname", "lastname": "lastname", "company": "company"},
        "subscription_type": 1001,
        "segments": {"subscribed": {"add": ["101"]}, "unsubscribed": {"remove": ["101"]}},
    })
}

async fn simulator(portal: PortalId, config: &WorldConfig) -> Simulator {
    let window_ms = u64::try_from(config.call_window.as_millis()).unwrap();
    let account = AccountConfig {
        burst: Some(BurstLimit { calls: config.hubspot_limit, window_ms }),
        batch_consent: config.write_mode == WriteMode::Batch,
        ..AccountConfig::new(portal.0.unsigned_abs(), SIMULATOR_TOKEN)
    };
    Simulator::start(SimulatorConfig { accounts: vec![account], ..SimulatorConfig::default() }).await.unwrap()
}

fn create_queues(queues: &SqsEmulator) -> QueueUrls {
    let url = |name: &str| {
        let settings = QueueSettings::new(name).dead_letter(format!("{name}-dead-letters"), MOST_RECEIVES);
        queues.create_queue(settings).unwrap()
    };
    QueueUrls { interactive: url("interactive"), bulk: url("bulk"), inbound: url("inbound") }
}

fn add(total: &mut WorkerSummary, more: &WorkerSummary) {
    total.messages += more.messages;
    total.quarantined += more.quarantined;
    total.claimed += more.claimed;
    total.synced += more.synced;
    total.superseded += more.superseded;
    total.cancelled += more.cancelled;
    total.retried += more.retried;
    total.snoozed += more.snoozed;
    total.dead += more.dead;
    total.busy += more.busy;
    total.settled += more.settled;
    total.unknown += more.unknown;
    total.deferred += more.deferred;
    total.lost += more.lost;
    total.calls += more.calls;
    total.denied_reads += more.denied_reads;
}
