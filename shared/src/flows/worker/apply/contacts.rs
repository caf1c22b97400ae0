//! Writes contacts' properties.

use futures::{StreamExt as _, stream};

use crate::adapters::hubspot::{Call, ContactUpdate, ContactUpsert, Row};
use crate::model::ids::RecordId;
use crate::model::plan::{ROWS_PER_CALL, Upsert};

use super::super::calls::{Calls, NotCalled};
use super::super::verdict::{Done, OperationResult};
use super::isolation::Parts;
use super::{CALLS_AT_ONCE, Results, not_called, rows_of};

/// The property that every contact is found by.
pub(super) const EMAIL: &str = "email";

/// What a contact is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// Its address; made if nobody has it.
    Email,
    /// Its key in the unique property; made if nobody has it.
    Key,
    /// Its record id.
    Record,
}

/// Writes the contacts of one portal.
#[derive(Clone, Copy)]
pub(super) struct Contacts<'a> {
    pub(super) calls: &'a Calls<'a>,
    pub(super) unique_property: &'a str,
}

impl Contacts<'_> {
    pub(super) async fn write_all(&self, by: By, upserts: &[Upsert]) -> Results {
        let chunks: Vec<_> = upserts.chunks(ROWS_PER_CALL).map(|chunk| self.write_chunk(by, chunk)).collect();
        stream::iter(chunks).buffer_unordered(CALLS_AT_ONCE).concat().await
    }

    async fn write_chunk(&self, by: By, chunk: &[Upsert]) -> Results {
        let mut results = Results::new();
        let mut parts = Parts::of(self.calls, chunk, &mut results);
        while let Some(rows) = parts.next(self.calls, &mut results).await {
            let call = match self.write(by, &rows).await {
                Ok(call) => call,
                Err(reason) => {
                    results.extend(rows.iter().map(|upsert| not_called(&upsert.operation, reason.clone())));
                    continue;
                }
            };
            if let Err(refusal) = &call.result {
                let is_named = |upsert: &Upsert| {
                    refusal.named.ids.contains(&id(upsert, by).to_lowercase())
                        || refusal.named.trace_ids.contains(&upsert.operation.contact_key.0)
                };
                if parts.split(&rows, refusal, is_named, &mut results) {
                    continue;
                }
            }
            let answers = rows.iter().zip(rows_of(call, rows.len()));
            results.extend(answers.map(|(upsert, row)| (upsert.operation.clone(), self.result(upsert, row))));
        }
        results
    }

    /// One call.
    pub(super) async fn write(&self, by: By, rows: &[&Upsert]) -> Result<Call<Vec<Row<Option<RecordId>>>>, NotCalled> {
        let account = self.calls.account;
        let record = |id: String| id.parse().ok().map(RecordId);
        if by == By::Record {
            let inputs: Vec<ContactUpdate> = rows.iter().map(|upsert| update(upsert)).collect();
            let call = self.calls.make(account.update_contacts(&inputs)).await?;
            return Ok(call.map(|rows| rows.into_iter().map(|row| row.map(|it| record(it.record_id))).collect()));
        }
        let id_property = if by == By::Key { self.unique_property } else { EMAIL };
        let inputs: Vec<ContactUpsert> = rows.iter().map(|upsert| input(upsert, by)).collect();
        let call = self.calls.make(account.upsert_contacts(id_property, &inputs)).await?;
        Ok(call.map(|rows| rows.into_iter().map(|row| row.map(|it| record(it.record_id))).collect()))
    }

    /// What a row's answer says. A guest that is no longer where it was a guest has no record that we know.
    pub(super) fn result(&self, upsert: &Upsert, row: Row<(Option<RecordId>, Option<String>)>) -> OperationResult {
        let sets_key = upsert.properties.contains_key(self.unique_property);
        match row {
            Row::Done((record_id, _)) if !sets_key && record_id != upsert.record_id => OperationResult::RecordMissing,
            row => row
                .map(|(record_id, correlation_id)| Done {
                    record_id,
                    key: sets_key.then(|| upsert.owner.clone()),
                    correlation_id,
                    remote_at: None,
                })
                .into(),
        }
    }
}

/// The text that a contact is found by.
fn id(upsert: &Upsert, by: By) -> String {
    match by {
        By::Email => upsert.email.clone(),
        By::Key => upsert.operation.contact_key.0.clone(),
        By::Record => upsert.record_id.map(|id| id.to_string()).unwrap_or_default(),
    }
}

fn input(upsert: &Upsert, by: By) -> ContactUpsert {
    ContactUpsert {
        trace_id: upsert.operation.contact_key.0.clone(),
        id: id(upsert, by),
        properties: upsert.properties.clone(),
    }
}

fn update(upsert: &Upsert) -> ContactUpdate {
    ContactUpdate {
        trace_id: upsert.operation.contact_key.0.clone(),
        record_id: id(upsert, By::Record),
        properties: upsert.properties.clone(),
    }
}
