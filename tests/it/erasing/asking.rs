//! Who may ask for an erasure, and how.

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use hubferry::adapters::db;
use hubferry::flows::intake::Intake;
use secrecy::SecretString;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{erasures, keyed, subscribed, synced};
use crate::world::{World, newsletter_targets, request, with};

/// Answers of the intake are far smaller.
const MOST_BYTES: usize = 1024 * 1024;

/// Asks as the holder of a token for these brands.
async fn delete(world: &World, brands: &[&str], key: &str) -> (StatusCode, Value) {
    let token = uuid::Uuid::new_v4().to_string();
    let brands: Vec<String> = brands.iter().map(|brand| (*brand).to_owned()).collect();
    let connection = world.db.connection().await.unwrap();
    db::create_token(&*connection, "test", &SecretString::from(token.clone()), &brands).await.unwrap();
    drop(connection);
    let call = Request::delete(format!("/v1/contacts/{key}")).header("authorization", format!("Bearer {token}"));
    let response = Intake::new(world.db.clone()).router().oneshot(call.body(Body::empty()).unwrap()).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), MOST_BYTES).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contact_is_erased_over_http_and_the_repeat_says_how_far_it_is() {
    let world = World::new().await;
    subscribed(&world, "crm/user:1", "ada@example.test").await;
    let (status, body) = delete(&world, &["acme"], "crm%2Fuser:1").await;
    assert_eq!(
        (status, &body["replayed"], &body["contact_key"]),
        (StatusCode::ACCEPTED, &json!(false), &json!("crm/user:1"))
    );
    assert_eq!(body["events"][0]["status"], "pending");
    world.drain().await;
    assert_eq!(erasures(&world, "crm/user:1").await, synced());
    let (status, again) = delete(&world, &["acme"], "crm%2Fuser:1").await;
    assert_eq!((status, &again["replayed"], &again["erased_at"]), (StatusCode::OK, &json!(true), &body["erased_at"]));
    assert_eq!(again["events"][0]["status"], "synced");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_erases_contacts_of_its_own_brands_only() {
    let world = World::new().await;
    let connection = world.db.connection().await.unwrap();
    db::ensure_product(&*connection, world.portal, "other", "newsletter").await.unwrap();
    let targets = serde_json::from_value(newsletter_targets()).unwrap();
    db::push_mapping(&*connection, "other", "newsletter", &targets).await.unwrap();
    db::activate_mapping(&*connection, "other", "newsletter", None).await.unwrap();
    drop(connection);
    world.accept(vec![keyed("user-1", "ada@example.test", "subscribed")]).await;
    let both = keyed("user-2", "bob@example.test", "subscribed");
    world.accept(vec![both.clone(), with(both, json!({"brand": "other"}))]).await;

    let code =
        |(status, body): (StatusCode, Value)| (status.as_u16(), body["code"].as_str().unwrap_or_default().to_owned());
    for nobody in ["user-3", "", "%00", "%ff", "a%20b"] {
        assert_eq!(code(delete(&world, &["acme", "other"], nobody).await).0, 404, "{nobody}");
    }
    assert_eq!(code(delete(&world, &["other"], "user-1").await), (404, "not_found".into()));
    assert_eq!(code(delete(&world, &["acme"], "user-2").await), (403, "foreign_brand".into()));
    assert!(erasures(&world, "user-1").await.is_empty() && erasures(&world, "user-2").await.is_empty());
    assert_eq!(code(delete(&world, &["acme", "other"], "user-2").await).0, 202);
    // Who may not know of it is not told after the erasure either.
    assert_eq!(code(delete(&world, &["acme"], "user-2").await), (403, "foreign_brand".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_contact_has_a_sqlstate_of_its_own() {
    let world = World::new().await;
    let connection = world.db.connection().await.unwrap();
    let state = |error: tokio_postgres::Error| error.code().unwrap().code().to_owned();
    let unknown = connection.execute("select hubferry.erase_contact('user-1')", &[]).await.unwrap_err();
    assert_eq!(state(unknown), "HF014");
    world.accept(vec![keyed("user-1", "ada@example.test", "subscribed")]).await;
    let foreign = "select hubferry.erase_contact('user-1', brands => array['other'])";
    assert_eq!(state(connection.execute(foreign, &[]).await.unwrap_err()), "HF014");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_says_what_became_of_its_decision_and_not_of_its_first_event() {
    let world = World::new().await;
    let accepted = world.accept(vec![request("ada@example.test", "subscribed")]).await;
    let died = "status = 'dead', last_error_code = 'missing_scopes', finished_at = clock_timestamp()";
    let status = async || {
        let connection = world.db.connection().await.unwrap();
        db::request_status(&*connection, accepted[0].request_id).await.unwrap().unwrap()
    };
    for replays in 1..=2 {
        world.sql(&format!("update hubferry.outbox_events set {died} where finished_at is null")).await;
        assert_eq!(
            (status().await.status.as_str(), status().await.reason.as_deref()),
            ("dead", Some("missing_scopes"))
        );
        world.sql("select hubferry.replay_events(array(select event_id from hubferry.outbox_events))").await;
        assert_eq!((status().await.status.as_str(), status().await.sequence), ("pending", 1 + replays));
    }
    world.drain().await;
    let status = status().await;
    assert_eq!((status.status.as_str(), status.reason), ("synced", None));
    assert_ne!(status.event_id, accepted[0].event_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_says_what_it_would_erase_and_erases_only_when_it_is_told_to() {
    let world = World::new().await;
    world.accept(vec![keyed("user-1", "ada@example.test", "subscribed")]).await;
    let unknown = hubferry(&world, &["contacts", "erase", "user-9", "--yes"]).await;
    assert_eq!(unknown.status.code(), Some(2));

    let looked = document(&hubferry(&world, &["--json", "contacts", "erase", "user-1"]).await);
    assert_eq!(looked["contact"]["portals"], json!([world.portal.0]));
    assert_eq!((&looked["preview"], &looked["contact"]["unfinished_events"]), (&json!(true), &json!(1)));
    assert!(erasures(&world, "user-1").await.is_empty());

    let erased = document(&hubferry(&world, &["--json", "contacts", "erase", "user-1", "--yes"]).await);
    assert_eq!((&erased["replayed"], &erased["events"][0]["status"]), (&json!(false), &json!("pending")));
    world.drain().await;
    let again = hubferry(&world, &["contacts", "erase", "user-1", "--yes"]).await;
    let said = String::from_utf8(again.stdout).unwrap();
    assert!(said.contains("was erased before") && said.contains(": synced"), "{said}");
    let listed = hubferry(&world, &["events", "list", "--status", "synced"]).await;
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("synced") && !listed.contains("example.test"), "{listed}");
}

async fn hubferry(world: &World, arguments: &[&str]) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = tokio::process::Command::new(crate::program::hubferry());
    command.args(arguments).current_dir(folder.path()).env_clear().env("HUBFERRY_DATABASE_URL", &world.database.url);
    command.stdin(std::process::Stdio::null()).kill_on_drop(true).output().await.unwrap()
}

fn document(output: &std::process::Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
