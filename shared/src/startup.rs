//! What every process does first: TLS, logging, configuration, clients. Nothing here connects, so that a start does not wait
//! for a server that is away.

use std::time::{Duration, Instant, SystemTime};

use lambda_runtime::{Context, Diagnostic};
use secrecy::ExposeSecret as _;
use tracing_subscriber::EnvFilter;

use crate::adapters::budget::Budget;
use crate::adapters::db::Db;
use crate::adapters::hubspot::{CALL_TIME_LIMIT, HubSpot, HubSpotConfig};
use crate::adapters::sqs::Sqs;
use crate::clock;
use crate::config::{ConfigError, Environment};
use crate::failpoint::scaled;
use crate::flows::dispatcher::Dispatcher;
use crate::flows::intake::Intake;
use crate::flows::reconciler::{QUEUED_TOO_LONG, Reconciler};
use crate::flows::webhook::Webhook;
use crate::flows::worker::Worker;
use crate::invocation::report_panics;
use crate::model::pacing::Pace;

/// Connections of a process that handles one invocation at a time with one statement at a time.
const ONE_CONNECTION: usize = 1;

/// Connections of a worker: the batch itself, the renewal of its leases beside it, and portals side by side.
pub const WORKER_CONNECTIONS: usize = 3;

/// Installs the one TLS provider of the process: rustls panics at the first connection when there is none, or more than one.
pub fn tls() {
    // A second call in one process, as tests make it, finds the provider installed and is no error.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// TLS, and logging as CloudWatch reads it: one JSON object a line with `timestamp` and `level`.
pub fn lambda() {
    tls();
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false)
        .with_env_filter(EnvFilter::new("info,aws_config=warn,aws_smithy_runtime=warn"))
        .init();
    report_panics();
}

/// The intake, from the environment.
pub fn intake(environment: Environment) -> anyhow::Result<Intake> {
    intake_with(environment, ONE_CONNECTION)
}

/// The intake with this many connections, for a server that answers many requests at once.
pub fn intake_with(mut environment: Environment, connections: usize) -> anyhow::Result<Intake> {
    let database = environment.database_url();
    environment.finish()?;
    Ok(Intake::new(Db::new(&database, connections)?))
}

/// The webhook function, from the environment.
pub fn webhook(environment: Environment) -> anyhow::Result<Webhook> {
    webhook_with(environment, ONE_CONNECTION)
}

/// The webhook function with this many connections, for a server that answers many requests at once.
pub fn webhook_with(mut environment: Environment, connections: usize) -> anyhow::Result<Webhook> {
    let (database, settings) = (environment.database_url(), environment.webhook());
    environment.finish()?;
    let settings = settings.ok_or_else(|| ConfigError(vec!["HUBFERRY_WEBHOOK_URL is not set".into()]))?;
    Ok(Webhook::new(Db::new(&database, connections)?, settings))
}

/// The dispatcher, from the environment.
pub async fn dispatcher(mut environment: Environment) -> anyhow::Result<Dispatcher> {
    let urls = environment.queue_urls();
    dispatcher_with(environment, Sqs::new(urls).await)
}

/// The dispatcher with queues that were reached some other way.
pub fn dispatcher_with(mut environment: Environment, sqs: Sqs) -> anyhow::Result<Dispatcher> {
    let (database, keys) = (environment.database_url(), environment.signing_keys());
    environment.finish()?;
    let keys = keys.ok_or_else(|| ConfigError(vec!["HUBFERRY_SIGNING_KEY is not set".into()]))?;
    Ok(Dispatcher { db: Db::new(&database, ONE_CONNECTION)?, sqs, keys, pace: Pace::default() })
}

/// A worker, from the environment.
pub fn worker(mut environment: Environment) -> anyhow::Result<Worker> {
    let (database, redis) = (environment.database_url(), environment.redis_url());
    let (keys, hubspot) = (environment.signing_keys(), environment.hubspot());
    environment.finish()?;
    let keys = keys.ok_or_else(|| ConfigError(vec!["HUBFERRY_SIGNING_KEY is not set".into()]))?;
    let settings = hubspot.ok_or_else(|| ConfigError(vec!["HUBFERRY_HUBSPOT_URL is no URL".into()]))?;
    let client = HubSpotConfig {
        versions: settings.versions,
        call_time_limit: scaled(CALL_TIME_LIMIT),
        ..HubSpotConfig::new(settings.url)
    };
    Ok(Worker {
        db: Db::new(&database, WORKER_CONNECTIONS)?,
        budget: Budget::connect(redis.expose_secret())?,
        hubspot: HubSpot::new(client)?,
        tokens: settings.tokens,
        keys,
    })
}

/// The reconciler, from the environment.
pub async fn reconciler(environment: Environment) -> anyhow::Result<Reconciler> {
    let queues = match environment.known_queue_urls() {
        Some(urls) => Some(Sqs::new(urls).await),
        None => None,
    };
    reconciler_with(environment, queues)
}

/// The reconciler with queues that were reached some other way.
pub fn reconciler_with(mut environment: Environment, queues: Option<Sqs>) -> anyhow::Result<Reconciler> {
    let database = environment.database_url();
    environment.finish()?;
    Ok(Reconciler { db: Db::new(&database, ONE_CONNECTION)?, queues, queued_too_long: QUEUED_TOO_LONG })
}

/// When an invocation ends, by this process's monotonic clock.
pub fn deadline(context: &Context) -> Instant {
    let left = context.deadline().duration_since(SystemTime::from(clock::now())).unwrap_or(Duration::ZERO);
    Instant::now() + left
}

/// What Lambda is told of a failed invocation: a type that a metric filter can name, and the chain of causes.
pub fn diagnostic(error_type: &str, error: &anyhow::Error) -> Diagnostic {
    Diagnostic { error_type: error_type.to_owned(), error_message: format!("{error:#}") }
}
