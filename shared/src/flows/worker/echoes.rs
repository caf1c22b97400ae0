//! Notes what HubSpot accepted from us, so that it is not taken for somebody's change when it comes back as one.
//!
//! Noted right after HubSpot's answer, long before its notification has come through queue and worker. If the worker dies in
//! between, or the note can't be made, then our write counts as somebody's change: its rules' effects happen, once.

use std::collections::HashSet;

use crate::adapters::db::{self, DbFailure, PortalSettings, WrittenValue};

use super::Worker;
use super::apply::Results;
use super::verdict::OperationResult;

impl Worker {
    /// One statement, whatever was written, and none where no rule waits for it: then its echo is of no consequence.
    pub(super) async fn note_written(&self, portal: &PortalSettings, results: &Results) {
        let written = written(results, &portal.watched);
        if written.is_empty() {
            return;
        }
        if let Err(error) = self.note(portal, &written).await {
            tracing::warn!(portal.id = portal.portal_id.0, error = %error, "What was written could not be noted; its echo will count as a change.");
        }
    }

    async fn note(&self, portal: &PortalSettings, written: &[WrittenValue]) -> Result<(), DbFailure> {
        let connection = self.db.connection().await?;
        db::note_written(&*connection, portal.portal_id, written).await.map(drop)
    }
}

fn written(results: &Results, watched: &HashSet<String>) -> Vec<WrittenValue> {
    let done = results.iter().filter_map(|(_, result)| match result {
        OperationResult::Done(done) => Some((done.record_id?, &done.written.as_ref()?.0)),
        _ => None,
    });
    done.flat_map(|(record_id, values)| {
        let of_note = values.iter().filter(|(property, _)| watched.contains(property));
        of_note.map(move |(property, hash)| WrittenValue { record_id, property: property.clone(), hash: *hash })
    })
    .collect()
}
