//! What we wrote into records, for as long as its echo may come.

use std::time::Duration;

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::failure::DbFailure;
use super::outbox::millis;
use super::pool::execute;
use crate::model::crm_change::CONTACT;
use crate::model::echo::ValueHash;
use crate::model::ids::{PortalId, RecordId};

/// HubSpot sends a notification again for up to a day, and after an outage of ours it may wait here for another.
const WRITTEN_KEPT: Duration = Duration::from_hours(72);

/// A property of a contact that HubSpot accepted from us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenValue {
    /// The contact's record.
    pub record_id: RecordId,
    /// Property.
    pub property: String,
    /// Its value, as HubSpot repeats it where it does.
    pub hash: ValueHash,
}

/// Remembers what was written to contacts, in one statement. Returns how many values.
pub async fn note_written(
    client: &impl GenericClient,
    portal: PortalId,
    written: &[WrittenValue],
) -> Result<u64, DbFailure> {
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 5] = [
        (&portal.0, Type::INT8),
        (&CONTACT, Type::TEXT),
        (&written.iter().map(|value| value.record_id.0).collect::<Vec<_>>(), Type::INT8_ARRAY),
        (&written.iter().map(|value| &*value.property).collect::<Vec<_>>(), Type::TEXT_ARRAY),
        (&written.iter().map(|value| &value.hash.0[..]).collect::<Vec<_>>(), Type::BYTEA_ARRAY),
    ];
    execute(client, "note_written", include_str!("sql/note_written.sql"), &params).await
}

/// Deletes what was written so long ago that its echo does not come any more, at most `most` rows. Returns how many.
pub async fn forget_written_values(client: &impl GenericClient, most: i64) -> Result<u64, DbFailure> {
    let sql = include_str!("sql/forget_written_values.sql");
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&millis(WRITTEN_KEPT), Type::INT8), (&most, Type::INT8)];
    execute(client, "forget_written_values", sql, &params).await
}
