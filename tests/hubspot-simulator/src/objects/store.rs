//! The records of one object type, indexed by every unique value.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{ObjectType, Record, search_index::SearchIndex};
use crate::{
    change::Change,
    ids::RecordId,
    properties::{Schema, fold_email},
};

/// Ids begin above 32 bits, as those of older accounts do.
const FIRST_RECORD_ID: u64 = 37_765_128_001;

/// Records, their unique values, and the ids that merges have left behind.
pub(crate) struct ObjectStore {
    pub(crate) object: ObjectType,
    pub(crate) schema: Schema,
    pub(crate) search: SearchIndex,
    records: BTreeMap<RecordId, Record>,
    /// Property, then value, to the live record that holds it; additional addresses count as `email`.
    unique: HashMap<String, HashMap<String, RecordId>>,
    aliases: BTreeMap<RecordId, RecordId>,
    /// Addresses that were erased for privacy and may not come back.
    blocked: HashSet<String>,
    next_id: u64,
}

impl ObjectStore {
    pub(crate) fn new(object: ObjectType, search_lag_ms: u64) -> Self {
        Self {
            object,
            schema: Schema::standard(object),
            search: SearchIndex::new(search_lag_ms),
            records: BTreeMap::new(),
            unique: HashMap::new(),
            aliases: BTreeMap::new(),
            blocked: HashSet::new(),
            next_id: FIRST_RECORD_ID,
        }
    }

    pub(crate) fn take_id(&mut self) -> RecordId {
        let id = RecordId(self.next_id);
        self.next_id += 1;
        id
    }

    /// The live record of an id; a merged-away id gives its survivor.
    pub(crate) fn find(&self, id: RecordId) -> Option<&Record> {
        self.live(self.survivor(id))
    }

    /// The live record of exactly this id.
    pub(crate) fn live(&self, id: RecordId) -> Option<&Record> {
        self.records.get(&id).filter(|record| record.archived_at.is_none())
    }

    pub(crate) fn archived(&self, id: RecordId) -> Option<&Record> {
        self.records.get(&id).filter(|record| record.archived_at.is_some())
    }

    /// The live record that holds a unique value; addresses are compared folded.
    pub(crate) fn find_unique(&self, property: &str, value: &str) -> Option<&Record> {
        let values = self.unique.get(property)?;
        let id = if property == "email" { values.get(&fold_email(value)) } else { values.get(value) };
        self.live(*id?)
    }

    pub(crate) fn is_merged_away(&self, id: RecordId) -> bool {
        self.aliases.contains_key(&id)
    }

    fn survivor(&self, id: RecordId) -> RecordId {
        self.aliases.get(&id).copied().unwrap_or(id)
    }

    pub(crate) fn is_blocked(&self, email: &str) -> bool {
        self.blocked.contains(email)
    }

    /// Live records in the order of their ids.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.records.values().filter(|record| record.archived_at.is_none())
    }

    pub(crate) fn all_after(&self, after: RecordId) -> impl Iterator<Item = &Record> {
        let later = self.records.range(RecordId(after.0 + 1)..).map(|(_, record)| record);
        later.filter(|record| record.archived_at.is_none())
    }

    /// Inserts or replaces, and keeps the indexes.
    pub(crate) fn put(&mut self, record: Record) {
        self.unregister(record.id);
        self.next_id = self.next_id.max(record.id.0 + 1);
        if record.archived_at.is_none() {
            self.register(&record);
        }
        self.search.put(&record);
        self.records.insert(record.id, record);
    }

    /// Removes without a trace, except for the address that may not come back.
    pub(crate) fn forget(&mut self, id: RecordId, blocked_email: Option<String>) {
        self.unregister(id);
        self.records.remove(&id);
        self.search.remove(id);
        self.blocked.extend(blocked_email);
    }

    /// Lets `from`, and everything that stood for it, stand for `to`.
    pub(crate) fn alias(&mut self, from: RecordId, to: RecordId) {
        for survivor in self.aliases.values_mut().filter(|survivor| **survivor == from) {
            *survivor = to;
        }
        self.aliases.insert(from, to);
        self.next_id = self.next_id.max(from.0 + 1);
    }

    fn register(&mut self, record: &Record) {
        for (property, value) in unique_values(&self.schema, record) {
            let values = self.unique.entry(property).or_default();
            values.insert(value, record.id);
        }
    }

    fn unregister(&mut self, id: RecordId) {
        let Some(record) = self.records.get(&id) else {
            return;
        };
        for (property, value) in unique_values(&self.schema, record) {
            let Some(values) = self.unique.get_mut(&property) else {
                continue;
            };
            if values.get(&value) == Some(&id) {
                values.remove(&value);
            }
        }
    }

    pub(crate) fn as_changes(&self) -> Vec<Change> {
        let object = self.object;
        let custom = self.schema.properties.values().filter(|property| !property.hubspot_defined);
        let groups = self.schema.groups.values().cloned().map(|group| Change::Group { object, group });
        let definitions = custom.cloned().map(|definition| Change::Property { object, definition });
        let records = self.records.values().cloned().map(|record| Change::Record { object, record });
        let aliases = self.aliases.iter().map(|(&from, &to)| Change::Alias { object, from, to });
        let blocked = self.blocked.iter().cloned().map(|email| Change::Gone {
            object,
            id: RecordId(0),
            blocked_email: Some(email),
        });
        groups.chain(definitions).chain(records).chain(aliases).chain(blocked).collect()
    }
}

fn unique_values(schema: &Schema, record: &Record) -> Vec<(String, String)> {
    let is_own = |name: &str| name != "email" && schema.is_unique(name);
    let own = record.properties.iter().filter(|(name, _)| is_own(name));
    let own = own.map(|(name, value)| (name.clone(), value.clone()));
    let emails = record.emails().map(|email| ("email".to_owned(), email.to_owned()));
    own.chain(emails).collect()
}
