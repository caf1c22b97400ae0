//! What operators decide: portals, brands, products, mappings and tokens.

use std::time::Duration;

use anyhow::Context as _;
use secrecy::SecretString;
use serde_json::Value;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::accepting::token_hash;
use super::failure::DbFailure;
use super::outbox::millis;
use super::pool::{column, execute, query};
use crate::model::ids::PortalId;
use crate::model::mapping::Targets;
use crate::model::plan::WriteMode;

/// A portal as an operator describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPortal {
    /// HubSpot's portal id.
    pub portal_id: PortalId,
    /// For people.
    pub name: String,
    /// Calls in any rolling window.
    pub call_limit: u32,
    /// Length of that window.
    pub call_window: Duration,
    /// How consent is read and written.
    pub write_mode: WriteMode,
    /// The contact property with unique values that holds our key.
    pub unique_property: String,
    /// The dated version of HubSpot's API to call it in, if not the deployment's.
    pub api_version: Option<String>,
}

/// A version of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappingVersion {
    /// Its number.
    pub version: i32,
    /// It was there before, with the same targets.
    pub existed: bool,
}

/// Creates a portal, or brings it up to date. Its pause and mode stay as they are.
pub async fn ensure_portal(client: &impl GenericClient, portal: &NewPortal) -> Result<(), DbFailure> {
    let sql = "insert into hubferry.portals as p (portal_id, name, call_limit, call_window_ms, subscription_write_mode, unique_property, api_version)
               values ($1, $2, $3, $4, $5, $6, $7)
               on conflict (portal_id) do update
               set name = excluded.name, call_limit = excluded.call_limit, call_window_ms = excluded.call_window_ms,
                   subscription_write_mode = excluded.subscription_write_mode, unique_property = excluded.unique_property,
                   api_version = excluded.api_version,
                   updated_at = clock_timestamp()";
    let mode = match portal.write_mode {
        WriteMode::Batch => "batch",
        WriteMode::Single => "single",
    };
    execute(
        client,
        "ensure_portal",
        sql,
        &[
            (&portal.portal_id.0, Type::INT8),
            (&portal.name, Type::TEXT),
            (&i32::try_from(portal.call_limit).unwrap_or(i32::MAX), Type::INT4),
            (&i32::try_from(millis(portal.call_window)).unwrap_or(i32::MAX), Type::INT4),
            (&mode, Type::TEXT),
            (&portal.unique_property, Type::TEXT),
            (&portal.api_version, Type::TEXT),
        ],
    )
    .await
    .map(drop)
}

/// The unique property of a portal; `None` when the portal is not known.
pub async fn portal_settings(client: &impl GenericClient, portal: PortalId) -> Result<Option<String>, DbFailure> {
    const STATEMENT: &str = "portal_settings";
    let sql = "select unique_property from hubferry.portals where portal_id = $1";
    let rows = query(client, STATEMENT, sql, &[(&portal.0, Type::INT8)]).await?;
    rows.first().map(|row| column(row, STATEMENT, "unique_property")).transpose()
}

/// The calls that a portal may be called in a window, and the window; `None` when the portal is not known.
pub async fn portal_call_limit(
    client: &impl GenericClient,
    portal: PortalId,
) -> Result<Option<(u32, Duration)>, DbFailure> {
    const STATEMENT: &str = "portal_call_limit";
    let sql = "select call_limit, call_window_ms from hubferry.portals where portal_id = $1";
    let rows = query(client, STATEMENT, sql, &[(&portal.0, Type::INT8)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let number = |name| column::<i32>(row, STATEMENT, name).map(i32::unsigned_abs);
    Ok(Some((number("call_limit")?, Duration::from_millis(number("call_window_ms")?.into()))))
}

/// The portal that a brand belongs to; `None` when the brand is not known.
pub async fn brand_portal(client: &impl GenericClient, brand: &str) -> Result<Option<PortalId>, DbFailure> {
    const STATEMENT: &str = "brand_portal";
    let sql = "select portal_id from hubferry.brands where brand = $1";
    let rows = query(client, STATEMENT, sql, &[(&brand, Type::TEXT)]).await?;
    rows.first().map(|row| column(row, STATEMENT, "portal_id").map(PortalId)).transpose()
}

/// Creates a brand of a portal and a product of that brand, where they are missing. A brand stays with its portal.
pub async fn ensure_product(
    client: &impl GenericClient,
    portal: PortalId,
    brand: &str,
    product: &str,
) -> Result<(), DbFailure> {
    let sql = "with new_brand as (
                   insert into hubferry.brands (brand, portal_id) values ($1, $3) on conflict (brand) do nothing)
               insert into hubferry.products (brand, product) values ($1, $2) on conflict (brand, product) do nothing";
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&brand, Type::TEXT), (&product, Type::TEXT), (&portal.0, Type::INT8)];
    execute(client, "ensure_product", sql, &params).await.map(drop)
}

/// Stores targets as a new draft version, unless the newest version says the same already.
pub async fn push_mapping(
    client: &impl GenericClient,
    brand: &str,
    product: &str,
    targets: &Targets,
) -> anyhow::Result<MappingVersion> {
    const STATEMENT: &str = "push_mapping";
    let sql = "with newest as (
                   select version, targets from hubferry.mappings where brand = $1 and product = $2 order by version desc limit 1),
               pushed as (
                   insert into hubferry.mappings (brand, product, version, targets)
                   select $1, $2, coalesce((select version from newest), 0) + 1, $3
                   where not exists (select from newest where targets = $3)
                   returning version)
               select version, false as existed from pushed union all
               select version, true from newest where not exists (select from pushed)";
    let targets: Value = serde_json::to_value(targets).context("the targets can't be written as JSON")?;
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&brand, Type::TEXT), (&product, Type::TEXT), (&targets, Type::JSONB)];
    let rows = query(client, STATEMENT, sql, &params).await?;
    let row = rows.first().context("the database returned no version")?;
    Ok(MappingVersion { version: column(row, STATEMENT, "version")?, existed: column(row, STATEMENT, "existed")? })
}

/// Stores targets as the first version of a product that has none. Returns whether it did.
pub async fn push_first_mapping(
    client: &impl GenericClient,
    brand: &str,
    product: &str,
    targets: &Targets,
) -> anyhow::Result<bool> {
    let sql = "insert into hubferry.mappings (brand, product, version, targets)
               select $1, $2, 1, $3
               where not exists (select from hubferry.mappings where brand = $1 and product = $2)
               on conflict (brand, product, version) do nothing";
    let targets: Value = serde_json::to_value(targets).context("the targets can't be written as JSON")?;
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&brand, Type::TEXT), (&product, Type::TEXT), (&targets, Type::JSONB)];
    Ok(execute(client, "push_first_mapping", sql, &params).await? == 1)
}

/// Makes a version the active one and retires the one before; the newest when none is named. Returns the version, or
/// `None` when there is no such version.
pub async fn activate_mapping(
    client: &impl GenericClient,
    brand: &str,
    product: &str,
    version: Option<i32>,
) -> Result<Option<i32>, DbFailure> {
    const STATEMENT: &str = "activate_mapping";
    // Two statements in one round trip would need a transaction; one statement can't, since the unique index on the active
    // version is checked row by row: so the old one is retired by a function of the schema first.
    let sql = "select hubferry.activate_mapping($1, $2, $3) as version";
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&brand, Type::TEXT), (&product, Type::TEXT), (&version, Type::INT4)];
    let rows = query(client, STATEMENT, sql, &params).await?;
    rows.first().map_or(Ok(None), |row| column(row, STATEMENT, "version"))
}

/// Stores a bearer token's hash, and the brands it may act for. A token that is there already keeps its brands.
pub async fn create_token(
    client: &impl GenericClient,
    name: &str,
    token: &SecretString,
    brands: &[String],
) -> Result<Option<Uuid>, DbFailure> {
    const STATEMENT: &str = "create_token";
    let sql = "insert into hubferry.api_tokens (name, token_hash, brands) values ($1, $2, $3)
               on conflict (token_hash) do nothing returning token_id";
    let hash = token_hash(token);
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&name, Type::TEXT), (&hash.as_slice(), Type::BYTEA), (&brands, Type::TEXT_ARRAY)];
    let rows = query(client, STATEMENT, sql, &params).await?;
    rows.first().map(|row| column(row, STATEMENT, "token_id")).transpose()
}
