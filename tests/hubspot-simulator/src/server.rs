//! From the socket to the handler and back, with the faults on the way.
//!
//! A call is processed by a task of its own: a client that gives up does not undo what it asked for, as with the real
//! service.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{ConnectInfo, Request, State},
    http::{
        HeaderName, HeaderValue, StatusCode, Uri,
        header::{CONTENT_TYPE, RETRY_AFTER},
        request::Parts,
    },
    response::Response,
};
use futures::stream;
use rand::Rng;
use tokio::net::TcpListener;

use crate::{
    admin,
    answer::{Answer, AnswerBody},
    connection::{CuttableListener, Scissors},
    faults::{Action, Response as FaultResponse, Shape},
    ids::PortalId,
    routes::{self, Way},
    stats::Outcome,
    world::{CallParts, SharedWorld, World},
};

/// Largest body that is read, in bytes; a batch of a hundred contacts with long values stays below it.
const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;

/// Serves until the runtime is dropped.
pub(crate) async fn serve(listener: TcpListener, world: Arc<SharedWorld>) -> std::io::Result<()> {
    let app = Router::new().fallback(accept).with_state(world);
    let service = app.into_make_service_with_connect_info::<Scissors>();
    axum::serve(CuttableListener(listener), service).await
}

async fn accept(
    State(world): State<Arc<SharedWorld>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    request: Request,
) -> Result<Response, Infallible> {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        return Ok(to_http(Answer::html(413, "the body is too large or was not sent completely")));
    };
    if admin::is_admin(parts.uri.path()) {
        return Ok(to_http(admin::answer(&world, &parts.method, &parts.uri, &body)));
    }
    let on_our_own = scissors.clone();
    let processing = tokio::spawn(async move { process(&world, &on_our_own, parts, body).await });
    Ok(processing.await.unwrap_or_else(|_| {
        // The handler panicked; the client sees what it would see of a crashed server.
        scissors.cut();
        Response::new(Body::empty())
    }))
}

/// One API call: strike, arrive, count, process, answer.
async fn process(world: &SharedWorld, scissors: &Scissors, parts: Parts, body: Bytes) -> Response {
    let way = routes::find(&parts.method, &parts.uri);
    let plan = plan(&mut world.lock(), &parts, &way, &body);
    let _under_way = UnderWay::begin(world, &way.endpoint);
    if let Some(Action::Cut) = plan.action {
        world.lock().counters.called(&way.endpoint, Outcome::Cut);
        return cut(scissors);
    }
    pause(plan.before).await;
    let portal = match arrive(&mut world.lock(), &plan, &way, &parts) {
        Arrival::Counted(portal) => portal,
        Arrival::Answered(answer) => return to_http(answer),
    };
    if let Some(Action::DelayMs(delay)) = plan.action {
        pause(Duration::from_millis(delay)).await;
    }
    let Way { endpoint, meter, target } = way;
    let mut answer = match &plan.action {
        Some(Action::Respond(response)) => answer_of(response),
        Some(Action::Html(status)) => Answer::html(*status, gateway_page(*status)),
        _ => {
            let parts = CallParts { query: query_pairs(&parts.uri), body };
            world.lock().process(portal, target.map(|target| (target, parts)))
        }
    };
    if let Some(Action::LoseAnswer) = plan.action {
        world.lock().counters.called(&endpoint, Outcome::LostAnswer);
        return cut(scissors);
    }
    if let Some(Action::SlowAnswerMs(delay)) = plan.action {
        pause(Duration::from_millis(delay)).await;
    }
    pause(plan.after).await;
    world.lock().finish(Some(portal), meter, &endpoint, &mut answer);
    match plan.action {
        Some(Action::Truncate) => to_http(truncated(answer)),
        Some(Action::CutBody) => cut_body(answer),
        _ => to_http(answer),
    }
}

/// A call that is counted among those under way as long as this lives.
struct UnderWay<'a> {
    world: &'a SharedWorld,
    endpoint: String,
}

impl<'a> UnderWay<'a> {
    fn begin(world: &'a SharedWorld, endpoint: &str) -> Self {
        world.lock().counters.begun(endpoint);
        Self { world, endpoint: endpoint.to_owned() }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.world.lock().counters.ended(&self.endpoint);
    }
}

/// What happened when the call reached its account.
enum Arrival {
    Counted(PortalId),
    Answered(Answer),
}

/// Counts the call, unless a limit, a token or a fault that plays a limit refuses it.
fn arrive(world: &mut World, plan: &Plan, way: &Way, parts: &Parts) -> Arrival {
    let (portal, mut answer) = match &plan.action {
        Some(Action::Respond(response)) if response.status == 429 => {
            (world.is_authentic(&parts.headers), answer_of(response))
        }
        _ => match world.admit(&parts.headers, way.meter) {
            Ok(portal) => return Arrival::Counted(portal),
            Err(refused) => (refused.portal, refused.error.into()),
        },
    };
    world.finish(portal, way.meter, &way.endpoint, &mut answer);
    Arrival::Answered(answer)
}

/// What was drawn for a call.
struct Plan {
    action: Option<Action>,
    /// Latency before the call is counted, and after it is processed.
    before: Duration,
    after: Duration,
}

fn plan(world: &mut World, parts: &Parts, way: &Way, body: &[u8]) -> Plan {
    let body = String::from_utf8_lossy(body);
    let portal = world.is_authentic(&parts.headers);
    let path = parts.uri.path();
    let shape = Shape { method: &parts.method, path, endpoint: &way.endpoint, body: &body, portal };
    let action = world.faults.strike(&shape, &mut world.dice);
    let total_ms =
        world.latency.map_or(0, |latency| world.dice.random_range(latency.min_ms..=latency.max_ms.max(latency.min_ms)));
    let before_ms = world.dice.random_range(0..=total_ms);
    Plan { action, before: Duration::from_millis(before_ms), after: Duration::from_millis(total_ms - before_ms) }
}

async fn pause(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

/// The answer that is returned here never reaches the client: the connection fails its first write.
fn cut(scissors: &Scissors) -> Response {
    scissors.cut();
    Response::new(Body::empty())
}

fn query_pairs(uri: &Uri) -> Vec<(String, String)> {
    let query = uri.query().unwrap_or_default().as_bytes();
    url::form_urlencoded::parse(query).into_owned().collect()
}

fn answer_of(response: &FaultResponse) -> Answer {
    let mut answer = match (&response.body, &response.body_raw) {
        (Some(json), _) => Answer::json(response.status, json.clone()),
        (None, Some(text)) => Answer::text(response.status, "application/json", text.clone()),
        (None, None) => Answer { status: response.status, headers: Vec::new(), body: AnswerBody::Empty },
    };
    for (name, value) in &response.headers {
        answer.header(name, value);
    }
    answer
}

fn gateway_page(status: u16) -> String {
    format!(
        "<html>\r\n<head><title>{status}</title></head>\r\n<body>\r\n<center><h1>{status}</h1></center>\r\n\
         <hr><center>edge</center>\r\n</body>\r\n</html>\r\n"
    )
}

/// The same answer with half of its text.
fn truncated(answer: Answer) -> Answer {
    let text = match answer.body {
        AnswerBody::Json(json) => json.to_string(),
        AnswerBody::Text { text, .. } => text,
        AnswerBody::Empty => String::new(),
    };
    let half: String = text.chars().take(text.chars().count() / 2).collect();
    let body = AnswerBody::Text { content_type: "application/json", text: half };
    Answer { body, ..answer }
}

/// Announces the whole body, sends half of it, and fails.
fn cut_body(answer: Answer) -> Response {
    let (parts, text) = split(answer);
    let half = Bytes::copy_from_slice(&text.as_bytes()[..text.len() / 2]);
    let chunks = [Ok(half), Err(std::io::Error::from(std::io::ErrorKind::ConnectionAborted))];
    let mut response = Response::new(Body::from_stream(stream::iter(chunks)));
    apply(&mut response, &parts);
    response.headers_mut().insert("content-length", HeaderValue::from(text.len()));
    response
}

fn to_http(answer: Answer) -> Response {
    let (parts, text) = split(answer);
    let mut response = Response::new(Body::from(text));
    apply(&mut response, &parts);
    response
}

struct Head {
    status: u16,
    content_type: Option<&'static str>,
    headers: Vec<(String, String)>,
}

fn split(answer: Answer) -> (Head, String) {
    let (content_type, text) = match answer.body {
        AnswerBody::Json(json) => (Some("application/json;charset=utf-8"), json.to_string()),
        AnswerBody::Text { content_type, text } => (Some(content_type), text),
        AnswerBody::Empty => (None, String::new()),
    };
    (Head { status: answer.status, content_type, headers: answer.headers }, text)
}

fn apply(response: &mut Response, head: &Head) {
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(content_type) = head.content_type {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    for (name, value) in &head.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name.as_str()), HeaderValue::from_str(value)) {
            // A gateway on the way may add a wait of its own to HubSpot's. Every other header is sent once.
            if name == RETRY_AFTER {
                response.headers_mut().append(name, value);
            } else {
                response.headers_mut().insert(name, value);
            }
        }
    }
}
