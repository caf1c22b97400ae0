//! Notes operations before their calls, and finds our own opt-outs again.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::super::failure::DbFailure;
use super::super::pool::{column, execute, query};
use super::{OptOut, OptOutQuery, StartedReceipt};
use crate::model::ids::{ContactKey, LeaseToken, PortalId};

/// Notes what is about to be written, as far as the events are still ours.
pub async fn start_receipts(
    client: &impl GenericClient,
    token: LeaseToken,
    receipts: &[StartedReceipt],
) -> Result<u64, DbFailure> {
    let columns = ReceiptColumns::of(receipts.iter());
    execute(
        client,
        "start_receipts",
        include_str!("../sql/start_receipts.sql"),
        &[
            (&columns.events, Type::UUID_ARRAY),
            (&columns.keys, Type::TEXT_ARRAY),
            (&columns.portals, Type::INT8_ARRAY),
            (&columns.contacts, Type::TEXT_ARRAY),
            (&columns.hashes, Type::BYTEA_ARRAY),
            (&token.0, Type::UUID),
        ],
    )
    .await
}

/// Our own opt-outs of these contacts and subscription types.
pub async fn own_opt_outs(client: &impl GenericClient, queries: &[OptOutQuery]) -> Result<Vec<OptOut>, DbFailure> {
    const STATEMENT: &str = "own_opt_outs";
    let portals: Vec<i64> = queries.iter().map(|query| query.portal_id.0).collect();
    let contacts: Vec<&str> = queries.iter().map(|query| query.contact_key.0.as_str()).collect();
    let keys: Vec<&str> = queries.iter().map(|query| query.operation_key.as_str()).collect();
    let rows = query(
        client,
        STATEMENT,
        include_str!("../sql/own_opt_outs.sql"),
        &[(&portals, Type::INT8_ARRAY), (&contacts, Type::TEXT_ARRAY), (&keys, Type::TEXT_ARRAY)],
    )
    .await?;
    rows.iter()
        .map(|row| {
            Ok(OptOut {
                query: OptOutQuery {
                    portal_id: PortalId(column(row, STATEMENT, "portal_id")?),
                    contact_key: ContactKey(column(row, STATEMENT, "contact_key")?),
                    operation_key: column(row, STATEMENT, "operation_key")?,
                },
                accepted_at: column(row, STATEMENT, "accepted_at")?,
                started_at: column(row, STATEMENT, "started_at")?,
                earlier_starts: column(row, STATEMENT, "earlier_starts")?,
                remote_at: column(row, STATEMENT, "remote_at")?,
            })
        })
        .collect()
}

/// Receipts, a vector a column.
pub(super) struct ReceiptColumns<'a> {
    pub(super) events: Vec<Uuid>,
    pub(super) keys: Vec<&'a str>,
    pub(super) portals: Vec<i64>,
    pub(super) contacts: Vec<&'a str>,
    pub(super) hashes: Vec<&'a [u8]>,
}

impl<'a> ReceiptColumns<'a> {
    pub(super) fn of(receipts: impl Iterator<Item = &'a StartedReceipt> + Clone) -> Self {
        Self {
            events: receipts.clone().map(|receipt| receipt.event_id.0).collect(),
            keys: receipts.clone().map(|receipt| receipt.operation_key.as_str()).collect(),
            portals: receipts.clone().map(|receipt| receipt.portal_id.0).collect(),
            contacts: receipts.clone().map(|receipt| receipt.contact_key.0.as_str()).collect(),
            hashes: receipts.map(|receipt| receipt.desired_hash.as_slice()).collect(),
        }
    }
}
