//! The PostgreSQL and the Redis that integration tests meet, and a database for each test that wants one.
//!
//! The schema is migrated once a process, into a template. A test gets a copy, which takes a fraction of the time.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::sync::OnceCell;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};
use url::Url;

const DATABASE_VARIABLE: &str = "HUBFERRY_TEST_DATABASE_URL";
const REDIS_VARIABLE: &str = "HUBFERRY_TEST_REDIS_URL";
const BOOTSTRAPS_VARIABLE: &str = "HUBFERRY_TEST_BOOTSTRAPS";
const PGBENCH_VARIABLE: &str = "HUBFERRY_TEST_PGBENCH";

/// Every database of ours is named `hubferry_test_<second of its process' start>_<random>_<number>`.
const NAME_PREFIX: &str = "hubferry_test";

/// Age at which another process' databases count as left behind by a kill. No run of the tests takes that long.
const LEFTOVER_SECONDS: i64 = 1800;

/// The session that migrated may take a moment to end, and a template with a session in it cannot be copied.
const COPY_ATTEMPTS: u32 = 100;
const COPY_PAUSE: Duration = Duration::from_millis(20);

static TEMPLATE: OnceCell<String> = OnceCell::const_new();
static COPIES: AtomicU32 = AtomicU32::new(0);

/// URL of the Redis for tests. All tests share its database 0: a test takes a portal id of its own.
pub(crate) fn redis_url() -> String {
    variable(REDIS_VARIABLE)
}

/// URL of the PostgreSQL for tests. The database in it is empty; [`fresh_database`] gives one with the schema.
pub(crate) fn database_url() -> String {
    variable(DATABASE_VARIABLE)
}

/// The program pgbench, which comes with the PostgreSQL for tests.
pub(crate) fn pgbench() -> String {
    variable(PGBENCH_VARIABLE)
}

/// A migrated database that nobody else uses; dropped with the value.
pub(crate) async fn fresh_database() -> TestDatabase {
    match copy_of_template().await {
        Ok(database) => database,
        Err(error) => panic!("no fresh test database: {error:#}"),
    }
}

/// A database of one test.
pub(crate) struct TestDatabase {
    /// Where to connect, password included.
    pub(crate) url: String,
    name: String,
}

impl Drop for TestDatabase {
    /// Best effort. A thread of its own, because a runtime cannot be entered from within another.
    fn drop(&mut self) {
        let name = self.name.clone();
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(drop_database(&name))
        });
        let _ = dropping.join();
    }
}

async fn copy_of_template() -> anyhow::Result<TestDatabase> {
    let template = TEMPLATE.get_or_try_init(make_template).await?;
    let name = format!("{template}_{}", COPIES.fetch_add(1, Ordering::Relaxed));
    let server = connect(&database_url()).await?;
    for _ in 0..COPY_ATTEMPTS {
        match server.batch_execute(&format!("create database {name} template {template}")).await {
            Err(error) if error.code() == Some(&SqlState::OBJECT_IN_USE) => {
                tokio::time::sleep(COPY_PAUSE).await;
            }
            Err(error) => return Err(error).with_context(|| format!("cannot copy {template}")),
            Ok(()) => {
                return Ok(TestDatabase { url: url_of(&name)?, name });
            }
        }
    }
    anyhow::bail!("{template} is in use: is a connection of the migration still open?")
}

async fn make_template() -> anyhow::Result<String> {
    let server = connect(&database_url()).await?;
    drop_leftovers(&server).await?;
    let started: i64 = server.query_one("select extract(epoch from now())::bigint", &[]).await?.get(0);
    let name = format!("{NAME_PREFIX}_{started}_{:08x}", rand::random::<u32>());
    server
        .batch_execute(&format!("create database {name}"))
        .await
        .context("the role of the test database needs createdb")?;
    hubferry::adapters::db::migrate(&url_of(&name)?.into()).await.context("cannot migrate the template database")?;
    Ok(name)
}

/// The template of an ended process, and whatever a killed one left.
async fn drop_leftovers(server: &Client) -> anyhow::Result<()> {
    let rows = server
        .query(
            "select datname::text from pg_database
             where datname ~ ('^' || $1 || '_[0-9]+_')
               and split_part(datname, '_', 3)::bigint < extract(epoch from now())::bigint - $2",
            &[&NAME_PREFIX, &LEFTOVER_SECONDS],
        )
        .await?;
    for row in rows {
        let name: String = row.get(0);
        // Another test process may be dropping the same one.
        let _ = server.batch_execute(&format!("drop database if exists {name} with (force)")).await;
    }
    Ok(())
}

async fn drop_database(name: &str) -> anyhow::Result<()> {
    let server = connect(&database_url()).await?;
    server.batch_execute(&format!("drop database if exists {name} with (force)")).await?;
    Ok(())
}

async fn connect(url: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .with_context(|| format!("cannot connect to the server that {DATABASE_VARIABLE} names"))?;
    tokio::spawn(connection);
    Ok(client)
}

fn url_of(database: &str) -> anyhow::Result<String> {
    let mut url = Url::parse(&database_url()).with_context(|| format!("{DATABASE_VARIABLE} is not a URL"))?;
    url.set_path(database);
    Ok(url.into())
}

/// The folder of the packaged functions; `None`: they are tested as this build made them.
pub(crate) fn bootstraps_folder() -> Option<PathBuf> {
    optional(BOOTSTRAPS_VARIABLE).map(PathBuf::from)
}

fn variable(name: &str) -> String {
    match optional(name) {
        Some(url) => url,
        None => panic!("{name} is not set: run `make test`, or `make test-one NAME=…` for a single test"),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests take nothing but their servers and programs from the environment, and take it here"
)]
fn optional(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[tokio::test]
async fn every_test_gets_a_database_of_its_own() {
    let (first, second) = (fresh_database().await, fresh_database().await);
    assert_ne!(first.url, second.url);

    let name = first.name.clone();
    drop(first);
    let server = connect(&database_url()).await.expect("the server answers");
    let left = server.query("select 1 from pg_database where datname = $1", &[&name]).await.expect("a catalogue query");
    assert!(left.is_empty(), "{name} outlived its test");
}
