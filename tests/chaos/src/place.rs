//! Where a run takes place: a database of its own, a simulated HubSpot, queues, and a free port for the intake.

use std::net::TcpListener;
use std::time::Duration;

use anyhow::Context as _;
use hubferry::adapters::budget::Budget;
use hubferry::config::Environment;
use hubferry::model::budget::Bucket;
use hubferry::model::ids::PortalId;
use hubspot_simulator::{AccountConfig, BurstLimit, Latency, ListConfig, ProcessingType, Simulator, SimulatorConfig};
use rand::Rng as _;
use sqs_emulator::{QueueSettings, SqsEmulator};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};
use url::Url;

use crate::people::PRODUCTS;
use crate::scenario::Scenario;

/// The queues, as `hubferry up` names them.
pub(crate) const QUEUES: [&str; 3] = ["hubferry-interactive", "hubferry-bulk", "hubferry-inbound"];

/// The simulator's access token.
pub(crate) const HUBSPOT_TOKEN: &str = "simulator-token";

/// Redis databases, one a seed in turn, away from those that the integration tests use.
const REDIS_DATABASES: std::ops::Range<u64> = 8..16;

/// No shorter than an invocation of `hubferry up` may take, as AWS demands. Time in the queues is moved forward instead of
/// waited for.
pub(crate) const VISIBILITY: Duration = Duration::from_secs(90);

/// As many as SQS allows: here a message is not to blame for the worker that dies with it.
const MOST_RECEIVES: u32 = 1000;

/// Everything that outlives the processes of a run.
pub(crate) struct Place {
    pub(crate) scenario: Scenario,
    pub(crate) folder: TempDir,
    pub(crate) database: String,
    pub(crate) database_url: Url,
    pub(crate) redis_url: Url,
    pub(crate) db: Client,
    pub(crate) budget: Budget,
    pub(crate) simulator: Simulator,
    pub(crate) queues: SqsEmulator,
    pub(crate) portal: PortalId,
    pub(crate) api: u16,
    pub(crate) http: reqwest::Client,
    server_url: Url,
}

impl Place {
    pub(crate) async fn new(scenario: Scenario) -> anyhow::Result<Self> {
        let mut environment = Environment::read();
        let server = environment.required("HUBFERRY_TEST_DATABASE_URL", "run `make chaos`");
        let redis = environment.required("HUBFERRY_TEST_REDIS_URL", "run `make chaos`");
        environment.finish()?;
        let server_url = Url::parse(&server).context("HUBFERRY_TEST_DATABASE_URL is no URL")?;
        let mut redis_url = Url::parse(&redis).context("HUBFERRY_TEST_REDIS_URL is no URL")?;
        let databases = REDIS_DATABASES.end - REDIS_DATABASES.start;
        redis_url.set_path(&(REDIS_DATABASES.start + scenario.seed % databases).to_string());

        let folder = tempfile::Builder::new().prefix("hubferry-chaos-").tempdir()?;
        // Not drawn from the seed: a repeat of a seed must not meet what an earlier run left.
        let portal = PortalId(rand::rng().random_range(1..i64::from(i32::MAX)));
        let database = format!("hubferry_chaos_{}_{}", scenario.seed, portal.0);
        let mut database_url = server_url.clone();
        database_url.set_path(&database);
        connect(&server_url).await?.batch_execute(&format!("create database {database}")).await?;
        hubferry::adapters::db::migrate(&database_url.as_str().into()).await?;
        let simulator = simulator(&scenario, portal, &folder).await?;
        let place = Self {
            db: connect(&database_url).await?,
            budget: Budget::connect(redis_url.as_str())?,
            queues: queues().await?,
            api: free_port()?,
            http: client()?,
            scenario,
            folder,
            database,
            database_url,
            redis_url,
            simulator,
            portal,
            server_url,
        };
        crate::setting::configure(&place).await?;
        crate::audit::install(&place.db).await?;
        place.simulator.reset_stats();
        Ok(place)
    }

    /// The window of calls that all workers share.
    pub(crate) fn bucket(&self) -> Bucket {
        Bucket::calls(self.portal, self.scenario.call_limit, self.scenario.window)
    }

    /// Drops the database and deletes the folder.
    pub(crate) async fn remove(self) -> anyhow::Result<()> {
        let drop = format!("drop database if exists {} with (force)", self.database);
        connect(&self.server_url).await?.batch_execute(&drop).await?;
        Ok(())
    }

    /// Leaves the database and the folder behind, and says where they are.
    pub(crate) fn keep(self) -> String {
        let folder = self.folder.keep();
        format!("kept: database {}, logs and the simulator's journal in {}", self.database, folder.display())
    }
}

/// A connection of the harness.
pub(crate) async fn connect(url: &Url) -> anyhow::Result<Client> {
    let mut url = url.clone();
    url.set_query(Some("application_name=chaos"));
    let (client, connection) = tokio_postgres::connect(url.as_str(), NoTls).await.context("PostgreSQL is away")?;
    tokio::spawn(connection);
    Ok(client)
}

async fn simulator(scenario: &Scenario, portal: PortalId, folder: &TempDir) -> anyhow::Result<Simulator> {
    let window_ms = u64::try_from(scenario.window.as_millis())?;
    let segments = PRODUCTS.iter().flat_map(|product| [Some(product.joined), product.left]).flatten();
    let account = AccountConfig {
        // As strict as we are ourselves: one call too many is a 429.
        burst: Some(BurstLimit { calls: scenario.call_limit, window_ms }),
        batch_consent: !scenario.single,
        lists: segments.map(|id| ListConfig::new(id, format!("Segment {id}"), ProcessingType::Manual)).collect(),
        ..AccountConfig::new(portal.0.unsigned_abs(), HUBSPOT_TOKEN)
    };
    let config = SimulatorConfig {
        accounts: vec![account],
        seed: scenario.seed,
        latency: Some(Latency { min_ms: scenario.latency.0, max_ms: scenario.latency.1 }),
        state_file: Some(folder.path().join("simulator.jsonl")),
        ..SimulatorConfig::default()
    };
    Simulator::start(config).await
}

async fn queues() -> anyhow::Result<SqsEmulator> {
    let emulator = SqsEmulator::start(([127, 0, 0, 1], 0).into()).await?;
    for name in QUEUES {
        let dead_letters = format!("{name}-dead-letters");
        emulator.create_queue(QueueSettings::new(&dead_letters))?;
        emulator.create_queue(
            QueueSettings::new(name).visibility_timeout(VISIBILITY).dead_letter(dead_letters, MOST_RECEIVES),
        )?;
    }
    Ok(emulator)
}

/// A port that was free a moment ago.
fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

#[expect(clippy::disallowed_methods, reason = "a client of the harness, with time limits of its own")]
fn client() -> anyhow::Result<reqwest::Client> {
    Ok(reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build()?)
}
