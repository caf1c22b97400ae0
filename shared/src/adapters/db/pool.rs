//! Connections: few, tested before use, every wait bounded.

use std::net::IpAddr;
use std::ops::Deref;
use std::time::Duration;

use anyhow::Context as _;
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime};
use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::{DbFailure, chain};

/// What sessions are called in `pg_stat_activity`, unless the URL says otherwise.
const APPLICATION_NAME: &str = "hubferry";

/// Longest wait for a connection: TCP, TLS and log-in together.
const CONNECT_TIME_LIMIT: Duration = Duration::from_secs(3);

/// Longest wait for any statement: the longest of ours finishes a batch of hundreds.
const STATEMENT_TIME_LIMIT: Duration = Duration::from_secs(8);

/// A dead peer is noticed after this, not after the two hours that TCP waits by default.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// Unacknowledged data closes the connection after this.
const UNACKNOWLEDGED_LIMIT: Duration = Duration::from_secs(8);

/// Asked of a connection before it is used again; an error discards it. After a failover a connection may lead to a server
/// that answers everything and takes no writes, so it is asked for exactly that: such a server divides by zero.
const STILL_WRITES: &str = "select 1 / (current_setting('transaction_read_only') = 'off')::integer";

/// A pool of connections to one database.
#[derive(Clone)]
pub struct Db {
    pool: Pool,
}

/// A connection on loan.
pub struct Connection(Object);

impl std::fmt::Debug for Db {
    // The pool's configuration holds the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").finish_non_exhaustive()
    }
}

impl Db {
    /// Prepares a pool of at most `connections`; connects on first use. Errors: a URL that can't be read.
    pub fn new(url: &SecretString, connections: usize) -> anyhow::Result<Self> {
        let config = config(url)?;
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Custom(STILL_WRITES.to_owned()) };
        let manager = match config.get_ssl_mode() {
            SslMode::Require => Manager::from_config(config, tls()?, recycling),
            _ => Manager::from_config(config, NoTls, recycling),
        };
        let pool = Pool::builder(manager)
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(CONNECT_TIME_LIMIT))
            .create_timeout(Some(CONNECT_TIME_LIMIT))
            .recycle_timeout(Some(CONNECT_TIME_LIMIT))
            .build()
            .context("the connection pool can't be built")?;
        Ok(Self { pool })
    }

    /// A connection, tested. Errors: none to be had in time.
    pub async fn connection(&self) -> Result<Connection, DbFailure> {
        self.pool.get().await.map(Connection).map_err(|error| match error {
            PoolError::Backend(error) => DbFailure::of("connecting", &error),
            PoolError::Timeout(_) => DbFailure::TimedOut { statement: "connecting", limit: CONNECT_TIME_LIMIT },
            other => DbFailure::Unreachable { statement: "connecting", cause: chain(&other) },
        })
    }
}

impl Deref for Connection {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

/// Reads the URL. Its text never reaches an error, since it holds the password.
pub(super) fn config(url: &SecretString) -> anyhow::Result<Config> {
    let mut config: Config = url.expose_secret().parse().ok().context(
        "HUBFERRY_DATABASE_URL can't be read: expected postgres://user:password@host:port/database?sslmode=require",
    )?;
    // A name in the URL tells apart who else calls itself hubferry.
    if config.get_application_name().is_none() {
        config.application_name(APPLICATION_NAME);
    }
    config
        .target_session_attrs(TargetSessionAttrs::ReadWrite)
        .connect_timeout(CONNECT_TIME_LIMIT)
        .keepalives_idle(KEEPALIVE_IDLE)
        .tcp_user_timeout(UNACKNOWLEDGED_LIMIT);
    // The driver's own default falls back to plain text when the server refuses TLS. Across a network that is not an
    // option, unless somebody says `sslmode=disable`.
    if config.get_ssl_mode() == SslMode::Prefer && !is_this_machine(&config) {
        config.ssl_mode(SslMode::Require);
    }
    Ok(config)
}

fn is_this_machine(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
        Host::Unix(_) => true,
    })
}

/// Verifies the server against the machine's roots.
pub(super) fn tls() -> anyhow::Result<MakeRustlsConnect> {
    let (tls, unreadable) =
        MakeRustlsConnect::with_native_certs().ok().context("this machine has no readable root certificates")?;
    if !unreadable.is_empty() {
        tracing::warn!(certificates = unreadable.len(), "Some root certificates of this machine can't be read.");
    }
    Ok(tls)
}

/// Runs one statement in one round trip, within the time limit.
pub(super) async fn query(
    client: &impl tokio_postgres::GenericClient,
    statement: &'static str,
    sql: &str,
    params: &[(&(dyn ToSql + Sync), Type)],
) -> Result<Vec<Row>, DbFailure> {
    match tokio::time::timeout(STATEMENT_TIME_LIMIT, client.query_typed(sql, params)).await {
        Ok(Ok(rows)) => Ok(rows),
        Ok(Err(error)) => Err(DbFailure::of(statement, &error)),
        Err(_) => Err(DbFailure::TimedOut { statement, limit: STATEMENT_TIME_LIMIT }),
    }
}

/// Runs one statement that returns no rows, in one round trip, within the time limit; returns how many rows it touched.
pub(super) async fn execute(
    client: &impl tokio_postgres::GenericClient,
    statement: &'static str,
    sql: &str,
    params: &[(&(dyn ToSql + Sync), Type)],
) -> Result<u64, DbFailure> {
    match tokio::time::timeout(STATEMENT_TIME_LIMIT, client.execute_typed(sql, params)).await {
        Ok(Ok(rows)) => Ok(rows),
        Ok(Err(error)) => Err(DbFailure::of(statement, &error)),
        Err(_) => Err(DbFailure::TimedOut { statement, limit: STATEMENT_TIME_LIMIT }),
    }
}

/// Reads a column, or says which one is not what it should be.
pub(super) fn column<'row, T: tokio_postgres::types::FromSql<'row>>(
    row: &'row Row,
    statement: &'static str,
    name: &'static str,
) -> Result<T, DbFailure> {
    row.try_get(name).map_err(|_| DbFailure::Unreadable { statement, cause: format!("column {name}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_required_across_a_network_unless_somebody_says_otherwise() {
        let mode = |url: &str| config(&url.into()).unwrap().get_ssl_mode();
        assert_eq!(mode("postgres://u:p@db.example.test/d"), SslMode::Require);
        assert_eq!(mode("postgres://u:p@db.example.test/d?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("postgres://u:p@127.0.0.1/d"), SslMode::Prefer);
        assert_eq!(mode("postgres://u:p@localhost/d?sslmode=require"), SslMode::Require);
    }

    #[test]
    fn a_url_that_cannot_be_read_is_not_shown() {
        let error = format!("{:#}", config(&"postgres://user:secret@[/".into()).unwrap_err());
        assert!(error.contains("HUBFERRY_DATABASE_URL") && !error.contains("secret"), "{error}");
    }
}
