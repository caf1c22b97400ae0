//! One module a command.

pub(crate) mod contacts;
pub(crate) mod events;
pub(crate) mod import;
pub(crate) mod mapping;
pub(crate) mod migrate;
pub(crate) mod portal;
pub(crate) mod rules;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod webhooks;

use hubferry::adapters::db::{Connection, Db};
use hubferry::config::Environment;

/// Connections of a command: it does one thing after the other.
const CONNECTIONS: usize = 1;

/// The database, when it is all that a command needs.
fn database(mut environment: Environment) -> anyhow::Result<Db> {
    let url = environment.database_url();
    environment.finish()?;
    Db::new(&url, CONNECTIONS)
}

/// A connection to the database, when one is enough.
async fn connection(environment: Environment) -> anyhow::Result<Connection> {
    Ok(database(environment)?.connection().await?)
}
