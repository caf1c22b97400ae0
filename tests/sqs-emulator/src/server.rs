//! The HTTP face of SQS: AWS JSON 1.0 on `POST /`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::Value;
use uuid::Uuid;

use crate::actions::{self, Call, ReceiveRequest};
use crate::admin;
use crate::clock::Clock;
use crate::error::SqsError;
use crate::faults::{CallFault, Occasion};
use crate::store::Store;
use crate::wire::Cutter;

/// Bytes of a request: a batch of 1 MiB, every byte of it escaped in JSON, and its frame.
const REQUEST_BYTES_MAX: usize = 8 * 1_048_576;
/// Before the action's name in the header `X-Amz-Target`.
const TARGET_PREFIX: &str = "AmazonSQS.";
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    store: Mutex<Store>,
    pub(crate) clock: Clock,
    pub(crate) base_url: String,
}

impl Shared {
    pub(crate) fn new(base_url: String) -> Self {
        Self { store: Mutex::default(), clock: Clock::default(), base_url }
    }

    /// The state. A handler that panicked left no half-made change behind that matters to a test.
    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The routes of the emulator.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", post(serve))
        .merge(admin::routes())
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(shared)
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(cutter): ConnectInfo<Cutter>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let (action, request) = match read(&headers, &body) {
        Ok(parts) => parts,
        Err(error) => return refusal(&error),
    };
    match strike(&shared, &action, &request) {
        Some(CallFault::Unavailable) => return refusal(&SqsError::service_unavailable()),
        Some(CallFault::CutBeforeEffect) => {
            cutter.cut();
            return StatusCode::NO_CONTENT.into_response();
        }
        Some(CallFault::CutAfterEffect) => {
            let _unheard = answer(&shared, &headers, &action, &request).await;
            cutter.cut();
            return StatusCode::NO_CONTENT.into_response();
        }
        None => {}
    }
    match answer(&shared, &headers, &action, &request).await {
        Ok(answer) => reply(StatusCode::OK, &answer),
        Err(error) => refusal(&error),
    }
}

fn read(headers: &HeaderMap, body: &[u8]) -> Result<(String, Value), SqsError> {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let action = target.strip_prefix(TARGET_PREFIX).ok_or_else(SqsError::unknown_operation)?;
    let body = if body.is_empty() { b"{}" } else { body };
    let request = serde_json::from_slice(body).map_err(|error| SqsError::unreadable_request(error.to_string()))?;
    Ok((action.to_owned(), request))
}

fn strike(shared: &Shared, action: &str, request: &Value) -> Option<CallFault> {
    let mut store = shared.store();
    store.count_call(action);
    store.faults.strike_call(Occasion { action, queue: actions::queue_name(request), position: None })
}

async fn answer(shared: &Shared, headers: &HeaderMap, action: &str, request: &Value) -> Result<Value, SqsError> {
    if action == "ReceiveMessage" {
        return receive(shared, request).await;
    }
    let trace_header = headers.get("x-amzn-trace-id").and_then(|value| value.to_str().ok());
    let now = shared.clock.now();
    let mut store = shared.store();
    let mut call = Call { store: &mut store, now, base_url: &shared.base_url, trace_header };
    actions::perform(&mut call, action, request)
}

/// Looks at the queue until there is a message or the long poll is over.
async fn receive(shared: &Shared, body: &Value) -> Result<Value, SqsError> {
    let request: ReceiveRequest = actions::parse(body)?;
    let queue = actions::queue_name(body);
    let (arrival, wait) = {
        let store = shared.store();
        let queue = store.queue(queue)?;
        (Arc::clone(queue.arrival()), request.wait(queue.settings.receive_wait)?)
    };
    let deadline = shared.clock.now().after(wait);
    loop {
        let mut arrived = std::pin::pin!(arrival.notified());
        // From here on an arrival is noticed, also one between the look and the wait.
        arrived.as_mut().enable();
        let (found, next_look) = look(shared, &request, queue)?;
        let now = shared.clock.now();
        if found.get("Messages").is_some() || now >= deadline {
            return Ok(found);
        }
        let pause = now.until(next_look.map_or(deadline, |next| next.min(deadline)));
        // The pause ending and a message arriving both mean to look again.
        let _either = tokio::time::timeout(pause, arrived).await;
    }
}

/// One look at the queue, and the moment from which another is worth while.
fn look(
    shared: &Shared,
    request: &ReceiveRequest,
    queue: &str,
) -> Result<(Value, Option<crate::clock::Moment>), SqsError> {
    let now = shared.clock.now();
    let mut store = shared.store();
    let mut call = Call { store: &mut store, now, base_url: &shared.base_url, trace_header: None };
    let found = actions::receive(&mut call, request)?;
    let next_look = store.queue(queue)?.next_showing();
    Ok((found, next_look))
}

fn refusal(error: &SqsError) -> Response {
    let mut response = reply(error.status, &error.body());
    if let Ok(value) = HeaderValue::from_str(&error.query_error()) {
        response.headers_mut().insert("x-amzn-query-error", value);
    }
    response
}

fn reply(status: StatusCode, body: &Value) -> Response {
    let mut response = (status, body.to_string()).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, CONTENT_TYPE);
    if let Ok(id) = HeaderValue::from_str(&Uuid::new_v4().to_string()) {
        headers.insert("x-amzn-requestid", id);
    }
    response
}
