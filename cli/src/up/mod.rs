//! `hubferry up`: everything in one process, or a part of it.
//!
//! The handlers are those of the Lambda functions. What AWS does around them is played here: API Gateway by an HTTP server
//! over the same router, the event source mappings by the SQS emulator's, the schedules by two loops.

mod components;
mod demo;
mod place;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use hubferry::adapters::db::{self, Db};
use hubferry::adapters::sqs::{QueueUrls, Sqs};
use hubferry::config::Environment;
use hubferry::startup;
use hubspot_simulator::{AccountConfig, BurstLimit, Simulator, SimulatorConfig};
use sqs_emulator::{QueueSettings, SqsEmulator};
use tracing_subscriber::EnvFilter;

use components::Component;
use place::Place;

/// Invocations may take this long here. Long enough for a batch to wait for its slot in the budget.
const INVOCATION_TIME: Duration = Duration::from_secs(90);

/// Hidden for six invocations, as AWS recommends for a queue with a function behind it.
const VISIBILITY: Duration = Duration::from_secs(6 * INVOCATION_TIME.as_secs());

/// A message that killed its worker this often goes to the dead-letter queue.
const MOST_RECEIVES: u32 = 5;

/// After Ctrl-C, what runs may take this long to end; what does not end is taken over by its lease.
const STOP_TIME: Duration = Duration::from_secs(10);

/// Ready once, for everybody: the signal to stop.
pub(crate) type Stop = Shared<BoxFuture<'static, ()>>;

/// Arguments of `hubferry up`.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Run only these parts, beside another `hubferry up` of the same folder that runs the rest
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    only: Vec<Component>,
    /// Where the API listens
    #[arg(long, default_value = "127.0.0.1:8787", value_name = "ADDRESS")]
    api: SocketAddr,
    /// Where the HubSpot simulator listens
    #[arg(long, default_value = "127.0.0.1:8788", value_name = "ADDRESS")]
    simulator: SocketAddr,
    /// Where the SQS emulator listens
    #[arg(long, default_value = "127.0.0.1:8789", value_name = "ADDRESS")]
    queues: SocketAddr,
    /// Calls in ten seconds that the simulated HubSpot allows
    #[arg(long, default_value_t = 190, value_name = "CALLS")]
    simulator_limit: u32,
    /// Calls in ten seconds that we allow ourselves for the demo portal
    #[arg(long, default_value_t = 150, value_name = "CALLS")]
    call_limit: u32,
    /// Do not let the simulator report its changes to the API as webhooks
    #[arg(long)]
    no_webhooks: bool,
}

/// Runs until Ctrl-C, or until a part fails.
pub(crate) async fn run(args: UpArgs, environment: Environment) -> anyhow::Result<()> {
    let filter =
        environment.optional("HUBFERRY_LOG").unwrap_or_else(|| "info,aws_config=warn,aws_smithy_runtime=warn".into());
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_target(false)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_writer(std::io::stderr)
        .init();
    let parts = components::chosen(&args.only);
    let simulated = environment.optional("HUBFERRY_HUBSPOT_TOKEN").is_none();
    let mut place = Place::prepare(environment, &args, simulated)?;

    let database = place.environment.database_url();
    let redis = place.environment.redis_url();
    let migrated = db::migrate(&database).await?;
    place::check_redis(&redis).await?;
    let simulator = if simulated && parts.contains(&Component::Simulator) {
        Some(start_simulator(&args, &place).await?)
    } else {
        None
    };
    let queues = if parts.contains(&Component::Queues) { Some(start_queues(&args, &database).await?) } else { None };
    if simulated && parts.contains(&Component::Intake) {
        demo::ensure(&Db::new(&database, 1)?, &place, args.call_limit).await?;
    }

    let stop = stop_signal();
    let running = components::start(&parts, &place, &args, &stop).await?;
    place::greet(&args, &place, &parts, &migrated, simulated);
    let ended = components::until_stopped(running, stop, STOP_TIME).await;
    drop((simulator, queues));
    ended
}

async fn start_simulator(args: &UpArgs, place: &Place) -> anyhow::Result<Simulator> {
    let account = AccountConfig {
        burst: Some(BurstLimit { calls: args.simulator_limit, ..BurstLimit::default() }),
        ..AccountConfig::new(demo::PORTAL.0.unsigned_abs(), demo::HUBSPOT_TOKEN)
    };
    let config = SimulatorConfig {
        listen: args.simulator,
        accounts: vec![account],
        state_file: Some(place.folder.join("hubspot-simulator.jsonl")),
        webhooks: place.simulated_webhooks.clone(),
        ..SimulatorConfig::default()
    };
    Simulator::start(config).await.with_context(|| {
        format!("the HubSpot simulator can't listen on {}: choose another with --simulator", args.simulator)
    })
}

/// The emulator's queues are empty after a start. So every event that is queued by its row is an orphan, and is republished
/// at once instead of when its time is up.
async fn start_queues(args: &UpArgs, database: &secrecy::SecretString) -> anyhow::Result<SqsEmulator> {
    let emulator = SqsEmulator::start(args.queues)
        .await
        .with_context(|| format!("the SQS emulator can't listen on {}: choose another with --queues", args.queues))?;
    for name in ["hubferry-interactive", "hubferry-bulk", "hubferry-inbound"] {
        let dead_letters = format!("{name}-dead-letters");
        emulator.create_queue(QueueSettings::new(&dead_letters))?;
        emulator.create_queue(
            QueueSettings::new(name).visibility_timeout(VISIBILITY).dead_letter(dead_letters, MOST_RECEIVES),
        )?;
    }
    let connection = Db::new(database, 1)?;
    let connection = connection.connection().await?;
    while db::republish_orphans(&*connection, Duration::ZERO, 1000).await? > 0 {}
    Ok(emulator)
}

/// The queues, wherever the emulator runs.
fn queue_urls(args: &UpArgs) -> QueueUrls {
    let url = |name: &str| format!("http://{}/000000000000/{name}", args.queues);
    QueueUrls { interactive: url("hubferry-interactive"), bulk: url("hubferry-bulk"), inbound: url("hubferry-inbound") }
}

fn sqs(args: &UpArgs) -> Sqs {
    Sqs::with_client(sqs_client(args), queue_urls(args))
}

fn sqs_client(args: &UpArgs) -> aws_sdk_sqs::Client {
    sqs_emulator::client_for(&format!("http://{}", args.queues))
}

/// The signal to stop, for every part of the stack.
fn stop_signal() -> Stop {
    async {
        crate::interrupted().await;
        tracing::info!("Stopping. What runs may end; press Ctrl-C again to leave it to its leases.");
    }
    .boxed()
    .shared()
}

/// A worker's pool and the like are sized for Lambda; nothing differs here.
fn worker(place: &Place) -> anyhow::Result<hubferry::flows::worker::Worker> {
    startup::worker(place.environment.clone())
}
