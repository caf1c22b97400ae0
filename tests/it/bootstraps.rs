//! The functions as Lambda runs them: each a process that was started from its bootstrap, given events as AWS writes them,
//! and stopped between two invocations.
//!
//! The bootstraps are those of this build, or those in the folder that `HUBFERRY_TEST_BOOTSTRAPS` names.

mod applying;
mod enduring;
mod events;
mod freezing;
mod importing;
mod starting;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::sqs::SqsBatchResponse;
use axum::http::Method;
use hubferry::adapters::db;
use lambda_runtime_emulator::{Function, Instances};
use serde_json::{Value, json};
use sqs_emulator::event_source::{self, EventSourceMapping, Invocation};
use url::Url;

use crate::program::program;
use crate::servers::{bootstraps_folder, redis_url};
use crate::world::{SIGNING_KEY, SIMULATOR_TOKEN, World, WorldConfig};

/// The public address as HubSpot knows it.
const WEBHOOK_URL: &str = "https://hooks.example.test/webhooks/hubspot";

const WEBHOOK_SECRET: &str = "a-client-secret-of-the-bootstraps";

/// Time that an invocation has unless it is the subject. Far more than any takes.
const AMPLE: Duration = Duration::from_secs(90);

/// A dispatcher with so much time publishes one round: it keeps ten seconds for a second one.
const ONE_ROUND: Duration = Duration::from_secs(10);

/// Rounds after which a test that does not come to rest fails.
const MOST_ROUNDS: u32 = 50;

/// What the sessions of the functions are called.
const APPLICATION_NAME: &str = "bootstrap";

/// A world whose functions are processes.
struct Deployed {
    world: World,
    settings: Settings,
    intake: Instances,
    webhook: Instances,
    dispatcher: Instances,
    worker: Arc<Instances>,
    reconciler: Instances,
    migrate: Instances,
}

/// What the functions are told.
#[derive(Clone)]
struct Settings {
    database_url: String,
    redis_url: String,
    hubspot_url: String,
    queues_url: String,
    queue_urls: [String; 3],
    bearer_token: String,
}

impl Deployed {
    async fn new() -> Self {
        Self::with(WorldConfig::default(), &redis_url()).await
    }

    async fn with(config: WorldConfig, redis_url: &str) -> Self {
        let world = World::with(config).await;
        let settings = Settings::of(&world, redis_url).await;
        let instances = |name: &str| Instances::of(settings.function(name));
        Self {
            intake: instances("intake"),
            webhook: instances("webhook"),
            dispatcher: instances("dispatcher"),
            worker: Arc::new(instances("worker")),
            reconciler: instances("reconciler"),
            migrate: instances("migrate"),
            settings,
            world,
        }
    }

    /// Posts as an application does; returns status and body.
    async fn post(&self, path: &str, key: &str, body: &Value) -> (u64, Value) {
        let bearer = format!("Bearer {}", self.settings.bearer_token);
        let headers = [("authorization", &*bearer), ("idempotency-key", key)];
        self.answer(&self.intake, &events::request(&Method::POST, path, &headers, &body.to_string())).await
    }

    /// Accepts one decision.
    async fn accept(&self, email: &str, state: &str, lane: &str) -> Value {
        let body = json!({
            "brand": "acme", "product": "newsletter", "contact": {"email": email, "properties": {"firstname": "Ada"}},
            "desired_state": state, "lane": lane,
            "consent": {"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "sign-up form"},
        });
        let (status, answer) = self.post("/v1/subscriptions", &uuid::Uuid::new_v4().to_string(), &body).await;
        assert_eq!(status, 202, "{answer}");
        answer
    }

    /// Has HubSpot deliver these notifications; returns status and body.
    async fn deliver(&self, notifications: &[Value]) -> (u64, Value) {
        self.answer(&self.webhook, &events::delivery(notifications)).await
    }

    async fn answer(&self, function: &Instances, event: &Value) -> (u64, Value) {
        let answer = function.invoke(event, AMPLE).await.unwrap().answer().unwrap();
        let body = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
        (answer["statusCode"].as_u64().unwrap(), body)
    }

    /// One round of publishing; returns what the dispatcher says of it.
    async fn publish(&self) -> Value {
        self.dispatcher.invoke(&events::tick(), ONE_ROUND).await.unwrap().answer().unwrap()
    }

    /// Hands every message that is there to the worker, as Lambda's event source mappings do.
    async fn work_off_queues(&self) {
        for mapping in &self.world.mappings {
            let worker = handler_of(&self.worker);
            let summary = event_source::drain(&self.world.queues.client(), mapping, &worker).await.unwrap();
            assert_eq!(summary.failed, 0, "messages that the worker did not finish");
        }
    }

    /// Publishes and works until every event is finished. Whatever waits for its time is made due.
    async fn drain(&self) {
        for _ in 0..MOST_ROUNDS {
            self.publish().await;
            self.work_off_queues().await;
            if self.world.unfinished().await == 0 {
                return;
            }
            self.world.make_due().await;
        }
        panic!("events are left unfinished: {:?}", self.world.statuses().await);
    }

    /// What holds whenever all functions have answered: they are stopped, and have left nothing open behind them.
    async fn assert_nothing_is_left_open(&self) {
        let connection = self.world.db.connection().await.unwrap();
        let sql = "select count(*) from pg_stat_activity where datname = current_database()
                   and application_name = $1 and (state <> 'idle' or xact_start is not null)";
        let busy: i64 = connection.query_one(sql, &[&APPLICATION_NAME]).await.unwrap().get(0);
        assert_eq!(busy, 0, "sessions of a stopped function are at work or in a transaction");
        let sql = "select (select count(*) from hubferry.outbox_events where lease_token is not null)
                        + (select count(*) from hubferry.contact_links where lease_token is not null)";
        let leased: i64 = connection.query_one(sql, &[]).await.unwrap().get(0);
        assert_eq!(leased, 0, "leases of a stopped function");
    }

    /// Ends all processes. Nothing that they wrote is secret or personal, and all of it is JSON.
    async fn end(self) -> Vec<String> {
        let mut lines = Vec::new();
        for function in [&self.intake, &self.webhook, &self.dispatcher, &self.worker, &self.reconciler, &self.migrate] {
            lines.extend(function.end().await);
        }
        self.settings.assert_discreet(&lines);
        lines
    }
}

impl Settings {
    async fn of(world: &World, redis_url: &str) -> Self {
        let mut database_url: Url = world.database.url.parse().unwrap();
        database_url.query_pairs_mut().append_pair("application_name", APPLICATION_NAME);
        let bearer_token = format!("token-{:032x}", rand::random::<u128>());
        let connection = world.db.connection().await.unwrap();
        let stored = db::create_token(&*connection, "test", &bearer_token.clone().into(), &["acme".into()]).await;
        stored.unwrap().expect("a new token");
        Self {
            database_url: database_url.into(),
            redis_url: redis_url.to_owned(),
            hubspot_url: world.hubspot.base_url(),
            queues_url: world.queues.endpoint_url(),
            queue_urls: world.mappings.clone().map(|mapping| mapping.queue_url),
            bearer_token,
        }
    }

    /// A function with the variables that it reads.
    fn function(&self, name: &str) -> Function {
        let function = Function::new(name, bootstrap(name)).with("HUBFERRY_DATABASE_URL", &self.database_url);
        let with_queues = |function: Function| {
            let [interactive, bulk, inbound] = &self.queue_urls;
            function
                .with("AWS_ENDPOINT_URL_SQS", &self.queues_url)
                .with("HUBFERRY_QUEUE_INTERACTIVE_URL", interactive)
                .with("HUBFERRY_QUEUE_BULK_URL", bulk)
                .with("HUBFERRY_QUEUE_INBOUND_URL", inbound)
        };
        match name {
            "webhook" => function
                .with("HUBFERRY_WEBHOOK_URL", WEBHOOK_URL)
                .with("HUBFERRY_WEBHOOK_SECRETS", json!([{"current": WEBHOOK_SECRET}]).to_string()),
            "dispatcher" => with_queues(function).with("HUBFERRY_SIGNING_KEY", SIGNING_KEY),
            "worker" => function
                .with("HUBFERRY_SIGNING_KEY", SIGNING_KEY)
                .with("HUBFERRY_REDIS_URL", &self.redis_url)
                .with("HUBFERRY_HUBSPOT_URL", &self.hubspot_url)
                .with("HUBFERRY_HUBSPOT_TOKEN", SIMULATOR_TOKEN),
            "reconciler" => with_queues(function),
            _ => function,
        }
    }

    fn assert_discreet(&self, lines: &[String]) {
        let password = |url: &str| Url::parse(url).unwrap().password().unwrap_or_default().to_owned();
        let (database, redis) = (password(&self.database_url), password(&self.redis_url));
        let secrets = [&*database, &*redis, SIGNING_KEY, SIMULATOR_TOKEN, WEBHOOK_SECRET, &*self.bearer_token];
        for line in lines {
            assert!(serde_json::from_str::<Value>(line).is_ok_and(|line| line.is_object()), "no JSON in {line:?}");
            assert!(!line.contains('@') && !line.contains("Ada"), "personal data in {line}");
            let told = secrets.iter().any(|secret| !secret.is_empty() && line.contains(secret));
            assert!(!told, "a secret in {line}");
        }
    }
}

/// The worker behind an event source mapping.
fn handler_of(
    worker: &Arc<Instances>,
) -> impl Fn(aws_lambda_events::sqs::SqsEvent, Invocation) -> HandlerFuture + Send + Sync + use<> {
    let worker = Arc::clone(worker);
    move |event, invocation| {
        let worker = Arc::clone(&worker);
        Box::pin(async move {
            let event = serde_json::to_value(event)?;
            let answer = worker.invoke(&event, invocation.remaining()).await?.answer()?;
            Ok(serde_json::from_value(answer)?)
        })
    }
}

type HandlerFuture = std::pin::Pin<Box<dyn Future<Output = anyhow::Result<SqsBatchResponse>> + Send>>;

/// Where the bootstrap of a function is.
fn bootstrap(name: &str) -> PathBuf {
    bootstraps_folder().map_or_else(|| program(name), |folder| folder.join(name).join("bootstrap"))
}

/// A mapping as a deployment has it, with several invocations at once.
fn side_by_side(mapping: &EventSourceMapping, invocations: usize) -> EventSourceMapping {
    EventSourceMapping { maximum_concurrency: invocations, ..mapping.clone() }
}
