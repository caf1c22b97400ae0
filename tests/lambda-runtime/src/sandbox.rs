//! One process of a function, with its Runtime API.

use std::net::Ipv4Addr;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::body::Bytes;
use rustix::process::Pid;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::api::{self, Event, Exchange, FunctionError, Progress};
use crate::clock::unix_millis_in;
use crate::function::Function;
use crate::log::Log;

/// A process that does not ask for an event within this is killed. Lambda allows 10 s; a machine that builds beside its tests
/// is slower.
const START_LIMIT: Duration = Duration::from_mins(1);

/// How an invocation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer.
    Answer(Value),
    /// With an error; the process serves the next event.
    Failed(FunctionError),
    /// Not by its deadline; the process was killed.
    TimedOut,
    /// With the process itself.
    Ended(ExitStatus),
}

impl Outcome {
    /// The answer. Errors: there is none.
    pub fn answer(self) -> anyhow::Result<Value> {
        match self {
            Self::Answer(answer) => Ok(answer),
            other => anyhow::bail!("the invocation has no answer: {other:?}"),
        }
    }
}

/// A process and its API. The process is killed with the value.
#[derive(Debug)]
pub struct Sandbox {
    function_arn: String,
    exchange: Arc<Exchange>,
    events: mpsc::UnboundedSender<Event>,
    log: Log,
    kill: Arc<Notify>,
    started_at: Instant,
    /// Events that it was given.
    given: u64,
    /// The API, the readers of its output, and who waits for its end. All end with the value.
    _tasks: JoinSet<()>,
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("progress", &*self.progress.borrow()).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Starts a function's process; [`Self::ready`] waits for it.
    pub async fn start(function: &Function) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no port for the Runtime API")?;
        let address = listener.local_addr()?;
        let (events, incoming) = mpsc::unbounded_channel();
        let exchange = Arc::new(Exchange::new(incoming));
        let mut tasks = JoinSet::new();
        let router = api::router(Arc::clone(&exchange));
        tasks.spawn(async move {
            // It serves until its task is ended.
            let _ = axum::serve(listener, router).await;
        });
        let started_at = Instant::now();
        let mut command = function.command(address);
        let mut child = command.spawn().with_context(|| format!("the bootstrap of {} can't start", function.name()))?;
        let (log, kill) = (Log::new(), Arc::new(Notify::new()));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        tasks.spawn(log.clone().take(stdout.context("a process without standard output")?));
        tasks.spawn(log.clone().take(stderr.context("a process without standard error")?));
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        exchange.progress.send_modify(|progress| progress.pid = pid);
        tasks.spawn(watch_over(child, Arc::clone(&kill), Arc::clone(&exchange)));
        Ok(Self { function_arn: function.arn(), exchange, events, log, kill, started_at, given: 0, _tasks: tasks })
    }

    /// Waits until it asks for its first event; returns how long that took. Errors: it ended, or never asked.
    pub async fn ready(&self) -> anyhow::Result<Duration> {
        let asked = self.until(|progress| progress.asked > 0 || progress.ended.is_some());
        let progress = tokio::time::timeout(START_LIMIT, asked).await.context("it does not ask for an event")?;
        let first_asked_at = progress.first_asked_at.with_context(|| format!("it ended: {:?}", progress.ended))?;
        Ok(first_asked_at.duration_since(self.started_at))
    }

    /// Hands it an event. It has so much time for it; afterwards it waits for the next one, and is stopped.
    pub async fn invoke(&mut self, event: &Value, time: Duration) -> Outcome {
        match tokio::time::timeout(START_LIMIT, self.until_waiting()).await {
            Ok(None) => {}
            Ok(Some(status)) => return Outcome::Ended(status),
            Err(_elapsed) => return self.killed().await,
        }
        self.given += 1;
        let request_id = Uuid::new_v4().to_string();
        let report = self.exchange.expect_report(&request_id);
        let event = Event {
            deadline_ms: unix_millis_in(time),
            function_arn: self.function_arn.clone(),
            trace_id: trace_id(),
            body: Bytes::from(event.to_string()),
            request_id,
        };
        // The receiver lives as long as the exchange, which is a member.
        let _ = self.events.send(event);
        let served = async {
            let report = tokio::select! {
                biased;
                report = report => report.ok(),
                // It ended, or asks for the next event and has said nothing of this one.
                _ = self.until_waiting() => None,
            };
            (report, self.until_waiting().await)
        };
        match tokio::time::timeout(time, served).await {
            Ok((Some(Ok(answer)), _)) => Outcome::Answer(answer),
            Ok((Some(Err(error)), _)) => Outcome::Failed(error),
            Ok((None, Some(status))) => Outcome::Ended(status),
            Ok((None, None)) | Err(_) => self.killed().await,
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.exchange.progress.borrow().ended.is_some()
    }

    /// What it reported instead of asking for its first event.
    pub fn init_error(&self) -> Option<FunctionError> {
        self.exchange.progress.borrow().init_error.clone()
    }

    /// Waits for its end.
    pub async fn ended(&self) -> Option<ExitStatus> {
        self.until(|progress| progress.ended.is_some()).await.ended
    }

    /// The first line of its output that is so; `None` when none comes.
    pub async fn line(&self, is_so: impl Fn(&str) -> bool) -> Option<String> {
        self.log.line(is_so).await
    }

    /// Kills it; returns every line that it wrote.
    pub async fn end(self) -> Vec<String> {
        self.killed().await;
        self.log.all().await
    }

    async fn killed(&self) -> Outcome {
        self.kill.notify_one();
        self.ended().await;
        Outcome::TimedOut
    }

    /// Waits until it asks for the next event, or has ended with this status.
    async fn until_waiting(&self) -> Option<ExitStatus> {
        self.until(|progress| progress.asked > self.given || progress.ended.is_some()).await.ended
    }

    async fn until(&self, is_so: impl FnMut(&Progress) -> bool) -> Progress {
        let mut progress = self.exchange.progress.subscribe();
        // The sender is a part of the exchange, which is a member, so waiting can't fail.
        progress.wait_for(is_so).await.map(|progress| progress.clone()).unwrap_or_default()
    }
}

/// Waits for a process's end, or ends it when it is told to.
async fn watch_over(mut child: Child, kill: Arc<Notify>, exchange: Arc<Exchange>) {
    let ended = tokio::select! {
        ended = child.wait() => ended,
        () = kill.notified() => match child.start_kill() {
            Ok(()) => child.wait().await,
            Err(error) => Err(error),
        },
    };
    if let Ok(status) = ended {
        exchange.progress.send_modify(|progress| progress.ended = Some(status));
    }
}

/// A sampled trace, as API Gateway and SQS begin one.
fn trace_id() -> String {
    let (root, parent) = (Uuid::new_v4().simple().to_string(), Uuid::new_v4().simple().to_string());
    format!("Root=1-{}-{};Parent={};Sampled=1", &root[..8], &root[8..], &parent[..16])
}
