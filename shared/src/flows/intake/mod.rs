//! Accepts subscription requests over HTTP and says how they are doing.
//!
//! One statement a call does the accepting; what follows is the dispatcher's. The same router serves the Lambda function
//! and the local stack.

mod erasing;
mod problem;
mod request;
mod tokens;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::adapters::db::{self, AcceptAnswer, Accepted, Db};
use crate::failpoint::failpoint;

use problem::Problem;
use request::{Faulty, traceparent};
use tokens::{Brands, TokenCache};

/// Largest body of one request: properties and all, far above what forms send.
const MOST_BYTES: usize = 256 * 1024;

/// Largest body of a batch. API Gateway hands a function 6 MB at the most.
const MOST_BATCH_BYTES: usize = 5 * 1024 * 1024;

/// Requests in a batch, as `accept_subscriptions` takes them.
const MOST_REQUESTS: usize = 500;

/// What the intake works with. Built once.
#[derive(Debug, Clone)]
pub struct Intake {
    db: Db,
    tokens: Arc<TokenCache>,
}

impl Intake {
    /// An intake over this database.
    pub fn new(db: Db) -> Self {
        Self { db, tokens: Arc::new(TokenCache::default()) }
    }

    /// The routes.
    pub fn router(self) -> Router {
        Router::new()
            .route("/v1/subscriptions", post(accept).layer(DefaultBodyLimit::max(MOST_BYTES)))
            .route("/v1/subscriptions/batch", post(accept_batch).layer(DefaultBodyLimit::max(MOST_BATCH_BYTES)))
            .route("/v1/requests/{request_id}", get(status))
            .route("/v1/contacts/{contact_key}", delete(erasing::erase))
            .fallback(async || Problem::not_found("there is no such path"))
            .method_not_allowed_fallback(async || Problem::method_not_allowed())
            .with_state(self)
    }
}

/// `POST /v1/subscriptions`
async fn accept(
    State(intake): State<Intake>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let brands = intake.authorise(&headers).await?;
    let mut request = request::parse(&body.map_err(|rejection| Problem::body(&rejection, MOST_BYTES))?)?;
    request::add_idempotency_key(&mut request, &headers)?;
    request::check_brand(&request, &brands)?;
    let answers = intake.accept_all(vec![request], &headers).await?;
    match answers.into_iter().next() {
        Some(Ok(accepted)) => Ok(accepted_response(&accepted)),
        Some(Err(fault)) => Err(Problem::fault(&request::name_header(fault))),
        None => Err(Problem::unavailable()),
    }
}

/// `POST /v1/subscriptions/batch`
async fn accept_batch(
    State(intake): State<Intake>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let brands = intake.authorise(&headers).await?;
    let body = request::parse(&body.map_err(|rejection| Problem::body(&rejection, MOST_BATCH_BYTES))?)?;
    let requests = request::batch(body, MOST_REQUESTS)?;
    let foreign: Vec<Option<Problem>> =
        requests.iter().map(|request| request::check_brand(request, &brands).err()).collect();
    // A foreign brand's request is not shown to the database at all; the others are not held up by it.
    let own: Vec<Value> = requests
        .into_iter()
        .zip(&foreign)
        .filter(|(_, foreign)| foreign.is_none())
        .map(|(request, _)| request)
        .collect();
    let mut answers = if own.is_empty() { Vec::new() } else { intake.accept_all(own, &headers).await? }.into_iter();
    let results: Vec<Value> = foreign
        .into_iter()
        .enumerate()
        .map(|(index, foreign)| {
            let mut result = match foreign {
                Some(problem) => problem.to_json(),
                None => answers.next().map_or_else(|| Problem::unavailable().to_json(), |answer| item(&answer)),
            };
            result["index"] = json!(index);
            result
        })
        .collect();
    Ok(Json(json!({"results": results})).into_response())
}

/// `GET /v1/requests/{request_id}`
async fn status(
    State(intake): State<Intake>,
    headers: HeaderMap,
    request_id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    const NOT_FOUND: &str = "there is no such request";
    let brands = intake.authorise(&headers).await?;
    let request_id: Option<Uuid> = request_id.ok().and_then(|Path(text)| text.parse().ok());
    let request_id = request_id.ok_or_else(|| Problem::not_found("a request id is a UUID"))?;
    let connection = intake.db.connection().await.map_err(|error| Problem::database(&error))?;
    let status = db::request_status(&*connection, request_id).await.map_err(|error| Problem::database(&error))?;
    // Another brand's request does not exist for this caller.
    let status = status.filter(|status| brands.contains(&status.brand)).ok_or_else(|| Problem::not_found(NOT_FOUND))?;
    Ok(Json(json!({
        "request_id": request_id,
        "event_id": status.event_id,
        "sequence": status.sequence,
        "status": status.status,
        "applied": status.applied,
        "reason": status.reason,
        "accepted_at": status.accepted_at,
        "finished_at": status.finished_at,
    }))
    .into_response())
}

impl Intake {
    /// The brands the caller may act for. "I could not check" is 503, not 401.
    async fn authorise(&self, headers: &HeaderMap) -> Result<Brands, Problem> {
        let token = tokens::bearer(headers).ok_or_else(Problem::unauthorised)?;
        if let Some(brands) = self.tokens.get(&token) {
            return Ok(brands);
        }
        let connection = self.db.connection().await.map_err(|error| Problem::database(&error))?;
        let brands = db::token_brands(&*connection, &token).await.map_err(|error| Problem::database(&error))?;
        let brands = brands.ok_or_else(Problem::unauthorised)?;
        Ok(self.tokens.remember(&token, brands))
    }

    /// Accepts what the database can read; the rest is answered here. One answer a request, in their order.
    async fn accept_all(&self, mut requests: Vec<Value>, headers: &HeaderMap) -> Result<Vec<AcceptAnswer>, Problem> {
        let faulty: Vec<Faulty> = requests.iter_mut().filter_map(request::prepare).collect();
        let trace = traceparent(headers);
        let connection = self.db.connection().await.map_err(|error| Problem::database(&error))?;
        let requests = Value::Array(requests);
        // Contacts are locked in order, so that a deadlock takes an application that accepts several times in a transaction.
        let accept = || db::accept_subscriptions(&*connection, &requests, Some(&trace));
        let answers = db::again_after_conflict(accept).await;
        let mut answers = answers.map_err(|error| Problem::database(&error))?;
        failpoint!("intake.after_commit");
        let mut faulty = faulty.into_iter();
        for (request, answer) in requests.as_array().into_iter().flatten().zip(&mut answers) {
            if request.is_null()
                && let Some(Faulty(fault)) = faulty.next()
            {
                *answer = Err(fault);
            }
        }
        Ok(answers)
    }
}

fn accepted_response(accepted: &Accepted) -> Response {
    let status = if accepted.replayed { StatusCode::OK } else { StatusCode::ACCEPTED };
    let location = format!("/v1/requests/{}", accepted.request_id);
    (status, [(header::LOCATION, location)], Json(accepted_json(accepted))).into_response()
}

fn accepted_json(accepted: &Accepted) -> Value {
    json!({
        "request_id": accepted.request_id,
        "event_id": accepted.event_id,
        "sequence": accepted.sequence,
        "status": "accepted",
        "replayed": accepted.replayed,
    })
}

fn item(answer: &AcceptAnswer) -> Value {
    match answer {
        Ok(accepted) => accepted_json(accepted),
        Err(fault) => Problem::fault(fault).to_json(),
    }
}
