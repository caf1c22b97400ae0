//! The one door, as a client of it.

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::failure::DbFailure;
use super::pool::{column, query};

/// Answer to one request of a call.
pub type AcceptAnswer = Result<Accepted, AcceptFault>;

/// A request that is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The receipt's id.
    pub request_id: Uuid,
    /// The outbox event's id.
    pub event_id: Uuid,
    /// Place in the stream.
    pub sequence: i64,
    /// The key was used before for the same request: this is the first receipt.
    pub replayed: bool,
}

/// A request that was not accepted, and wrote nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptFault {
    /// Stable word, such as `invalid_email`.
    pub code: String,
    /// The field, as a path.
    pub field: String,
    /// What is wrong and what to do. Names no values.
    pub detail: String,
}

/// How a request is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestStatus {
    /// Brand it belongs to.
    pub brand: String,
    /// Status of the event that carries its decision now: its own, or the newest replay.
    pub status: String,
    /// That event's place in the stream.
    pub sequence: i64,
    /// That event.
    pub event_id: Uuid,
    /// Why it waits or ended, as a stable word.
    pub reason: Option<String>,
    /// When it was accepted and when it ended, RFC 3339.
    pub accepted_at: jiff::Timestamp,
    /// When it ended.
    pub finished_at: Option<jiff::Timestamp>,
    /// HubSpot has taken the decision. A dead event may be applied: then only a property was left out.
    pub applied: bool,
}

/// Accepts up to 500 requests, each for itself, in one statement. One answer a request, in their order.
pub async fn accept_subscriptions(
    client: &impl GenericClient,
    requests: &Value,
    traceparent: Option<&str>,
) -> Result<Vec<AcceptAnswer>, DbFailure> {
    const STATEMENT: &str = "accept_subscriptions";
    let sql = "select * from hubferry.accept_subscriptions($1, $2)";
    let rows = query(client, STATEMENT, sql, &[(requests, Type::JSONB), (&traceparent, Type::TEXT)]).await?;
    rows.iter()
        .map(|row| match column::<Option<String>>(row, STATEMENT, "error_code")? {
            Some(code) => Ok(Err(AcceptFault {
                code,
                field: column(row, STATEMENT, "error_field")?,
                detail: column(row, STATEMENT, "error_detail")?,
            })),
            None => Ok(Ok(Accepted {
                request_id: column(row, STATEMENT, "request_id")?,
                event_id: column(row, STATEMENT, "event_id")?,
                sequence: column(row, STATEMENT, "sequence")?,
                replayed: column(row, STATEMENT, "replayed")?,
            })),
        })
        .collect()
}

/// How a request is doing; `None` when there is no such request.
pub async fn request_status(client: &impl GenericClient, request_id: Uuid) -> Result<Option<RequestStatus>, DbFailure> {
    const STATEMENT: &str = "request_status";
    let sql = include_str!("sql/request_status.sql");
    let rows = query(client, STATEMENT, sql, &[(&request_id, Type::UUID)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(RequestStatus {
        brand: column(row, STATEMENT, "brand")?,
        status: column(row, STATEMENT, "status")?,
        sequence: column(row, STATEMENT, "sequence")?,
        event_id: column(row, STATEMENT, "event_id")?,
        reason: column(row, STATEMENT, "last_error_code")?,
        accepted_at: column(row, STATEMENT, "accepted_at")?,
        finished_at: column(row, STATEMENT, "finished_at")?,
        applied: column(row, STATEMENT, "applied")?,
    }))
}

/// The brands that a bearer token may act for; `None` when the token is not known or revoked.
///
/// Looked up by the token's hash: how long the look-up takes says nothing about the token.
pub async fn token_brands(client: &impl GenericClient, token: &SecretString) -> Result<Option<Vec<String>>, DbFailure> {
    const STATEMENT: &str = "token_brands";
    let sql = "select brands from hubferry.api_tokens where token_hash = $1 and revoked_at is null";
    let rows = query(client, STATEMENT, sql, &[(&token_hash(token).as_slice(), Type::BYTEA)]).await?;
    rows.first().map(|row| column(row, STATEMENT, "brands")).transpose()
}

/// What is stored of a token.
pub(super) fn token_hash(token: &SecretString) -> [u8; 32] {
    Sha256::digest(token.expose_secret()).into()
}
