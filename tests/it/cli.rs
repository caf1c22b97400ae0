//! The program `hubferry` as a person runs it: the real binary against a real database.

mod importing;
mod pausing;
mod setting_up;
mod stopping;

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use hubferry::adapters::db::{self, Db, NewPortal};
use hubferry::model::ids::PortalId;
use hubferry::model::mapping::Targets;
use hubferry::model::plan::WriteMode;
use serde_json::Value;
use tokio::process::Command;
use tokio_postgres::{Client, NoTls};

use crate::program::hubferry;
use crate::servers::{TestDatabase, fresh_database, redis_url};

const PORTAL: PortalId = PortalId(4711);

/// A folder with files, a database, and the program that a test runs in them.
struct Desk {
    folder: tempfile::TempDir,
    database: TestDatabase,
    /// Looks at what the program did.
    sql: Client,
}

/// What a run of the program left.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Desk {
    /// With the portal 4711, the brand `acme`, its product `newsletter` and an active mapping.
    async fn new() -> Self {
        let desk = Self::bare().await;
        let db = Db::new(&desk.database.url.clone().into(), 1).unwrap();
        let connection = db.connection().await.unwrap();
        let portal = NewPortal {
            portal_id: PORTAL,
            name: "test".into(),
            call_limit: 150,
            call_window: Duration::from_secs(10),
            write_mode: WriteMode::Batch,
            unique_property: "hubferry_contact_key".into(),
            api_version: None,
        };
        db::ensure_portal(&*connection, &portal).await.unwrap();
        db::ensure_product(&*connection, PORTAL, "acme", "newsletter").await.unwrap();
        db::push_mapping(&*connection, "acme", "newsletter", &Targets::default()).await.unwrap();
        db::activate_mapping(&*connection, "acme", "newsletter", None).await.unwrap();
        desk
    }

    /// With the schema and nothing in it.
    async fn bare() -> Self {
        let database = fresh_database().await;
        let (sql, connection) = tokio_postgres::connect(&database.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        Self { folder: tempfile::tempdir().unwrap(), database, sql }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(hubferry());
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("HUBFERRY_DATABASE_URL", &self.database.url)
            .env("HUBFERRY_REDIS_URL", redis_url())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, arguments: &[&str]) -> Run {
        Run::of(self.command(arguments).output().await.unwrap())
    }

    /// Imports with what most files of these tests leave out.
    async fn import(&self, file: &str, more: &[&str]) -> Run {
        self.run(&[&import_arguments(file), more].concat()).await
    }

    async fn count(&self, sql: &str) -> i64 {
        self.sql.query_one(sql, &[]).await.unwrap().get(0)
    }

    async fn requests(&self) -> i64 {
        self.count("select count(*) from hubferry.subscription_requests").await
    }

    /// The state that the newest event of an address asks for.
    async fn newest_state(&self, email: &str) -> String {
        let sql = "select payload ->> 'desired_state' from hubferry.outbox_events
                   join hubferry.subscription_streams s using (stream_id) join hubferry.contacts c on c.contact_key = s.contact_key
                   where email = $1 and sequence = last_sequence";
        self.sql.query_one(sql, &[&email]).await.unwrap().get(0)
    }
}

impl Run {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// The JSON on standard output of a run that ended with this code.
    fn json(&self, code: i32) -> Value {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// What a run that ended with this code said on standard error.
    fn failure(&self, code: i32) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{}", self.stderr);
        &self.stderr
    }
}

fn import_arguments(file: &str) -> [&str; 12] {
    [
        "--json",
        "import",
        file,
        "--brand",
        "acme",
        "--product",
        "newsletter",
        "--legal-basis",
        "CONSENT_WITH_NOTICE",
        "--explanation",
        "signed up at the fair",
        "--lane=bulk",
    ]
}

/// Counts of an import's summary: rows, accepted, replayed, rejected.
fn counts(summary: &Value) -> [u64; 4] {
    ["rows", "accepted", "replayed", "rejected"].map(|name| summary[name].as_u64().unwrap())
}
