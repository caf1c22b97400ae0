//! The door in the database, as an application finds it: inside a transaction of its own, and with many others at once.

mod configuring;
mod contacts;
mod crowd;
mod invariants;
mod open_transaction;
mod psql;
pub(crate) mod setting;

use serde_json::{Value, json};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, GenericClient};
use uuid::Uuid;

use setting::{BRAND, PRODUCT, Setting, UNMAPPED_PRODUCT, subscribing, unsubscribing, with};

/// What the door answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Receipt {
    request_id: Uuid,
    event_id: Uuid,
    sequence: i64,
    replayed: bool,
}

/// Goes through the door with a request, as an application does.
pub(crate) async fn accept(client: &impl GenericClient, key: &str, request: &Value) -> Result<Receipt, Error> {
    let text = |name: &str| request[name].as_str().map(str::to_owned);
    let row = client
        .query_one(
            "select * from hubferry.accept_subscription(
                 brand => $1, product => $2, idempotency_key => $3, contact => $4, desired_state => $5, consent => $6)",
            &[
                &text("brand"),
                &text("product"),
                &key,
                &request.get("contact"),
                &text("desired_state"),
                &request.get("consent"),
            ],
        )
        .await?;
    assert_eq!(row.get::<_, &str>("status"), "accepted");
    Ok(Receipt {
        request_id: row.get("request_id"),
        event_id: row.get("event_id"),
        sequence: row.get("sequence"),
        replayed: row.get("replayed"),
    })
}

/// What became of each request of a call: its receipt, or the code of its fault.
type Outcomes = Vec<Result<Receipt, String>>;

/// Goes through the door with many requests.
async fn try_accept_many(client: &impl GenericClient, requests: &[Value]) -> Result<Outcomes, Error> {
    let sql = "select * from hubferry.accept_subscriptions($1)";
    let rows = client.query(sql, &[&Value::from(requests.to_vec())]).await?;
    assert_eq!(rows.len(), requests.len());
    let receipts = rows.iter().map(|row| match row.get::<_, Option<String>>("error_code") {
        Some(code) => Err(code),
        None => Ok(Receipt {
            request_id: row.get("request_id"),
            event_id: row.get("event_id"),
            sequence: row.get("sequence"),
            replayed: row.get("replayed"),
        }),
    });
    Ok(receipts.collect())
}

/// Goes through the door with many requests, and panics unless the database answers.
async fn accept_many(client: &impl GenericClient, requests: &[Value]) -> Outcomes {
    try_accept_many(client, requests).await.expect("an answer")
}

/// An application with a table of its own.
async fn application_with_table(setting: &Setting) -> tokio_postgres::Client {
    let application = setting.application().await;
    application.batch_execute("create table sign_ups (email text primary key)").await.expect("a table");
    application
}

async fn sign_ups(setting: &Setting) -> i64 {
    setting.ask("select count(*) from sign_ups").await.get(0)
}

#[tokio::test]
async fn a_request_and_the_applications_own_row_are_committed_together() {
    let setting = Setting::new().await;
    let mut application = application_with_table(&setting).await;
    let transaction = application.transaction().await.expect("a transaction");
    transaction.execute("insert into sign_ups values ('ada@example.test')", &[]).await.expect("an own row");
    let receipt = accept(&transaction, "k", &subscribing("ada@example.test")).await.expect("accepted");
    assert!(!receipt.replayed);
    assert_eq!((sign_ups(&setting).await, setting.rows().await[2].1), (0, 0), "nobody sees what may be rolled back");
    transaction.commit().await.expect("a commit");
    assert_eq!(sign_ups(&setting).await, 1);
    let rows = [("contacts", 1), ("subscription_streams", 1), ("subscription_requests", 1), ("outbox_events", 1)];
    assert_eq!(setting.rows().await[..4], rows);
}

#[tokio::test]
async fn a_rollback_leaves_nothing_at_all() {
    let setting = Setting::new().await;
    let mut application = application_with_table(&setting).await;
    let before = setting.rows().await;
    let transaction = application.transaction().await.expect("a transaction");
    transaction.execute("insert into sign_ups values ('ada@example.test')", &[]).await.expect("an own row");
    accept(&transaction, "k", &subscribing("ada@example.test")).await.expect("accepted");
    transaction.rollback().await.expect("a rollback");
    assert_eq!((sign_ups(&setting).await, setting.rows().await), (0, before));

    // The key is as good as new, for another request too.
    let receipt = accept(&application, "k", &unsubscribing("grace@example.test")).await.expect("accepted");
    assert_eq!((receipt.sequence, receipt.replayed), (1, false));
}

#[tokio::test]
async fn a_refusal_undoes_the_application_s_change_unless_a_savepoint_keeps_it() {
    let setting = Setting::new().await;
    let mut application = application_with_table(&setting).await;
    let mut transaction = application.transaction().await.expect("a transaction");
    transaction.execute("insert into sign_ups values ('ada@example.test')", &[]).await.expect("an own row");
    let attempt = transaction.savepoint("attempt").await.expect("a savepoint");
    accept(&attempt, "k", &subscribing("nobody")).await.expect_err("no address");
    attempt.rollback().await.expect("back to the savepoint");
    accept(&transaction, "k", &subscribing("ada@example.test")).await.expect("accepted");
    transaction.commit().await.expect("a commit");
    assert_eq!((sign_ups(&setting).await, setting.rows().await[3].1), (1, 1));
}

#[tokio::test]
async fn a_repeat_is_replayed_within_a_transaction_and_across_transactions() {
    let setting = Setting::new().await;
    let mut application = setting.application().await;
    let request = subscribing("ada@example.test");
    let transaction = application.transaction().await.expect("a transaction");
    let first = accept(&transaction, "k", &request).await.expect("accepted");
    let replay = Receipt { replayed: true, ..first.clone() };
    assert_eq!(accept(&transaction, "k", &request).await.expect("replayed"), replay);
    transaction.commit().await.expect("a commit");

    let other = setting.application().await;
    assert_eq!(accept(&other, "k", &request).await.expect("replayed"), replay);
    assert_eq!(setting.rows().await[3].1, 1);
}

#[tokio::test]
async fn every_refusal_has_a_sqlstate_of_its_own_and_names_its_column() {
    let setting = Setting::new().await;
    let application = setting.application().await;
    let ada = || subscribing("ada@example.test");
    accept(&application, "used", &ada()).await.expect("accepted");
    let erased = with(subscribing("grace@example.test"), "/contact/key", json!("erased"));
    accept(&application, "erased", &erased).await.expect("accepted");
    let erase = "update hubferry.contacts set erased_at = now() where contact_key = 'erased'";
    application.batch_execute(erase).await.expect("an update");

    let before = setting.rows().await;
    for (key, request, sqlstate, column, code) in [
        ("k", with(ada(), "/contact", json!(null)), "HF001", "contact", "invalid_field"),
        ("k", with(ada(), "/contact/mail", json!("x")), "HF001", "contact.mail", "unknown_field"),
        ("k", with(ada(), "/brand", json!(null)), "HF001", "brand", "invalid_field"),
        ("k", with(ada(), "/brand", json!("nobody")), "HF002", "brand", "unknown_brand"),
        ("k", with(ada(), "/product", json!("nothing")), "HF003", "product", "unknown_product"),
        ("k", with(ada(), "/product", json!(UNMAPPED_PRODUCT)), "HF004", "product", "no_active_mapping"),
        ("k", subscribing("nobody"), "HF005", "contact.email", "invalid_email"),
        ("k", subscribing("ada@exämple.test"), "HF005", "contact.email", "invalid_email"),
        ("k", with(ada(), "/desired_state", json!("gone")), "HF006", "desired_state", "invalid_desired_state"),
        ("k", with(ada(), "/consent", json!(null)), "HF007", "consent", "invalid_consent"),
        ("", ada(), "HF008", "idempotency_key", "invalid_idempotency_key"),
        ("used", unsubscribing("ada@example.test"), "HF009", "idempotency_key", "idempotency_conflict"),
        ("k", erased, "HF010", "contact.key", "contact_erased"),
        ("k", with(ada(), "/contact/key", json!("-")), "HF011", "contact.key", "invalid_contact_key"),
        ("k", with(ada(), "/contact/properties", json!([])), "HF012", "contact.properties", "invalid_properties"),
    ] {
        let error = accept(&application, key, &request).await.expect_err(code);
        let refusal = error.as_db_error().expect("a refusal");
        let found = (refusal.code().code(), refusal.column(), refusal.detail());
        assert_eq!(found, (sqlstate, Some(column), Some(code)));
        assert!(refusal.message().starts_with(column), "{}", refusal.message());
        assert!(!refusal.message().contains('@') || code == "invalid_email", "{}", refusal.message());
    }
    let lane = "select hubferry.accept_subscription('acme', 'newsletter', 'k', '{\"email\": \"ada@example.test\"}', 'unsubscribed', lane => 'slow')";
    let error = application.query(lane, &[]).await.expect_err("no such lane");
    assert_eq!(error.code().map(SqlState::code), Some("HF013"));
    let many = "select hubferry.accept_subscriptions('[]')";
    let error = application.query(many, &[]).await.expect_err("no requests");
    assert_eq!(error.code().map(SqlState::code), Some("HF001"));
    assert_eq!(setting.rows().await, before);
}

#[tokio::test]
async fn an_event_carries_what_its_worker_needs_and_no_address() {
    let setting = Setting::new().await;
    let application = setting.application().await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    application
        .query_one(
            "select * from hubferry.accept_subscription('acme', 'newsletter', 'k', '{\"email\": \"ada@example.test\"}',
                 'unsubscribed', lane => 'bulk', traceparent => $1)",
            &[&trace],
        )
        .await
        .expect("accepted");
    let row = setting.ask("select kind, sequence, portal_id, brand, lane, status, traceparent, payload, payload::text from hubferry.outbox_events").await;
    assert_eq!(row.get::<_, &str>("kind"), hubferry::model::subscription::DESIRED_STATE_KIND);
    assert_eq!((row.get::<_, i64>("sequence"), row.get::<_, i64>("portal_id")), (1, setting::PORTAL.0));
    assert_eq!((row.get::<_, &str>("brand"), row.get::<_, &str>("lane")), (BRAND, "bulk"));
    assert_eq!((row.get::<_, &str>("status"), row.get::<_, &str>("traceparent")), ("pending", trace));
    let payload: hubferry::model::subscription::Payload =
        serde_json::from_value(row.get("payload")).expect("a payload that a worker can read");
    assert_eq!((payload.mapping.version, payload.mapping.targets.subscription_type), (1, Some(1001)));
    assert!(payload.consent.is_none());
    assert!(!row.get::<_, &str>(8).contains('@'));
    assert_eq!(PRODUCT, "newsletter");
}

#[tokio::test]
async fn a_trace_that_can_not_be_followed_is_no_reason_to_refuse() {
    let setting = Setting::new().await;
    let application = setting.application().await;
    for (number, trace) in ["", "no trace", &"0".repeat(1000)].into_iter().enumerate() {
        application
            .query_one(
                "select * from hubferry.accept_subscription('acme', 'newsletter', $1, '{\"email\": \"ada@example.test\"}',
                     'unsubscribed', traceparent => $2)",
                &[&format!("k{number}"), &trace],
            )
            .await
            .expect("accepted");
    }
    let row = setting.ask("select count(*) from hubferry.outbox_events where traceparent is null").await;
    assert_eq!(row.get::<_, i64>(0), 3);
}

#[tokio::test]
async fn settings_of_an_application_s_session_change_nothing() {
    let setting = Setting::new().await;
    let plain = setting.application().await;
    let request = with(subscribing("ada@example.test"), "/consent/given_at", json!("2026-05-04T09:30:00+02:00"));
    let first = accept(&plain, "k", &request).await.expect("accepted");

    let odd = setting.application().await;
    odd.batch_execute(
        "set datestyle = 'SQL, DMY'; set timezone = 'Asia/Kolkata'; set intervalstyle = 'sql_standard'; set search_path = '';
         set bytea_output = 'escape'; set extra_float_digits = 0; set default_transaction_isolation = 'serializable'",
    )
    .await
    .expect("settings");
    let again = accept(&odd, "k", &request).await.expect("replayed");
    assert_eq!(again, Receipt { replayed: true, ..first });
    accept(&odd, "l", &request).await.expect("accepted");
    let row = setting.ask("select count(distinct payload) from hubferry.outbox_events").await;
    assert_eq!(row.get::<_, i64>(0), 1);
}
