//! The Runtime API of one process.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc, oneshot, watch};

/// Bytes of an answer (quota of Lambda: 6 MB).
const MOST_ANSWER_BYTES: usize = 6 * 1024 * 1024;

/// An error as a function reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionError {
    /// Its `errorType`, which metric filters name.
    pub error_type: String,
    /// Its `errorMessage`.
    pub message: String,
}

/// What a process says of an event.
pub(crate) type Report = Result<Value, FunctionError>;

/// An event on its way to the process.
pub(crate) struct Event {
    pub(crate) request_id: String,
    pub(crate) deadline_ms: u128,
    pub(crate) function_arn: String,
    pub(crate) trace_id: String,
    pub(crate) body: Bytes,
}

/// What is known of the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) pid: Option<Pid>,
    /// How often it asked for an event; it is stopped by then.
    pub(crate) asked: u64,
    pub(crate) first_asked_at: Option<Instant>,
    pub(crate) init_error: Option<FunctionError>,
    pub(crate) ended: Option<ExitStatus>,
}

/// Where a process and whoever invokes it meet.
pub(crate) struct Exchange {
    pub(crate) progress: watch::Sender<Progress>,
    events: Mutex<mpsc::UnboundedReceiver<Event>>,
    /// The event under way, and who waits for what is said of it.
    under_way: std::sync::Mutex<Option<(String, oneshot::Sender<Report>)>>,
}

impl Exchange {
    pub(crate) fn new(events: mpsc::UnboundedReceiver<Event>) -> Self {
        Self { progress: watch::Sender::default(), events: Mutex::new(events), under_way: std::sync::Mutex::default() }
    }

    /// Waits for what is said of this event.
    pub(crate) fn expect_report(&self, request_id: &str) -> oneshot::Receiver<Report> {
        let (sender, receiver) = oneshot::channel();
        *self.lock() = Some((request_id.to_owned(), sender));
        receiver
    }

    /// Lambda refuses a report on any other event than the one under way.
    fn report(&self, request_id: &str, report: Report) -> StatusCode {
        let mut under_way = self.lock();
        match under_way.take_if(|(expected, _)| expected == request_id) {
            Some((_, waiting)) => {
                // Whoever waited may have given up.
                let _ = waiting.send(report);
                StatusCode::ACCEPTED
            }
            None => StatusCode::BAD_REQUEST,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(String, oneshot::Sender<Report>)>> {
        self.under_way.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn signal(&self, signal: Signal) {
        let progress = self.progress.borrow();
        if let (Some(pid), None) = (progress.pid, progress.ended) {
            // It may have ended just now.
            let _ = kill_process(pid, signal);
        }
    }
}

/// The routes, over one exchange.
pub(crate) fn router(exchange: Arc<Exchange>) -> Router {
    let routes = Router::new()
        .route("/invocation/next", get(next))
        .route("/invocation/{request_id}/response", post(response))
        .route("/invocation/{request_id}/error", post(error))
        .route("/init/error", post(init_error));
    Router::new()
        .nest("/2018-06-01/runtime", routes)
        .layer(DefaultBodyLimit::max(MOST_ANSWER_BYTES))
        .with_state(exchange)
}

/// A long poll: the process is stopped until there is an event.
async fn next(State(exchange): State<Arc<Exchange>>) -> Result<Response, StatusCode> {
    let mut progress = exchange.progress.subscribe();
    progress.wait_for(|progress| progress.pid.is_some()).await.map_err(|_| StatusCode::GONE)?;
    let asked_at = Instant::now();
    exchange.signal(Signal::STOP);
    exchange.progress.send_modify(|progress| {
        progress.first_asked_at.get_or_insert(asked_at);
        progress.asked += 1;
    });
    let event = exchange.events.lock().await.recv().await.ok_or(StatusCode::GONE)?;
    exchange.signal(Signal::CONT);
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .header("Lambda-Runtime-Aws-Request-Id", event.request_id)
        .header("Lambda-Runtime-Deadline-Ms", event.deadline_ms.to_string())
        .header("Lambda-Runtime-Invoked-Function-Arn", event.function_arn)
        .header("Lambda-Runtime-Trace-Id", event.trace_id)
        .body(Body::from(event.body))
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

async fn response(
    State(exchange): State<Arc<Exchange>>,
    Path(request_id): Path<String>,
    body: Bytes,
) -> (StatusCode, Json<Value>) {
    let report = serde_json::from_slice(&body).map_err(|error| FunctionError {
        error_type: "Runtime.InvalidResponse".into(),
        message: format!("the answer is no JSON: {error}"),
    });
    acknowledged(exchange.report(&request_id, report))
}

async fn error(
    State(exchange): State<Arc<Exchange>>,
    Path(request_id): Path<String>,
    body: Bytes,
) -> (StatusCode, Json<Value>) {
    acknowledged(exchange.report(&request_id, Err(function_error(&body))))
}

async fn init_error(State(exchange): State<Arc<Exchange>>, body: Bytes) -> (StatusCode, Json<Value>) {
    exchange.progress.send_modify(|progress| progress.init_error = Some(function_error(&body)));
    acknowledged(StatusCode::ACCEPTED)
}

/// Whatever type the body says it has: runtimes say different ones.
fn function_error(body: &[u8]) -> FunctionError {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    FunctionError { error_type: text("errorType"), message: text("errorMessage") }
}

fn acknowledged(status: StatusCode) -> (StatusCode, Json<Value>) {
    let body = match status {
        StatusCode::ACCEPTED => json!({"status": "OK"}),
        _ => json!({"errorType": "InvalidRequestID", "errorMessage": "Invalid request ID"}),
    };
    (status, Json(body))
}
