//! Routes below `/__emulator` for tests in other processes.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

use crate::faults::Fault;
use crate::message::MessageView;
use crate::server::Shared;
use crate::store::EmulatorStats;

/// The admin routes.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/__emulator/faults", post(add_fault).get(faults_left).delete(clear_faults))
        .route("/__emulator/stats", get(stats))
        .route("/__emulator/messages", get(messages))
        .route("/__emulator/advance", post(advance))
}

async fn add_fault(State(shared): State<Arc<Shared>>, Json(fault): Json<Fault>) -> StatusCode {
    shared.store().faults.add(fault);
    StatusCode::CREATED
}

async fn faults_left(State(shared): State<Arc<Shared>>) -> Json<Vec<Fault>> {
    Json(shared.store().faults.left())
}

async fn clear_faults(State(shared): State<Arc<Shared>>) -> StatusCode {
    shared.store().faults.clear();
    StatusCode::NO_CONTENT
}

async fn stats(State(shared): State<Arc<Shared>>) -> Json<EmulatorStats> {
    let now = shared.clock.now();
    let mut store = shared.store();
    store.catch_up(now);
    Json(store.stats())
}

#[derive(Deserialize)]
struct MessagesQuery {
    queue: String,
    /// All that was ever sent, instead of what is there.
    #[serde(default)]
    ever: bool,
}

async fn messages(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<MessagesQuery>,
) -> Result<Json<Vec<MessageView>>, StatusCode> {
    let now = shared.clock.now();
    let mut store = shared.store();
    let queue = store.queue_mut(&query.queue).map_err(|_| StatusCode::NOT_FOUND)?;
    queue.catch_up(now);
    let views = if query.ever { queue.history().map(|sent| sent.view()).collect() } else { queue.views() };
    Ok(Json(views))
}

#[derive(Deserialize)]
struct AdvanceRequest {
    seconds: u64,
}

async fn advance(State(shared): State<Arc<Shared>>, Json(request): Json<AdvanceRequest>) -> StatusCode {
    shared.advance(Duration::from_secs(request.seconds));
    StatusCode::NO_CONTENT
}

impl Shared {
    /// Moves the clock forward and lets everything happen that is due by then.
    pub(crate) fn advance(&self, span: Duration) {
        self.clock.advance(span);
        let now = self.clock.now();
        self.store().catch_up(now);
    }
}
