//! Erasing a contact: asked for by an application or a person, carried out by the worker.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::conflict::Conflicting;
use super::failure::DbFailure;
use super::pool::{column, query};
use crate::model::ids::{ContactKey, EventId, LeaseToken, PortalId, RecordId};

/// SQLSTATE of an erasure of nobody.
const UNKNOWN_CONTACT: &str = "HF014";

/// SQLSTATE of an erasure that other brands have a say in.
const FOREIGN_BRAND: &str = "HF015";

/// A contact that is erased here, and how far its portals are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErasedContact {
    /// When it was erased here.
    pub erased_at: Timestamp,
    /// It was so before, and nothing was written now.
    pub replayed: bool,
    /// The newest erasure of each portal that knows the contact.
    pub events: Vec<ErasureEvent>,
}

/// The event that erases a contact in one portal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureEvent {
    /// The event.
    pub event_id: EventId,
    /// The portal.
    pub portal_id: PortalId,
    /// Its status, as a word of the table.
    pub status: String,
}

/// Why a contact was not erased.
#[derive(Debug, thiserror::Error)]
pub enum EraseFailure {
    /// There is no such contact, or none that the caller may know of.
    #[error("there is no such contact")]
    UnknownContact,
    /// It belongs to brands too that the caller may not act for.
    #[error("the contact belongs to other brands too")]
    ForeignBrand,
    /// The database did not do it.
    #[error(transparent)]
    Db(#[from] DbFailure),
}

impl Conflicting for EraseFailure {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Db(failure) if failure.is_conflict())
    }
}

/// Erases a contact in one statement. `brands`: whom the caller may act for; `None`: for all.
pub async fn erase_contact(
    client: &impl GenericClient,
    key: &ContactKey,
    brands: Option<&[&str]>,
    traceparent: Option<&str>,
) -> Result<ErasedContact, EraseFailure> {
    const STATEMENT: &str = "erase_contact";
    let sql = "select * from hubferry.erase_contact($1, $2, $3)";
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&key.0, Type::TEXT), (&brands, Type::TEXT_ARRAY), (&traceparent, Type::TEXT)];
    let rows = query(client, STATEMENT, sql, &params).await.map_err(|failure| match failure {
        DbFailure::Refused { sqlstate, .. } if sqlstate == UNKNOWN_CONTACT => EraseFailure::UnknownContact,
        DbFailure::Refused { sqlstate, .. } if sqlstate == FOREIGN_BRAND => EraseFailure::ForeignBrand,
        other => EraseFailure::Db(other),
    })?;
    let unreadable = |cause: &str| DbFailure::Unreadable { statement: STATEMENT, cause: cause.into() };
    let row = rows.first().ok_or_else(|| unreadable("no row"))?;
    Ok(ErasedContact {
        erased_at: column(row, STATEMENT, "erased_at")?,
        replayed: column(row, STATEMENT, "replayed")?,
        events: serde_json::from_value(column(row, STATEMENT, "events")?).map_err(|_| unreadable("column events"))?,
    })
}

/// A record that is to be deleted, and what it may be known by here.
#[derive(Clone, PartialEq, Eq)]
pub struct FoundRecord {
    /// Its id.
    pub record_id: RecordId,
    /// The contact key that it holds.
    pub key: Option<ContactKey>,
    /// Its addresses.
    pub addresses: Vec<String>,
}

impl std::fmt::Debug for FoundRecord {
    // Addresses are personal data.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FoundRecord")
            .field("record_id", &self.record_id)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Of these records, those that a contact which is not erased is on.
pub async fn records_in_use(
    client: &impl GenericClient,
    portal: PortalId,
    found: &[&FoundRecord],
) -> Result<Vec<RecordId>, DbFailure> {
    const STATEMENT: &str = "records_in_use";
    let mut columns: (Vec<i64>, Vec<Option<&str>>, Vec<Option<&str>>) = Default::default();
    for record in found {
        let key = record.key.as_ref().map(|key| key.0.as_str());
        for email in record.addresses.iter().map(|email| Some(email.as_str())).chain([None]) {
            columns.0.push(record.record_id.0);
            columns.1.push(key);
            columns.2.push(email);
        }
    }
    let rows = query(
        client,
        STATEMENT,
        include_str!("sql/records_in_use.sql"),
        &[
            (&portal.0, Type::INT8),
            (&columns.0, Type::INT8_ARRAY),
            (&columns.1, Type::TEXT_ARRAY),
            (&columns.2, Type::TEXT_ARRAY),
        ],
    )
    .await?;
    rows.iter().map(|row| column(row, STATEMENT, "record_id").map(RecordId)).collect()
}

/// Wipes what is still stored about the contacts of these erasures, which HubSpot has carried out. Returns those that were
/// still ours.
pub async fn wipe_erased(
    client: &impl GenericClient,
    token: LeaseToken,
    erasures: &[EventId],
) -> Result<Vec<EventId>, DbFailure> {
    const STATEMENT: &str = "wipe_erased";
    let ids: Vec<Uuid> = erasures.iter().map(|event| event.0).collect();
    let sql = include_str!("sql/wipe_erased.sql");
    let rows = query(client, STATEMENT, sql, &[(&token.0, Type::UUID), (&ids, Type::UUID_ARRAY)]).await?;
    rows.iter().map(|row| column(row, STATEMENT, "event_id").map(EventId)).collect()
}

/// Wipes what HubSpot reported about the records of these erasures, which it has deleted for good, and keeps in mind that they
/// are. `gone`: a pair for each record of each erasure, and one without for each erasure.
pub async fn bury_contact_records(
    client: &impl GenericClient,
    portal: PortalId,
    token: LeaseToken,
    gone: &[(EventId, Option<RecordId>)],
) -> Result<(), DbFailure> {
    let (events, records): (Vec<Uuid>, Vec<Option<i64>>) =
        gone.iter().map(|(event, record)| (event.0, record.map(|record| record.0))).unzip();
    let sql = "select hubferry.bury_contact_records($1, $2, $3, $4)";
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] =
        [(&token.0, Type::UUID), (&portal.0, Type::INT8), (&events, Type::UUID_ARRAY), (&records, Type::INT8_ARRAY)];
    query(client, "bury_contact_records", sql, &params).await.map(drop)
}

/// What an erasure would concern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErasurePreview {
    /// When the contact was erased, if it is erased already.
    pub erased_at: Option<Timestamp>,
    /// Brands that have a stream of it.
    pub brands: Vec<String>,
    /// Portals in which it would be deleted.
    pub portals: Vec<PortalId>,
    /// Its events that would be stopped: unfinished or dead.
    pub unfinished_events: i64,
}

/// What an erasure of this contact would concern; `None` when there is no such contact. Changes nothing.
pub async fn preview_erasure(
    client: &impl GenericClient,
    key: &ContactKey,
) -> Result<Option<ErasurePreview>, DbFailure> {
    const STATEMENT: &str = "preview_erasure";
    let sql = include_str!("sql/preview_erasure.sql");
    let rows = query(client, STATEMENT, sql, &[(&key.0, Type::TEXT)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let portals: Vec<i64> = column(row, STATEMENT, "portals")?;
    Ok(Some(ErasurePreview {
        erased_at: column(row, STATEMENT, "erased_at")?,
        brands: column(row, STATEMENT, "brands")?,
        portals: portals.into_iter().map(PortalId).collect(),
        unfinished_events: column(row, STATEMENT, "unfinished")?,
    }))
}
