//! Dead events: listed, shown, cancelled and replayed by the program, as a person runs it.

mod cancelling;
mod choosing;
mod migrating;
mod refusing;
mod replaying;

use std::process::Stdio;

use hubferry::adapters::db::Accepted;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio_postgres::types::FromSql;

use crate::program::hubferry;
use crate::world::{World, newsletter_targets, request};

/// What a run of the program left.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Run {
    /// The lines on standard output, each a document, of a run that ended with this code.
    fn lines(&self, code: i32) -> Vec<Value> {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The one document on standard output of a run that ended with this code.
    fn document(&self, code: i32) -> Value {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        serde_json::from_str(&self.stdout).unwrap()
    }
}

async fn run(world: &World, arguments: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(hubferry())
        .args(arguments)
        .current_dir(folder.path())
        .env_clear()
        .env("HUBFERRY_DATABASE_URL", &world.database.url)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

async fn run_json(world: &World, arguments: &[&str]) -> Run {
    run(world, &[&["--json"], arguments].concat()).await
}

/// The one answer to a question.
async fn ask<T: for<'a> FromSql<'a>>(world: &World, sql: &str) -> T {
    let connection = world.db.connection().await.unwrap();
    connection.query_one(sql, &[]).await.unwrap().get(0)
}

async fn events(world: &World) -> i64 {
    ask(world, "select count(*) from hubferry.outbox_events").await
}

/// A mapping that names a property which the portal does not have.
fn broken_targets() -> Value {
    json!({"contact_properties": {"no_such_property": "firstname"}, "subscription_type": 1001})
}

/// Requests that died of the mapping they were accepted under.
async fn died_of_their_mapping(world: &World, requests: Vec<Value>) -> Vec<Accepted> {
    world.map("newsletter", broken_targets()).await;
    let accepted = world.accept(requests).await;
    world.drain().await;
    for event in &accepted {
        assert_eq!(world.status_of(event).await, ("dead".into(), Some("property_doesnt_exist".into())));
    }
    accepted
}

/// A subscription that died for a reason which is over now.
async fn dead(world: &World, email: &str) -> Accepted {
    let accepted = world.accept(vec![request(email, "subscribed")]).await.remove(0);
    bury(world, &accepted).await;
    accepted
}

async fn bury(world: &World, accepted: &Accepted) {
    let sql = format!(
        "update hubferry.outbox_events
         set status = 'dead', finished_at = clock_timestamp(), last_error_code = 'missing_scopes',
             last_error_summary = 'configuration: missing_scopes (HTTP 403)', process_attempts = 1
         where event_id = '{}'",
        accepted.event_id
    );
    world.sql(&sql).await;
}

/// The id of the event that replays this one.
async fn replay_of(world: &World, accepted: &Accepted) -> uuid::Uuid {
    ask(world, &format!("select event_id from hubferry.outbox_events where replays = '{}'", accepted.event_id)).await
}

async fn status(world: &World, event: uuid::Uuid) -> String {
    ask(world, &format!("select status from hubferry.outbox_events where event_id = '{event}'")).await
}

/// How many events `hubferry status` says a person has to look at.
async fn needing_attention(world: &World) -> i64 {
    let connection = world.db.connection().await.unwrap();
    hubferry::adapters::db::status_counts(&*connection).await.unwrap()[0].dead
}

/// A mapping that the portal can follow.
async fn repair(world: &World) {
    world.map("newsletter", newsletter_targets()).await;
}
