//! The admin routes, as a process in another language uses them.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Sqs, code};

/// Status and body of one HTTP request, written by hand so that no other HTTP client is needed.
async fn http(sqs: &Sqs, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(sqs.emulator.address()).await.unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    let length = body.len();
    let request = format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn faults_are_asked_for_listed_and_cleared() {
    let sqs = Sqs::start().await;
    let fault = json!({"kind": "unavailable", "times": {"next": 2}, "queue": "work"}).to_string();
    assert_eq!(http(&sqs, "POST", "/__emulator/faults", &fault).await.0, 201);
    let send = sqs.client.send_message().queue_url(&sqs.url).message_body("x").send().await;
    assert_eq!(code(send), "ServiceUnavailable");
    let (_, left) = http(&sqs, "GET", "/__emulator/faults", "").await;
    assert_eq!(left[0]["times"], json!({"next": 1}));
    assert_eq!(http(&sqs, "DELETE", "/__emulator/faults", "").await.0, 204);
    sqs.send("x").await;
}

#[tokio::test]
async fn a_fault_that_is_not_understood_is_refused() {
    let sqs = Sqs::start().await;
    let fault = json!({"kind": "unavailable", "quue": "work"}).to_string();
    assert_eq!(http(&sqs, "POST", "/__emulator/faults", &fault).await.0, 422);
}

#[tokio::test]
async fn stats_and_messages_tell_what_happened() {
    let sqs = Sqs::start().await;
    sqs.send("gone").await;
    let received = sqs.receive().await;
    sqs.delete(&received[0]).await;
    sqs.send("here").await;
    let (_, stats) = http(&sqs, "GET", "/__emulator/stats", "").await;
    assert_eq!(stats["calls"]["SendMessage"], 2);
    assert_eq!(stats["queues"]["work"]["deleted"], 1);
    assert_eq!(stats["counts"]["work"], json!({"visible": 1, "in_flight": 0, "delayed": 0}));
    let (_, now) = http(&sqs, "GET", "/__emulator/messages?queue=work", "").await;
    assert_eq!(now.as_array().unwrap().len(), 1);
    assert_eq!(now[0]["body"], "here");
    let (_, ever) = http(&sqs, "GET", "/__emulator/messages?queue=work&ever=true", "").await;
    assert_eq!(ever.as_array().unwrap().len(), 2);
    assert_eq!(http(&sqs, "GET", "/__emulator/messages?queue=none", "").await.0, 404);
}

#[tokio::test]
async fn the_clock_moves_from_outside() {
    let sqs = Sqs::start().await;
    sqs.send("x").await;
    sqs.receive().await;
    assert_eq!(http(&sqs, "POST", "/__emulator/advance", r#"{"seconds": 30}"#).await.0, 204);
    assert_eq!(sqs.receive().await.len(), 1);
}

#[tokio::test]
async fn actions_that_are_not_played_are_refused_in_clear_words() {
    let sqs = Sqs::start().await;
    let tags = sqs.client.list_queue_tags().queue_url(&sqs.url).send().await.unwrap_err();
    assert!(tags.into_service_error().is_unsupported_operation());
    assert_eq!(http(&sqs, "POST", "/", "{}").await.0, 400);
}
