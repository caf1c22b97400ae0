//! Writes contacts' properties.

use futures::{StreamExt as _, stream};

use crate::adapters::hubspot::ContactUpsert;
use crate::model::ids::RecordId;
use crate::model::plan::{ROWS_PER_CALL, Upsert};

use super::super::calls::Calls;
use super::super::verdict::Done;
use super::isolation::Parts;
use super::{CALLS_AT_ONCE, Results, not_called, rows_of};

/// What a contact is found by: the value of the id property.
type IdOf = fn(&Upsert) -> &str;

pub(super) async fn upsert_all(calls: &Calls<'_>, id_property: &str, upserts: &[Upsert], id: IdOf) -> Results {
    let chunks: Vec<_> =
        upserts.chunks(ROWS_PER_CALL).map(|chunk| upsert_chunk(calls, id_property, chunk, id)).collect();
    stream::iter(chunks).buffer_unordered(CALLS_AT_ONCE).concat().await
}

async fn upsert_chunk(calls: &Calls<'_>, id_property: &str, chunk: &[Upsert], id: IdOf) -> Results {
    let mut results = Results::new();
    let mut parts = Parts::of(calls, chunk, &mut results);
    while let Some(rows) = parts.next(calls, &mut results).await {
        let inputs: Vec<ContactUpsert> = rows.iter().map(|upsert| input(upsert, id)).collect();
        let call = match calls.make(calls.account.upsert_contacts(id_property, &inputs)).await {
            Ok(call) => call,
            Err(reason) => {
                results.extend(rows.iter().map(|upsert| not_called(&upsert.operation, reason.clone())));
                continue;
            }
        };
        if let Err(refusal) = &call.result {
            let is_named = |upsert: &Upsert| {
                refusal.named.ids.contains(&id(upsert).to_lowercase())
                    || refusal.named.trace_ids.contains(&upsert.operation.contact_key.0)
            };
            if parts.split(&rows, refusal, is_named, &mut results) {
                continue;
            }
        }
        results.extend(rows.iter().zip(rows_of(call, rows.len())).map(|(upsert, row)| {
            let done = row.map(|(contact, correlation_id)| Done {
                record_id: contact.record_id.parse().ok().map(RecordId),
                correlation_id,
                remote_at: None,
            });
            (upsert.operation.clone(), done.into())
        }));
    }
    results
}

fn input(upsert: &Upsert, id: IdOf) -> ContactUpsert {
    ContactUpsert {
        trace_id: upsert.operation.contact_key.0.clone(),
        id: id(upsert).to_owned(),
        properties: upsert.properties.clone(),
    }
}
