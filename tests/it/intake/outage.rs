//! The database is away: "I could not check" is not "you are wrong".

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, header};
use hubferry::adapters::db::Db;
use hubferry::flows::intake::Intake;
use secrecy::SecretString;
use tokio::net::TcpListener;

use super::{Answer, BATCH, Intaking, SINGLE, send, subscribing};
use crate::accepting::setting::FAR_TOO_LONG;

/// Every call that needs the database, with a token that nobody knows yet.
async fn ask_everything(router: &Router) -> Vec<Answer> {
    let calls = [
        (Method::POST, SINGLE),
        (Method::POST, BATCH),
        (Method::GET, "/v1/requests/00000000-0000-4000-8000-000000000000"),
    ];
    let answers = calls.map(|(method, path)| {
        let call = Request::builder().method(method).uri(path).header(header::AUTHORIZATION, "Bearer unknown");
        let call = call.header("idempotency-key", "k").body(Body::from(subscribing("ada@example.test").to_string()));
        send(router, call.expect("a request"))
    });
    let answers = tokio::time::timeout(FAR_TOO_LONG, futures::future::join_all(answers)).await;
    answers.expect("every wait for the database is bounded")
}

fn expect_unavailable(answer: &Answer) {
    answer.expect_problem(503, "unavailable", None);
    let seconds: u32 = answer.headers[header::RETRY_AFTER].to_str().expect("a number").parse().expect("a number");
    assert!((1..60).contains(&seconds));
}

/// An intake whose database would be at this port.
fn intake_at(port: u16) -> Router {
    let url = format!("postgres://hubferry:secret@127.0.0.1:{port}/hubferry");
    Intake::new(Db::new(&SecretString::from(url), 2).expect("a URL that can be read")).router()
}

#[tokio::test]
async fn without_a_database_callers_are_asked_to_come_again() {
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = closed.local_addr().expect("an address").port();
    drop(closed);
    for answer in ask_everything(&intake_at(port)).await {
        expect_unavailable(&answer);
        assert!(!answer.body.to_string().contains("secret"));
    }
}

#[tokio::test]
async fn a_database_that_never_answers_does_not_hold_callers_for_ever() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = silent.local_addr().expect("an address").port();
    ask_everything(&intake_at(port)).await.iter().for_each(expect_unavailable);
}

#[tokio::test]
async fn a_known_caller_is_asked_to_come_again_too_and_what_it_sent_left_nothing() {
    let intake = Intaking::new().await;
    intake.accept("k", &subscribing("ada@example.test")).await.expect_accepted();
    let client = intake.setting.application().await;
    let away = "alter schema hubferry rename to away";
    client.batch_execute(away).await.expect("the schema steps aside");
    let answer = intake.accept("l", &subscribing("grace@example.test")).await;
    expect_unavailable(&answer);

    client.batch_execute("alter schema away rename to hubferry").await.expect("the schema comes back");
    intake.accept("l", &subscribing("grace@example.test")).await.expect_accepted();
}

#[tokio::test]
async fn a_connection_that_the_server_ended_costs_nobody_an_answer() {
    let intake = Intaking::new().await;
    intake.accept("k", &subscribing("ada@example.test")).await.expect_accepted();
    let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid()";
    let ended = intake.setting.ask(end).await;
    assert!(ended.get::<_, i64>(0) > 0);
    intake.accept("l", &subscribing("ada@example.test")).await.expect_accepted();
}
