//! Answers that are no answers: pages of gateways, bodies that end early, silence, and successes that say nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use hubferry::adapters::hubspot::{Class, CredentialProblem, HubSpot, HubSpotConfig, LimitPolicy, Refusal, Row, Sent};
use hubferry::model::ids::PortalId;
use hubspot_simulator::{Action, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{UPSERT, World, by_email};

const EMAILS: [&str; 2] = ["s1@example.test", "s2@example.test"];

/// The refusal of an upsert that an action strikes, after checking that it was called once and no more.
async fn refusal_of(world: &World, action: Action) -> Refusal {
    world.simulator.reset_stats();
    world.strike(action);
    let call = world.account().upsert_contacts("email", &by_email(&EMAILS)).await;
    assert_eq!(call.sent, Sent::Maybe);
    assert!(world.calls() <= 1, "{} calls were made for one", world.calls());
    call.result.unwrap_err()
}

/// One letter for each row: done, refused, unknown.
async fn rows_of(world: &World, action: Action) -> String {
    world.strike(action);
    let rows = world.account().upsert_contacts("email", &by_email(&EMAILS)).await.result.unwrap();
    let letter = |row: &Row<_>| match row {
        Row::Done(_) => 'd',
        Row::Refused(_) => 'r',
        Row::Unknown => 'u',
    };
    rows.iter().map(letter).collect()
}

fn raw(status: u16, headers: &[(&str, &str)], body: &str) -> Action {
    let headers: BTreeMap<_, _> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Action::Respond(Response { status, headers, body: None, body_raw: Some(body.to_owned()) })
}

fn done(trace_id: &str, id: u64) -> Value {
    json!({"id": id, "properties": {}, "new": true, "objectWriteTraceId": trace_id})
}

#[tokio::test]
async fn pages_and_empty_bodies_of_gateways_are_judged_by_their_status() {
    let world = World::new().await;
    for (action, status, class) in [
        (Action::Html(502), 502, Class::Temporary),
        (raw(504, &[], ""), 504, Class::Temporary),
        (raw(524, &[("content-type", "text/plain")], "error code: 524"), 524, Class::Temporary),
        (Action::Html(200), 200, Class::Temporary),
        (Action::Html(429), 429, Class::RateLimited(LimitPolicy::Unknown)),
        (
            raw(400, &[], "{\"status\":\"error\",\"message\":\"Property values were not va"),
            400,
            Class::WholeBatchInvalid,
        ),
        (Action::Html(403), 403, Class::Temporary),
        (Action::respond(403, json!({"category": "MISSING_SCOPES"})), 403, Class::Configuration),
        (Action::locked(), 423, Class::Locked),
    ] {
        let refusal = refusal_of(&world, action).await;
        assert_eq!((refusal.status, refusal.class), (Some(status), class), "{refusal:?}");
    }
}

#[tokio::test]
async fn bodies_that_end_early_and_answers_that_get_lost_are_temporary() {
    let world = World::new().await;
    for (action, code) in
        [(Action::Cut, "connection_lost"), (Action::LoseAnswer, "connection_lost"), (Action::Truncate, "http_200")]
    {
        let refusal = refusal_of(&world, action).await;
        assert_eq!((refusal.class, refusal.code.as_str()), (Class::Temporary, code), "{refusal:?}");
    }
    // Whether the status line still comes through before the connection ends is a matter of buffers.
    assert_eq!(refusal_of(&world, Action::CutBody).await.class, Class::Temporary);
    // Each of those that reached the account was written, and says so when it is repeated.
    let rows = world.account().upsert_contacts("email", &by_email(&EMAILS)).await.result.unwrap();
    assert!(rows.iter().all(|row| matches!(row, Row::Done(contact) if contact.new == Some(false))));
}

#[tokio::test]
async fn a_call_ends_at_its_time_limit_and_is_not_repeated() {
    let world = World::new().await.impatient(Duration::from_millis(200));
    for action in [Action::DelayMs(60_000), Action::SlowAnswerMs(60_000)] {
        let refusal = refusal_of(&world, action).await;
        assert_eq!((refusal.class, refusal.code.as_str()), (Class::Temporary, "timeout"));
    }
}

#[tokio::test]
async fn nobody_listening_is_temporary() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let hubspot = HubSpot::new(HubSpotConfig::new(format!("http://{address}").parse().unwrap())).unwrap();
    let token = "token".into();
    let refusal = hubspot.account(PortalId(1), &token).account_details().await.result.unwrap_err();
    assert_eq!((refusal.class, refusal.code.as_str()), (Class::Temporary, "connect_failed"));
}

/// Answers one connection with these bytes and closes it.
async fn one_answer(bytes: &'static [u8]) -> HubSpot {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        let _ = connection.read(&mut request).await.unwrap();
        connection.write_all(bytes).await.unwrap();
    });
    HubSpot::new(HubSpotConfig::new(format!("http://{address}").parse().unwrap())).unwrap()
}

#[tokio::test]
async fn a_success_that_is_cut_is_temporary_and_a_cut_error_keeps_its_status() {
    let token = "token".into();
    let hubspot = one_answer(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"portalId\": 1").await;
    let refusal = hubspot.account(PortalId(1), &token).account_details().await.result.unwrap_err();
    assert_eq!((refusal.class, refusal.code.as_str(), refusal.status), (Class::Temporary, "body_cut", Some(200)));
    let hubspot = one_answer(b"HTTP/1.1 429 Slow\r\nretry-after: 7\r\ncontent-length: 500\r\n\r\n{\"status\"").await;
    let refusal = hubspot.account(PortalId(1), &token).account_details().await.result.unwrap_err();
    assert_eq!((refusal.class, refusal.status), (Class::RateLimited(LimitPolicy::Unknown), Some(429)));
    assert_eq!(refusal.retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let world = World::new().await;
    let location = format!("{}/crm/objects/2026-09/contacts/batch/upsert", world.simulator.base_url());
    let refusal = refusal_of(&world, raw(307, &[("location", &location)], "")).await;
    assert_eq!((refusal.class, refusal.status), (Class::Temporary, Some(307)));
    assert_eq!(world.simulator.stats().calls(UPSERT), 1);
}

#[tokio::test]
async fn a_long_error_is_cut_and_judged_by_its_status() {
    let world = World::new().await;
    let long = format!("{{\"category\": \"X\", \"message\": \"{}\"}}", "x".repeat(1024 * 1024));
    let refusal = refusal_of(&world, raw(503, &[("content-type", "application/json")], &long)).await;
    assert_eq!((refusal.class, refusal.code.as_str()), (Class::Temporary, "http_503"));
    let refusal = refusal_of(&world, raw(200, &[], &" ".repeat(9 * 1024 * 1024))).await;
    assert_eq!((refusal.class, refusal.code.as_str()), (Class::Temporary, "body_too_large"));
}

#[tokio::test]
async fn a_success_accounts_for_no_row_that_it_does_not_list() {
    let world = World::new().await;
    let envelope = |results: Vec<Value>| json!({"status": "COMPLETE", "results": results});
    let nothing = json!({"status": "COMPLETE", "results": [], "errors": []});
    for (action, expected) in [
        (Action::respond(200, nothing.clone()), "uu"),
        (Action::respond(207, nothing), "uu"),
        (Action::respond(200, envelope(vec![done("e1", 51)])), "du"),
        (raw(204, &[], ""), "uu"),
        (raw(200, &[("content-type", "application/json")], ""), "uu"),
        (Action::respond(200, json!({"status": "error", "message": "no", "category": "VALIDATION_ERROR"})), "uu"),
        (Action::respond(200, envelope(vec![done("e2", 52), done("e1", 51)])), "dd"),
        (Action::respond(200, envelope(vec![done("e9", 59)])), "uu"),
    ] {
        assert_eq!(rows_of(&world, action).await, expected);
    }
}

#[tokio::test]
async fn errors_in_a_success_go_to_the_rows_they_name_and_to_nobody_else() {
    let world = World::new().await;
    let invalid = |context: Value| json!({"status": "error", "category": "VALIDATION_ERROR", "message": "no", "context": context});
    let answer =
        |results: Vec<Value>, errors: Vec<Value>| json!({"results": results, "errors": errors, "numErrors": 1});
    for (status, body, expected) in [
        (207, answer(vec![done("e1", 51)], vec![invalid(json!({"objectWriteTraceId": ["e2"]}))]), "dr"),
        (200, answer(vec![], vec![invalid(json!({"objectWriteTraceId": ["e1", "e2"]}))]), "rr"),
        (207, answer(vec![], vec![invalid(json!({"ids": ["S2@example.test"]}))]), "ur"),
        (207, answer(vec![done("e2", 52)], vec![invalid(json!({}))]), "rd"),
        (207, answer(vec![], vec![invalid(json!({}))]), "uu"),
    ] {
        assert_eq!(rows_of(&world, Action::respond(status, body.clone())).await, expected, "{body}");
    }
}

#[tokio::test]
async fn a_wait_that_hubspot_asks_for_is_passed_on() {
    let world = World::new().await;
    let refusal = refusal_of(&world, Action::migrating(3600)).await;
    assert_eq!((refusal.class, refusal.retry_after), (Class::Migrating, Some(Duration::from_hours(1))));
    let refusal = refusal_of(&world, raw(503, &[("Retry-After", "86400000")], "")).await;
    assert_eq!(refusal.retry_after, Some(Duration::from_hours(24)));
    let refusal = refusal_of(&world, raw(503, &[("Retry-After", "soon")], "")).await;
    assert_eq!(refusal.retry_after, None);
}

#[tokio::test]
async fn an_expired_token_is_told_from_a_wrong_one() {
    let world = World::new().await;
    let body = json!({"status": "error", "category": "EXPIRED_AUTHENTICATION", "correlationId": "c-1", "message":
        "The OAuth token used to make this call expired 9 second(s) ago."});
    let refusal = refusal_of(&world, Action::respond(401, body)).await;
    assert_eq!(refusal.class, Class::Credential(CredentialProblem::Expired));
}

#[tokio::test]
async fn what_hubspot_says_about_a_person_is_in_no_text_of_a_refusal() {
    let world = World::new().await;
    let body = json!({"status": "error", "category": "VALIDATION_ERROR", "message":
        "Property values were not valid: [{\"isValid\":false,\"message\":\"Email address kim@bad.example.test is invalid\",\
         \"error\":\"INVALID_EMAIL\",\"name\":\"email\"}]"});
    let refusal = refusal_of(&world, Action::respond(400, body)).await;
    assert_eq!((refusal.class, refusal.code.as_str()), (Class::WholeBatchInvalid, "invalid_email"));
    assert!(refusal.named.ids.contains("kim@bad.example.test"));
    let shown = format!("{refusal:?} {}", refusal.summary);
    assert!(!shown.contains("kim"), "{shown}");
}
