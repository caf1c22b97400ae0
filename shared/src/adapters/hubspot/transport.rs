//! Sends one request and reads its answer within the caps. What a request means is not known here.

use std::time::{Duration, Instant};

use reqwest::Response;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use serde_json::Value;

use super::punctual::Punctual;
use super::request::{Request, address, bearer};
use super::{Account, Call, DailyHeaders, Sent};
use crate::clock;
use crate::model::budget::RateHeaders;
use crate::model::outcome::{AnswerFacts, Content, ErrorBody, Intent, Refusal, TransportFailure, retry_after};

/// What every body of a request is.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Cap of a success's body. A hundred contacts with every property asked for stay below it.
const SUCCESS_BODY_LIMIT: usize = 8 * 1024 * 1024;

/// Cap of an error's body. An error that names a hundred rows stays below it; a longer one is cut and judged by its status.
const ERROR_BODY_LIMIT: usize = 64 * 1024;

/// Longest correlation id that is kept; HubSpot's are UUIDs.
const CORRELATION_ID_LIMIT: usize = 64;

impl Account<'_> {
    /// Makes the call. `read` turns a success's JSON (or `None` for an empty body) into the value.
    pub(super) async fn call<T>(&self, request: Request, read: impl FnOnce(Success) -> Result<T, Refusal>) -> Call<T> {
        let intent = request.intent;
        let started_at = Instant::now();
        let exchange = self.exchange(request, started_at).await;
        let finished_at = Instant::now();
        let duration = finished_at.duration_since(started_at);
        let call = exchange.into_call(intent, read, finished_at, duration);
        self.trace(&call, intent);
        call
    }

    async fn exchange(&self, request: Request, started_at: Instant) -> Exchange {
        let authorization = match bearer(self.token) {
            Ok(authorization) => authorization,
            Err(failure) => return Exchange::failed(failure),
        };
        let mut outgoing = self
            .hubspot
            .client
            .request(request.method, address(&self.hubspot.base_url, &request.path, &request.query))
            .header(AUTHORIZATION, authorization);
        if let Some(body) = request.body {
            let send_by = started_at + self.hubspot.send_time_limit;
            let body = Punctual::new(body.to_string(), send_by);
            outgoing = outgoing.header(CONTENT_TYPE, JSON).body(reqwest::Body::wrap(body));
        }
        match outgoing.send().await {
            Ok(response) => Exchange::read(response).await,
            Err(error) => Exchange::failed(failure_of(&error)),
        }
    }

    fn trace<T>(&self, call: &Call<T>, intent: Intent) {
        let refusal = call.result.as_ref().err();
        tracing::debug!(
            portal.id = self.portal_id.0,
            hubspot.operation = intent.operation.name(),
            hubspot.rows = intent.rows,
            hubspot.status = refusal.and_then(|refusal| refusal.status),
            hubspot.class = refusal.map_or("done", |refusal| refusal.class.name()),
            hubspot.code = refusal.map(|refusal| refusal.code.as_str()),
            hubspot.correlation_id = call.correlation_id.as_deref(),
            duration_ms = u64::try_from(call.duration.as_millis()).unwrap_or(u64::MAX),
            "HubSpot answered a call."
        );
    }
}

/// A success: its status, and its body when it has one.
pub(super) struct Success {
    pub(super) status: u16,
    pub(super) body: Option<Value>,
}

/// What came back, before anything is made of it.
struct Exchange {
    failure: Option<TransportFailure>,
    status: Option<u16>,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Exchange {
    fn failed(failure: TransportFailure) -> Self {
        Self { failure: Some(failure), status: None, headers: HeaderMap::new(), body: Vec::new() }
    }

    /// Reads the body. A success has to arrive whole; an error is judged by its status, with as much body as there is.
    async fn read(mut response: Response) -> Self {
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let limit = if status.is_success() { SUCCESS_BODY_LIMIT } else { ERROR_BODY_LIMIT };
        let (body, end) = read_body(response, limit).await;
        let failure = if status.is_success() { end } else { None };
        Self { failure, status: Some(status.as_u16()), headers, body }
    }

    fn into_call<T>(
        self,
        intent: Intent,
        read: impl FnOnce(Success) -> Result<T, Refusal>,
        finished_at: Instant,
        duration: Duration,
    ) -> Call<T> {
        let sent = match self.failure {
            Some(TransportFailure::TokenMalformed | TransportFailure::RequestInvalid) => Sent::No,
            _ => Sent::Maybe,
        };
        let rate = rate_headers(&self.headers);
        let daily = daily_headers(&self.headers);
        let from_header = self.headers.get("x-hubspot-correlation-id").and_then(|value| value.to_str().ok());
        let mut correlation_id = from_header.and_then(correlation_id);
        let result = if let Some(success) = self.success() {
            read(success)
        } else {
            let error = ErrorBody::parse(&self.body);
            let from_body = error.as_ref().and_then(ErrorBody::correlation_id);
            correlation_id = correlation_id.or_else(|| from_body.and_then(self::correlation_id));
            Err(self.refusal(error.as_ref(), intent))
        };
        Call { result, sent, rate, daily, correlation_id, finished_at, duration }
    }

    /// A 2xx whose body is absent or one complete JSON document.
    fn success(&self) -> Option<Success> {
        let status = self.status.filter(|status| (200..300).contains(status))?;
        if self.failure.is_some() {
            return None;
        }
        let body =
            if self.body.trim_ascii().is_empty() { None } else { Some(serde_json::from_slice(&self.body).ok()?) };
        Some(Success { status, body })
    }

    fn refusal(&self, error: Option<&ErrorBody>, intent: Intent) -> Refusal {
        let content = self.content();
        let facts = AnswerFacts { status: self.status, transport: self.failure, content, error, intent };
        let headers = self.headers.get_all(RETRY_AFTER).iter().filter_map(|value| value.to_str().ok());
        Refusal::of_call(&facts, retry_after::parse(headers, clock::now()))
    }

    fn content(&self) -> Content {
        let declared = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match self.body.trim_ascii().first() {
            None => Content::Empty,
            Some(b'{' | b'[') if !declared.contains("html") => Content::Json,
            Some(_) => Content::Foreign,
        }
    }
}

/// Reads up to `limit` bytes, and tells how the reading ended when not well.
async fn read_body(mut response: Response, limit: usize) -> (Vec<u8>, Option<TransportFailure>) {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return (body, None),
            Ok(Some(chunk)) => {
                let room = limit - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    return (body, Some(TransportFailure::BodyTooLarge));
                }
            }
            Err(error) if error.is_timeout() => return (body, Some(TransportFailure::Timeout)),
            Err(_) => return (body, Some(TransportFailure::BodyCut)),
        }
    }
}

/// The kind of failure. The error's own text is dropped: it holds the address, and with it an e-mail address.
fn failure_of(error: &reqwest::Error) -> TransportFailure {
    // A connection that does not come about within its limit is both; HubSpot has not seen the call then.
    if error.is_connect() {
        TransportFailure::Connect
    } else if error.is_timeout() {
        TransportFailure::Timeout
    } else if error.is_builder() {
        TransportFailure::RequestInvalid
    } else {
        TransportFailure::ConnectionLost
    }
}

fn rate_headers(headers: &HeaderMap) -> RateHeaders {
    let small = |name| number(headers, name).and_then(|value| u32::try_from(value).ok());
    RateHeaders {
        max: small("x-hubspot-ratelimit-max"),
        remaining: small("x-hubspot-ratelimit-remaining"),
        interval: number(headers, "x-hubspot-ratelimit-interval-milliseconds").map(Duration::from_millis),
    }
}

fn daily_headers(headers: &HeaderMap) -> DailyHeaders {
    DailyHeaders {
        limit: number(headers, "x-hubspot-ratelimit-daily"),
        remaining: number(headers, "x-hubspot-ratelimit-daily-remaining"),
    }
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// A correlation id goes into logs, so it has to look like one.
fn correlation_id(text: &str) -> Option<String> {
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    (plain && !text.is_empty() && text.len() <= CORRELATION_ID_LIMIT).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_a_correlation_id_is_kept() {
        assert!(correlation_id("00000000-0000-4000-8000-000000000001").is_some());
        assert!(correlation_id("kim@example.test").is_none());
        assert!(correlation_id(&"a".repeat(65)).is_none());
    }
}
