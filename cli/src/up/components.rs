//! The parts of the stack, each running until it is told to stop.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::ValueEnum;
use hubferry::flows::dispatcher::Dispatcher;
use hubferry::flows::reconciler::Reconciler;
use hubferry::startup;
use sqs_emulator::event_source::{self, EventSourceMapping};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::place::Place;
use super::{INVOCATION_TIME, Stop, UpArgs};

/// EventBridge's schedule of the dispatcher, which polls in between.
const DISPATCHER_PERIOD: Duration = Duration::from_mins(1);

/// EventBridge's schedule of the reconciler.
const RECONCILER_PERIOD: Duration = Duration::from_mins(5);

/// After a failed run, before the next one.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Messages in one invocation, by lane.
const INTERACTIVE_BATCH: usize = 10;
const BULK_BATCH: usize = 500;
/// Deliveries of up to a hundred notifications each.
const INBOUND_BATCH: usize = 50;

/// How long a bulk batch is collected, and one of deliveries: nobody waits for either.
const BULK_WINDOW: Duration = Duration::from_secs(1);
const INBOUND_WINDOW: Duration = Duration::from_secs(1);

/// Invocations at once, by lane.
const INTERACTIVE_CONCURRENCY: usize = 4;
const BULK_CONCURRENCY: usize = 4;
/// Batches of one portal meet at the same records, so more would wait for each other.
const INBOUND_CONCURRENCY: usize = 2;

/// A part of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Component {
    /// The HTTP API, and HubSpot's webhooks beside it
    Intake,
    /// Publishes what is due
    Dispatcher,
    /// Writes to HubSpot
    Worker,
    /// Rescues and republishes
    Reconciler,
    /// The simulated HubSpot
    Simulator,
    /// The emulated SQS
    Queues,
}

/// All, or those that were asked for.
pub(super) fn chosen(only: &[Component]) -> Vec<Component> {
    if only.is_empty() { Component::value_variants().to_vec() } else { only.to_vec() }
}

/// Starts the chosen functions.
pub(super) async fn start(
    parts: &[Component],
    place: &Place,
    args: &UpArgs,
    stop: &Stop,
) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    let mut running = JoinSet::new();
    for part in parts {
        match part {
            Component::Intake => {
                let listener = TcpListener::bind(args.api)
                    .await
                    .with_context(|| format!("the API can't listen on {}: choose another with --api", args.api))?;
                let mut router = startup::intake_with(place.environment.clone(), 8)?.router();
                if place.takes_webhooks {
                    router = router.merge(startup::webhook_with(place.environment.clone(), 8)?.router());
                }
                let server = axum::serve(listener, router).with_graceful_shutdown(stop.clone());
                running.spawn(async move { server.await.context("the API ended") });
            }
            Component::Dispatcher => {
                let dispatcher = startup::dispatcher_with(place.environment.clone(), super::sqs(args))?;
                running.spawn(dispatch(dispatcher, stop.clone()));
            }
            Component::Worker => start_worker(&mut running, place, args, stop)?,
            Component::Reconciler => {
                let reconciler = startup::reconciler_with(place.environment.clone(), Some(super::sqs(args)))?;
                running.spawn(reconcile(reconciler, stop.clone()));
            }
            // Servers, not functions: they were started before, since the functions need them.
            Component::Simulator | Component::Queues => {}
        }
    }
    if running.is_empty() {
        let stop = stop.clone();
        running.spawn(async move {
            stop.await;
            Ok(())
        });
    }
    Ok(running)
}

/// Three event source mappings onto one function, as in production.
fn start_worker(
    running: &mut JoinSet<anyhow::Result<()>>,
    place: &Place,
    args: &UpArgs,
    stop: &Stop,
) -> anyhow::Result<()> {
    let urls = super::queue_urls(args);
    let interactive = EventSourceMapping {
        batch_size: INTERACTIVE_BATCH,
        maximum_concurrency: INTERACTIVE_CONCURRENCY,
        ..mapping(urls.interactive)
    };
    let bulk = EventSourceMapping {
        batch_size: BULK_BATCH,
        batching_window: BULK_WINDOW,
        maximum_concurrency: BULK_CONCURRENCY,
        ..mapping(urls.bulk)
    };
    let inbound = EventSourceMapping {
        batch_size: INBOUND_BATCH,
        batching_window: INBOUND_WINDOW,
        maximum_concurrency: INBOUND_CONCURRENCY,
        ..mapping(urls.inbound)
    };
    for mapping in [interactive, bulk, inbound] {
        let worker = super::worker(place)?;
        let handler = move |event, invocation: event_source::Invocation| {
            let worker = worker.clone();
            async move {
                let (response, summary) = worker.handle(event, invocation.deadline).await?;
                tracing::info!(
                    claimed = summary.claimed,
                    synced = summary.synced,
                    superseded = summary.superseded,
                    waiting = summary.retried + summary.snoozed + summary.busy,
                    dead = summary.dead,
                    calls = summary.calls,
                    "A batch ended."
                );
                Ok(response)
            }
        };
        let (client, stop) = (super::sqs_client(args), stop.clone());
        running.spawn(async move {
            event_source::run(client, mapping, handler, stop).await.context("an event source mapping ended")?;
            Ok(())
        });
    }
    Ok(())
}

fn mapping(queue_url: String) -> EventSourceMapping {
    EventSourceMapping {
        report_batch_item_failures: true,
        function_timeout: INVOCATION_TIME,
        ..EventSourceMapping::new(queue_url)
    }
}

async fn dispatch(dispatcher: Dispatcher, stop: Stop) -> anyhow::Result<()> {
    loop {
        let run = tokio::select! {
            run = dispatcher.run(Instant::now() + DISPATCHER_PERIOD) => run,
            () = stop.clone() => return Ok(()),
        };
        match run {
            Ok(summary) if summary.claimed > 0 => {
                tracing::info!(
                    queued = summary.queued,
                    waiting = summary.refused + summary.unknown,
                    dead = summary.dead,
                    "A dispatcher run ended."
                );
            }
            Ok(_) => {}
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "A dispatcher run failed.");
                pause(AFTER_FAILURE, &stop).await;
            }
        }
    }
}

async fn reconcile(reconciler: Reconciler, stop: Stop) -> anyhow::Result<()> {
    loop {
        let run = tokio::select! {
            run = reconciler.run(Instant::now() + DISPATCHER_PERIOD) => run,
            () = stop.clone() => return Ok(()),
        };
        match run {
            Ok(summary) => tracing::info!(
                rescued = summary.rescued_publishing + summary.rescued_processing,
                republished = summary.republished,
                dead_letters = summary.dead_letters,
                "A reconciler run ended."
            ),
            Err(error) => tracing::error!(error = format!("{error:#}"), "A reconciler run failed."),
        }
        if pause(RECONCILER_PERIOD, &stop).await {
            return Ok(());
        }
    }
}

/// Waits, unless it is time to stop. Returns whether it is.
async fn pause(time: Duration, stop: &Stop) -> bool {
    tokio::select! {
        () = tokio::time::sleep(time) => false,
        () = stop.clone() => true,
    }
}

/// Runs until the signal, then waits for what is under way; a part that fails before that ends everything.
pub(super) async fn until_stopped(
    mut running: JoinSet<anyhow::Result<()>>,
    stop: Stop,
    patience: Duration,
) -> anyhow::Result<()> {
    tokio::select! {
        biased;
        () = stop => {}
        Some(ended) = running.join_next() => {
            ended.context("a part of the stack panicked")??;
            anyhow::bail!("a part of the stack ended by itself");
        }
    }
    let ending = async {
        while let Some(ended) = running.join_next().await {
            ended.context("a part of the stack panicked")??;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        ended = tokio::time::timeout(patience, ending) => ended.unwrap_or(Ok(())),
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}
