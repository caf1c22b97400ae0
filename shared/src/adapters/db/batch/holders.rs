//! Finds out who the keys belong to that are found on records.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::super::failure::DbFailure;
use super::super::pool::{column, query};
use super::{FoundKey, Holder};
use crate::model::ids::{ContactKey, PortalId, RecordId};

/// Of the keys that were found on records, those of contacts that still belong there, and links these to them unless
/// somebody works on them. In the order of who owns a record that several share.
pub async fn meet_holders(
    client: &impl GenericClient,
    portal: PortalId,
    found: &[FoundKey],
) -> Result<Vec<Holder>, DbFailure> {
    const STATEMENT: &str = "meet_holders";
    let keys: Vec<&str> = found.iter().map(|found| found.key.0.as_str()).collect();
    let records: Vec<Option<i64>> = found.iter().map(|found| found.record.as_ref().map(|(id, _)| id.0)).collect();
    let emails: Vec<Option<&str>> =
        found.iter().map(|found| found.record.as_ref().map(|(_, email)| email.as_str())).collect();
    let rows = query(
        client,
        STATEMENT,
        include_str!("../sql/meet_holders.sql"),
        &[
            (&portal.0, Type::INT8),
            (&keys, Type::TEXT_ARRAY),
            (&records, Type::INT8_ARRAY),
            (&emails, Type::TEXT_ARRAY),
        ],
    )
    .await?;
    rows.iter()
        .map(|row| {
            Ok(Holder {
                key: ContactKey(column(row, STATEMENT, "contact_key")?),
                record_id: column::<Option<i64>>(row, STATEMENT, "record_id")?.map(RecordId),
            })
        })
        .collect()
}
