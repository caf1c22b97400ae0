//! Contacts: upsert, update and read, up to a hundred in a call.

use reqwest::Method;
use serde_json::{Value, json};

use super::accounting::{Keys, account};
use super::contact::{ADDITIONAL_EMAILS, EMAIL};
use super::decode::{self, Envelope, Object};
use super::request::Request;
use super::transport::Success;
use super::{Account, Call, ContactRecord, ContactUpdate, ContactUpsert, Family, UpsertedContact};
use crate::model::outcome::{Class, Intent, Named, Operation, Refusal, Row};
use crate::model::plan::ROWS_PER_CALL;

/// The ids of records that were merged into this one, joined by `;`.
pub(super) const MERGED_IDS: &str = "hs_merged_object_ids";

/// The object type in paths.
const CONTACTS: &str = "contacts";

impl Account<'_> {
    /// Creates or updates contacts that are found by the unique property `id_property` (one call; at most
    /// [`ROWS_PER_CALL`] rows, none of them twice).
    pub async fn upsert_contacts(&self, id_property: &str, rows: &[ContactUpsert]) -> Call<Vec<Row<UpsertedContact>>> {
        let inputs = rows.iter().map(|row| {
            json!({"id": row.id, "idProperty": id_property, "properties": row.properties,
                   "objectWriteTraceId": row.trace_id})
        });
        let keys = rows.iter().map(|row| keys(Some(&row.trace_id), &row.id)).collect();
        let batch = Batch {
            object: CONTACTS,
            verb: "upsert",
            operation: Operation::UpsertContacts,
            id_property: Some(id_property),
            keys,
        };
        self.object_batch(batch, json!({"inputs": inputs.collect::<Vec<_>>()}), upserted).await
    }

    /// Updates contacts by record id. A record that a complete answer leaves out was merged away or deleted: its row is
    /// refused as gone.
    pub async fn update_contacts(&self, rows: &[ContactUpdate]) -> Call<Vec<Row<ContactRecord>>> {
        let inputs = rows
            .iter()
            .map(|row| json!({"id": row.record_id, "properties": row.properties, "objectWriteTraceId": row.trace_id}));
        let keys = rows.iter().map(|row| keys(Some(&row.trace_id), &row.record_id)).collect();
        let batch =
            Batch { object: CONTACTS, verb: "update", operation: Operation::UpdateContacts, id_property: None, keys };
        self.object_batch(batch, json!({"inputs": inputs.collect::<Vec<_>>()}), record).await
    }

    /// Reads contacts by record id, or by the unique property `id_property`. Unlike search this sees every finished write.
    ///
    /// The names of merged records, and further addresses with an address, are always asked for too, so that a contact is recognised under
    /// each of its identities. An unknown id is refused as gone.
    pub async fn read_contacts(
        &self,
        id_property: Option<&str>,
        ids: &[&str],
        properties: &[&str],
    ) -> Call<Vec<Row<ContactRecord>>> {
        let mut asked: Vec<&str> = properties.to_vec();
        asked.push(id_property.unwrap_or(MERGED_IDS));
        if asked.contains(&EMAIL) {
            asked.push(ADDITIONAL_EMAILS);
        }
        asked.sort_unstable();
        asked.dedup();
        let mut body =
            json!({"inputs": ids.iter().map(|id| json!({"id": id})).collect::<Vec<_>>(), "properties": asked});
        if let Some(id_property) = id_property {
            body["idProperty"] = json!(id_property);
        }
        let keys = ids.iter().map(|id| keys(None, id)).collect();
        let batch = Batch { object: CONTACTS, verb: "read", operation: Operation::ReadContacts, id_property, keys };
        self.object_batch(batch, body, record).await
    }

    pub(super) async fn object_batch<R: Clone>(
        &self,
        batch: Batch<'_>,
        body: Value,
        read_one: fn(&Object) -> Option<R>,
    ) -> Call<Vec<Row<R>>> {
        if let Some(call) = refuse_size(batch.keys.len(), ROWS_PER_CALL) {
            return call;
        }
        let request = Request {
            method: Method::POST,
            path: format!("{}/{}/batch/{}", self.versions.path(Family::Objects), batch.object, batch.verb),
            query: Vec::new(),
            body: Some(body),
            intent: Intent { operation: batch.operation, rows: batch.keys.len() },
        };
        self.call(request, |success| batch.rows(success, read_one)).await
    }
}

/// Where a batch goes, and what it needs to read its answer.
pub(super) struct Batch<'a> {
    /// The object type in the path, encoded.
    pub(super) object: &'a str,
    pub(super) verb: &'static str,
    pub(super) operation: Operation,
    pub(super) id_property: Option<&'a str>,
    pub(super) keys: Vec<Keys>,
}

impl Batch<'_> {
    fn rows<R: Clone>(&self, success: Success, read_one: fn(&Object) -> Option<R>) -> Result<Vec<Row<R>>, Refusal> {
        let envelope = Envelope::read(success)?;
        let results =
            envelope.results.iter().filter_map(|result| Some((self.result_keys(result), read_one(result)?))).collect();
        let ids_of = |named: &Named| named.ids.iter().cloned().collect();
        let rows = account(&self.keys, results, &envelope.errors, self.operation, ids_of);
        // An error that names nobody might be about the row that is missing.
        let all_name_rows = envelope.errors.iter().all(|error| error.named().names_rows());
        let omits_silently = self.operation == Operation::UpdateContacts && envelope.complete && all_name_rows;
        Ok(if omits_silently { rows.into_iter().map(unknown_to_gone).collect() } else { rows })
    }

    /// A record answers to its record id and merged ids, or to its id property and further addresses.
    fn result_keys(&self, result: &Object) -> Keys {
        let properties = decode::properties(result.get("properties"));
        let value = |name: &str| properties.get(name).cloned().flatten();
        let (first, several) = match self.id_property {
            None => (decode::id(result.get("id")), value(MERGED_IDS)),
            Some(EMAIL) => (value(EMAIL), value(ADDITIONAL_EMAILS)),
            Some(id_property) => (value(id_property), None),
        };
        let several = several.iter().flat_map(|joined| joined.split(';')).map(|id| id.trim().to_owned());
        let ids = first.into_iter().chain(several).collect();
        Keys { trace_id: decode::id(result.get("objectWriteTraceId")), ids }
    }
}

/// A size that is answered without a call: no row at all, or too many.
pub(super) fn refuse_size<R>(rows: usize, limit: usize) -> Option<Call<Vec<Row<R>>>> {
    if rows == 0 {
        return Some(Call::unmade(Ok(Vec::new())));
    }
    (rows > limit).then(|| {
        let summary = format!("whole_batch_invalid: batch_too_large ({rows} rows, {limit} allowed; nothing was sent)");
        Call::unmade(Err(Refusal::unmade(Class::WholeBatchInvalid, "batch_too_large", &summary)))
    })
}

fn unknown_to_gone<R>(row: Row<R>) -> Row<R> {
    match row {
        Row::Unknown => Row::Refused(Refusal::silently_omitted()),
        row => row,
    }
}

pub(super) fn keys(trace_id: Option<&str>, id: &str) -> Keys {
    Keys { trace_id: trace_id.map(str::to_owned), ids: vec![id.to_owned()] }
}

fn upserted(result: &Object) -> Option<UpsertedContact> {
    Some(UpsertedContact {
        record_id: decode::id(result.get("id"))?,
        properties: decode::properties(result.get("properties")),
        new: result.get("new").and_then(Value::as_bool),
    })
}

fn record(result: &Object) -> Option<ContactRecord> {
    Some(ContactRecord {
        record_id: decode::id(result.get("id"))?,
        properties: decode::properties(result.get("properties")),
        archived: result.get("archived").and_then(Value::as_bool).unwrap_or(false),
    })
}
