//! Nothing could be stored: 503, and HubSpot sends it again.

use serde_json::json;
use tokio::net::TcpListener;

use super::{Answer, Hooks, SECRET, change, now, send, signed, webhook_at};
use crate::accepting::setting::FAR_TOO_LONG;

/// HubSpot hangs up after this.
const HUBSPOT_WAITS: std::time::Duration = std::time::Duration::from_secs(5);

fn expect_unavailable(answer: &Answer) {
    answer.expect_problem(503, "unavailable");
    assert!(answer.headers.contains_key("retry-after"));
    assert!(!answer.body.to_string().contains("secret"));
}

fn delivery() -> String {
    json!([change(json!({}))]).to_string()
}

#[tokio::test]
async fn without_a_database_a_genuine_delivery_is_not_taken_and_a_false_one_is_refused() {
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = closed.local_addr().expect("an address").port();
    drop(closed);
    let router = webhook_at(port);
    expect_unavailable(&send(&router, signed(SECRET, delivery().as_bytes(), now())).await);
    let foreign = signed("a-secret-of-somebody-else", delivery().as_bytes(), now());
    send(&router, foreign).await.expect_problem(401, "bad_signature");
}

#[tokio::test]
async fn a_database_that_never_answers_is_given_up_before_hubspot_gives_up() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let router = webhook_at(silent.local_addr().expect("an address").port());
    let answer = tokio::time::timeout(HUBSPOT_WAITS, send(&router, signed(SECRET, delivery().as_bytes(), now()))).await;
    expect_unavailable(&answer.expect("an answer in time"));
}

#[tokio::test]
async fn a_statement_that_waits_is_given_up_in_time_and_the_repeat_is_stored_once() {
    let hooks = Hooks::new().await;
    let blocker = hooks.setting.application().await;
    blocker.batch_execute("begin; lock table hubferry.webhook_events").await.expect("a lock");
    let answer = tokio::time::timeout(HUBSPOT_WAITS, hooks.deliver(&delivery())).await;
    expect_unavailable(&answer.expect("an answer in time"));
    blocker.batch_execute("rollback").await.expect("an end");
    let again = tokio::time::timeout(FAR_TOO_LONG, hooks.deliver(&delivery())).await.expect("an answer");
    assert_eq!(again.status, 200, "{}", again.body);
    // Whether the first statement was carried out after all or not: one notification, one event.
    let (_, notifications, events) = hooks.rows().await;
    assert_eq!((notifications, events), (1, 1));
}

#[tokio::test]
async fn a_schema_that_is_away_costs_nothing_but_a_repeat() {
    let hooks = Hooks::new().await;
    let client = hooks.setting.application().await;
    client.batch_execute("alter schema hubferry rename to away").await.expect("the schema steps aside");
    expect_unavailable(&hooks.deliver(&delivery()).await);
    client.batch_execute("alter schema away rename to hubferry").await.expect("the schema comes back");
    assert_eq!(hooks.deliver(&delivery()).await.counts(), [1, 0, 0]);
    assert_eq!(hooks.rows().await, (1, 1, 1));
}

#[tokio::test]
async fn connections_that_the_server_ended_cost_nobody_an_answer() {
    let hooks = Hooks::new().await;
    assert_eq!(hooks.deliver(&delivery()).await.status, 200);
    let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid()";
    assert!(hooks.setting.ask(end).await.get::<_, i64>(0) > 0);
    assert_eq!(hooks.store(&[change(json!({"eventId": 2}))]).await.counts(), [1, 0, 0]);
}
