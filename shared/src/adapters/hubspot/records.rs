//! Records of any object type, read by their ids.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::contacts::{Batch, MERGED_IDS, keys};
use super::decode::{self, Object};
use super::request::encode_segment;
use super::{Account, Call};
use crate::model::notification::type_id;
use crate::model::outcome::{Operation, Row};

/// Values by property; an empty one is none.
pub type RecordValues = BTreeMap<String, String>;

impl Account<'_> {
    /// Reads properties of records of one object type, by name or by HubSpot's type id (one call; at most
    /// [`ROWS_PER_CALL`](crate::model::plan::ROWS_PER_CALL) records).
    ///
    /// A record that was merged answers under its old id, and an unknown id is refused as gone. A property that the type does
    /// not have is none. An app without the type's read scope is refused as a whole, and so is a type that the account lacks.
    pub async fn read_records(
        &self,
        object_type: &str,
        ids: &[&str],
        properties: &[&str],
    ) -> Call<Vec<Row<RecordValues>>> {
        let mut asked: Vec<&str> = properties.iter().copied().chain([MERGED_IDS]).collect();
        asked.sort_unstable();
        asked.dedup();
        let inputs: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
        let batch = Batch {
            object: &encode_segment(type_id(object_type)),
            verb: "read",
            operation: Operation::ReadContacts,
            id_property: None,
            keys: ids.iter().map(|id| keys(None, id)).collect(),
        };
        self.object_batch(batch, json!({"inputs": inputs, "properties": asked}), values).await
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the shape that a batch reads its results with")]
fn values(result: &Object) -> Option<RecordValues> {
    let all = decode::properties(result.get("properties")).into_iter();
    Some(all.filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?))).collect())
}
