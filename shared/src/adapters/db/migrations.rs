//! Schema changes: forward only, each in a transaction with its line of history, all under one lock.

use std::time::Duration;

use anyhow::Context as _;
use refinery::{Runner, embed_migrations};
use secrecy::SecretString;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, NoTls};

use super::pool;

mod embedded {
    super::embed_migrations!("../migrations");
}

/// Where refinery keeps what has been applied.
const HISTORY_TABLE: &str = "hubferry.schema_history";

/// Key of the advisory lock under which one process at a time migrates: the bytes of "hubferry".
const LOCK_KEY: i64 = 0x6875_6266_6572_7279;

/// Longest wait for a connection, and then for the lock and all migrations.
const CONNECT_TIME_LIMIT: Duration = Duration::from_secs(5);
const MIGRATION_TIME_LIMIT: Duration = Duration::from_mins(10);

/// What a migration run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationSummary {
    /// Names of the migrations that were applied now, in order.
    pub applied: Vec<String>,
    /// Version of the schema afterwards.
    pub version: Option<i32>,
}

/// Brings the schema up to date. Safe to call from several processes at once: they wait for each other.
///
/// Uses a connection of its own, since the lock belongs to the session: a lock taken through a pool could be released on
/// another connection, or never.
pub async fn migrate(url: &SecretString) -> anyhow::Result<MigrationSummary> {
    let mut client = connect(url).await?;
    tokio::time::timeout(MIGRATION_TIME_LIMIT, migrate_under_lock(&mut client))
        .await
        .with_context(|| format!("the migrations did not end within {MIGRATION_TIME_LIMIT:?}"))?
}

async fn connect(url: &SecretString) -> anyhow::Result<Client> {
    let config = pool::config(url)?;
    let place = format!("{:?} port {:?}", config.get_hosts(), config.get_ports());
    let connecting = async {
        if config.get_ssl_mode() == SslMode::Require {
            let (client, connection) = config.connect(pool::tls()?).await?;
            tokio::spawn(connection);
            anyhow::Ok(client)
        } else {
            let (client, connection) = config.connect(NoTls).await?;
            tokio::spawn(connection);
            Ok(client)
        }
    };
    tokio::time::timeout(CONNECT_TIME_LIMIT, connecting)
        .await
        .with_context(|| format!("PostgreSQL at {place} did not answer within {CONNECT_TIME_LIMIT:?}"))?
        .with_context(|| format!("PostgreSQL at {place} (HUBFERRY_DATABASE_URL) can't be reached"))
}

async fn migrate_under_lock(client: &mut Client) -> anyhow::Result<MigrationSummary> {
    client.execute("select pg_advisory_lock($1)", &[&LOCK_KEY]).await.context("the migration lock can't be taken")?;
    let encoding: String =
        client.query_one("show server_encoding", &[]).await.context("the encoding can't be asked for")?.get(0);
    anyhow::ensure!(
        encoding == "UTF8",
        "the database has the encoding {encoding}; hubferry needs UTF8: create it anew"
    );
    client.batch_execute("create schema if not exists hubferry").await.context("the schema can't be created")?;
    let mut runner: Runner = embedded::migrations::runner();
    runner.set_migration_table_name(HISTORY_TABLE);
    let report = runner.run_async(client).await.context("a migration failed; it was rolled back")?;
    let last = runner.get_last_applied_migration_async(client).await.context("the history can't be read")?;
    // Dropping the session would release it too; this makes the next process's wait short.
    client
        .execute("select pg_advisory_unlock($1)", &[&LOCK_KEY])
        .await
        .context("the migration lock can't be released")?;
    Ok(MigrationSummary {
        applied: report.applied_migrations().iter().map(ToString::to_string).collect(),
        version: last.map(|migration| migration.version()),
    })
}
