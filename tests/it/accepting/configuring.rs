//! Migrations, and what operators decide.

use hubferry::adapters::db::{activate_mapping, migrate, push_mapping};
use hubferry::model::mapping::Targets;
use secrecy::SecretString;
use serde_json::json;
use tokio_postgres::error::SqlState;

use super::accept;
use super::setting::{BRAND, PRODUCT, Setting, subscribing};
use crate::servers::fresh_database;

/// A database with nothing in it, not even the schema.
async fn empty_database() -> (crate::servers::TestDatabase, SecretString) {
    let database = fresh_database().await;
    let (client, connection) =
        tokio_postgres::connect(&database.url, tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client.batch_execute("drop schema hubferry cascade").await.expect("an empty database");
    let url = SecretString::from(database.url.clone());
    (database, url)
}

fn targets(subscription_type: i64) -> Targets {
    serde_json::from_value(json!({"subscription_type": subscription_type})).expect("targets")
}

#[tokio::test]
async fn every_migration_applies_to_an_empty_database_and_only_once() {
    let (_database, url) = empty_database().await;
    let first = migrate(&url).await.expect("a migrated database");
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations")).expect("a folder").count();
    assert_eq!(first.applied.len(), files);
    assert_eq!(first.version, i32::try_from(files).ok());
    let second = migrate(&url).await.expect("a migrated database");
    assert_eq!((second.applied.len(), second.version), (0, first.version));
}

#[tokio::test]
async fn processes_that_migrate_at_once_wait_for_each_other() {
    let (_database, url) = empty_database().await;
    let runs = futures::future::join_all((0..4).map(|_| migrate(&url))).await;
    let mut applied: Vec<usize> = runs.into_iter().map(|run| run.expect("a migrated database").applied.len()).collect();
    applied.sort_unstable();
    assert_eq!(applied[..3], [0, 0, 0]);
    assert!(applied[3] > 0);
}

#[tokio::test]
async fn a_version_of_a_mapping_never_says_something_else() {
    let setting = Setting::new().await;
    let operator = setting.application().await;
    for change in ["targets = '{\"subscription_type\": 2}'", "version = 7", "targets = '{}', state = 'draft'"] {
        let error = operator.execute(&format!("update hubferry.mappings set {change}"), &[]).await.expect_err(change);
        assert_eq!(error.code().map(SqlState::code), Some("HF020"));
        assert!(error.as_db_error().expect("a refusal").message().contains("push a new version"));
    }
}

#[tokio::test]
async fn a_product_has_one_active_version_at_most() {
    let setting = Setting::new().await;
    let operator = setting.application().await;
    push_mapping(&operator, BRAND, PRODUCT, &targets(1002)).await.expect("a second version");
    let second = "update hubferry.mappings set state = 'active', activated_at = now() where brand = 'acme' and product = 'newsletter' and version = 2";
    let error = operator.execute(second, &[]).await.expect_err("two active versions");
    assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
}

#[tokio::test]
async fn pushing_the_same_targets_again_makes_no_new_version() {
    let setting = Setting::new().await;
    let operator = setting.application().await;
    let push = async |subscription_type| {
        let pushed = push_mapping(&operator, BRAND, PRODUCT, &targets(subscription_type)).await.expect("a version");
        (pushed.version, pushed.existed)
    };
    assert_eq!(push(1001).await, (1, true));
    assert_eq!(push(1002).await, (2, false));
    assert_eq!(push(1002).await, (2, true));
    assert_eq!(push(1001).await, (3, false), "back to what an older version said is a new version");
}

#[tokio::test]
async fn an_activated_version_is_what_the_next_request_is_accepted_under() {
    let setting = Setting::new().await;
    let operator = setting.application().await;
    let before = accept(&operator, "before", &subscribing("ada@example.test")).await.expect("accepted");
    push_mapping(&operator, BRAND, PRODUCT, &targets(1002)).await.expect("a second version");
    let draft = accept(&operator, "draft", &subscribing("ada@example.test")).await.expect("accepted");
    assert_eq!(activate_mapping(&operator, BRAND, PRODUCT, None).await.expect("an answer"), Some(2));
    let after = accept(&operator, "after", &subscribing("ada@example.test")).await.expect("accepted");
    assert_eq!(activate_mapping(&operator, BRAND, PRODUCT, Some(1)).await.expect("an answer"), Some(1));
    assert_eq!(
        activate_mapping(&operator, BRAND, PRODUCT, Some(1)).await.expect("an answer"),
        Some(1),
        "once more is nothing new"
    );
    let back = accept(&operator, "back", &subscribing("ada@example.test")).await.expect("accepted");
    for absent in
        [activate_mapping(&operator, BRAND, PRODUCT, Some(9)), activate_mapping(&operator, BRAND, "nothing", None)]
            .map(Box::pin)
    {
        assert_eq!(absent.await.expect("an answer"), None);
    }

    for (receipt, version, subscription_type) in
        [(before, 1, 1001), (draft, 1, 1001), (after, 2, 1002), (back, 1, 1001)]
    {
        let sql = "select (payload #>> '{mapping,version}')::int, (payload #>> '{mapping,targets,subscription_type}')::int, r.mapping_version
                   from hubferry.outbox_events join hubferry.subscription_requests r using (event_id) where event_id = $1";
        let row = operator.query_one(sql, &[&receipt.event_id]).await.expect("one row");
        assert_eq!(
            (row.get::<_, i32>(0), row.get::<_, i32>(1), row.get::<_, i32>(2)),
            (version, subscription_type, version)
        );
    }
}

#[tokio::test]
async fn operators_who_activate_at_once_leave_one_active_version() {
    let setting = Setting::new().await;
    let operator = setting.application().await;
    push_mapping(&operator, BRAND, PRODUCT, &targets(1002)).await.expect("a second version");
    let operators = futures::future::join_all((0..8).map(|_| setting.application())).await;
    let activations = operators
        .iter()
        .zip(1_i32..)
        .map(|(operator, number)| activate_mapping(operator, BRAND, PRODUCT, Some(number % 2 + 1)));
    for activated in futures::future::join_all(activations).await {
        activated.expect("no activation fails");
    }
    let row = setting.ask("select count(*) from hubferry.mappings where product = 'newsletter' and brand = 'acme' and state = 'active'").await;
    assert_eq!(row.get::<_, i64>(0), 1);
}

#[tokio::test]
async fn a_slow_application_does_not_hold_up_the_activation_of_a_mapping() {
    let setting = Setting::new().await;
    let operator = setting.application().await;
    push_mapping(&operator, BRAND, PRODUCT, &targets(1002)).await.expect("a second version");
    let mut application = setting.application().await;
    let transaction = application.transaction().await.expect("a transaction");
    accept(&transaction, "k", &subscribing("ada@example.test")).await.expect("accepted");
    operator.batch_execute("set lock_timeout = '5s'").await.expect("a setting");
    assert_eq!(activate_mapping(&operator, BRAND, PRODUCT, None).await.expect("an activation without a wait"), Some(2));
    transaction.commit().await.expect("a commit");
}
