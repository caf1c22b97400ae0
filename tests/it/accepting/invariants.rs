//! What the schema itself makes impossible, whoever writes.

use tokio_postgres::error::SqlState;

use super::accept;
use super::setting::{Setting, subscribing};

/// Tries a statement on a table with one accepted event, and expects this SQLSTATE.
async fn impossible(setting: &Setting, expected: &SqlState, statements: &[&str]) {
    let client = setting.application().await;
    for statement in statements {
        let error = client.batch_execute(statement).await.expect_err(statement);
        assert_eq!(error.code(), Some(expected), "{statement}: {error}");
    }
}

async fn with_an_event() -> Setting {
    let setting = Setting::new().await;
    accept(&setting.application().await, "k", &subscribing("ada@example.test")).await.expect("accepted");
    setting
}

#[tokio::test]
async fn status_lease_and_completion_of_an_event_agree() {
    let setting = with_an_event().await;
    impossible(
        &setting,
        &SqlState::CHECK_VIOLATION,
        &[
            "update hubferry.outbox_events set status = 'processing'",
            "update hubferry.outbox_events set status = 'publishing'",
            "update hubferry.outbox_events set status = 'processing', lease_token = gen_random_uuid()",
            "update hubferry.outbox_events set lease_token = gen_random_uuid(), lease_expires_at = now()",
            "update hubferry.outbox_events set status = 'processing', lease_token = gen_random_uuid(), lease_expires_at = 'infinity'",
            "update hubferry.outbox_events set status = 'retry', lease_expires_at = now()",
            "update hubferry.outbox_events set status = 'queued'",
            "update hubferry.outbox_events set status = 'synced'",
            "update hubferry.outbox_events set status = 'superseded'",
            "update hubferry.outbox_events set status = 'cancelled'",
            "update hubferry.outbox_events set finished_at = now()",
            "update hubferry.outbox_events set status = 'dead', finished_at = now()",
            "update hubferry.outbox_events set status = 'dead', last_error_code = 'x'",
            "update hubferry.outbox_events set status = 'sent'",
            "update hubferry.outbox_events set lane = 'slow'",
            "update hubferry.outbox_events set next_attempt_at = 'infinity'",
            "update hubferry.outbox_events set process_attempts = -1",
            "update hubferry.outbox_events set sequence = null",
            "update hubferry.outbox_events set stream_id = null",
            "update hubferry.outbox_events set sequence = 0",
            "update hubferry.outbox_events set payload = '[]'",
            "update hubferry.outbox_events set kind = 'Two Words'",
            "update hubferry.outbox_events set last_error_summary = repeat('x', 501)",
        ],
    )
    .await;
}

#[tokio::test]
async fn every_status_can_be_reached_with_what_belongs_to_it() {
    let setting = with_an_event().await;
    let client = setting.application().await;
    for change in [
        "status = 'publishing', lease_token = gen_random_uuid(), lease_expires_at = now()",
        "status = 'queued', queued_at = now(), lease_token = null, lease_expires_at = null",
        "status = 'processing', lease_token = gen_random_uuid(), lease_expires_at = now()",
        "status = 'retry', lease_token = null, lease_expires_at = null",
        "status = 'synced', finished_at = now()",
        "status = 'superseded'",
        "status = 'cancelled'",
        "status = 'dead', last_error_code = 'row_invalid'",
        "status = 'pending', finished_at = null, last_error_code = null",
    ] {
        client.execute(&format!("update hubferry.outbox_events set {change}"), &[]).await.expect(change);
    }
}

#[tokio::test]
async fn a_contact_is_leased_and_linked_wholly_or_not_at_all() {
    let setting = with_an_event().await;
    let link = "insert into hubferry.contact_links (portal_id, contact_key, record_id, linked_at, lease_token, lease_expires_at)
                select 4711, contact_key, ";
    let statements = [
        "5, null, null, null",
        "null, now(), null, null",
        "0, now(), null, null",
        "null, null, gen_random_uuid(), null",
        "null, null, null, now()",
        "null, null, gen_random_uuid(), 'infinity'",
    ]
    .map(|values| format!("{link} {values} from hubferry.contacts"));
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    impossible(&setting, &SqlState::CHECK_VIOLATION, &statements).await;
}

#[tokio::test]
async fn a_stream_has_one_event_a_sequence_and_a_key_one_receipt() {
    let setting = with_an_event().await;
    impossible(
        &setting,
        &SqlState::UNIQUE_VIOLATION,
        &[
            "insert into hubferry.outbox_events (event_id, kind, stream_id, sequence, portal_id, brand, lane, payload)
             select gen_random_uuid(), kind, stream_id, sequence, portal_id, brand, lane, payload from hubferry.outbox_events",
            "insert into hubferry.subscription_requests
                 (request_id, brand, idempotency_key, request_hash, stream_id, event_id, sequence, desired_state, mapping_version)
             select gen_random_uuid(), brand, idempotency_key, request_hash, stream_id, event_id, sequence, desired_state, mapping_version
             from hubferry.subscription_requests",
            "insert into hubferry.contacts (contact_key, email, keyed_by_email) select 'another', email, true from hubferry.contacts",
            "insert into hubferry.subscription_streams (contact_key, brand, product)
             select contact_key, brand, product from hubferry.subscription_streams",
        ],
    )
    .await;
}

#[tokio::test]
async fn what_an_event_refers_to_stays() {
    let setting = with_an_event().await;
    impossible(
        &setting,
        &SqlState::FOREIGN_KEY_VIOLATION,
        &[
            "delete from hubferry.contacts",
            "delete from hubferry.subscription_streams",
            "delete from hubferry.products",
            "delete from hubferry.brands",
            "delete from hubferry.portals",
        ],
    )
    .await;
}

#[tokio::test]
async fn a_receipt_of_an_operation_is_finished_exactly_when_it_is_not_started() {
    let setting = with_an_event().await;
    let receipt = "insert into hubferry.operation_receipts (event_id, operation_key, portal_id, contact_key, desired_hash, status, finished_at)
                   select event_id, 'upsert', 4711, 'u1', sha256(''), ";
    let statements = ["'done', null", "'refused', null", "'started', now()", "'unknown', now()"]
        .map(|values| format!("{receipt} {values} from hubferry.outbox_events"));
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    impossible(&setting, &SqlState::CHECK_VIOLATION, &statements).await;
}
