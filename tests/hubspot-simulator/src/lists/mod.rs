//! Lists (segments) and their members. Source: the lists guide and its public specification.

mod definition;
mod memberships;

pub(crate) use definition::{by_name, create, delete, get, search};
pub(crate) use memberships::{add, add_and_remove, members, remove};

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    account::Account,
    change::Change,
    config::ListConfig,
    ids::{ListId, RecordId},
};

/// Who decides on a list's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ProcessingType {
    /// People and API calls.
    Manual,
    /// A filter once, then people and API calls.
    Snapshot,
    /// A filter only.
    Dynamic,
}

/// One list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct List {
    pub(crate) id: ListId,
    pub(crate) name: String,
    pub(crate) object_type_id: String,
    pub(crate) processing_type: ProcessingType,
    #[serde(default)]
    pub(crate) is_deleted: bool,
    #[serde(skip)]
    pub(crate) members: BTreeMap<RecordId, Timestamp>,
}

/// The lists of an account.
pub(crate) struct Lists {
    lists: BTreeMap<ListId, List>,
}

impl Lists {
    pub(crate) fn new(configs: &[ListConfig]) -> Self {
        let lists = configs.iter().map(|config| {
            let list = List {
                id: config.id,
                name: config.name.clone(),
                object_type_id: config.object_type_id.clone(),
                processing_type: config.processing_type,
                is_deleted: false,
                members: BTreeMap::new(),
            };
            (config.id, list)
        });
        Self { lists: lists.collect() }
    }

    pub(crate) fn get(&self, id: ListId) -> Option<&List> {
        self.lists.get(&id).filter(|list| !list.is_deleted)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &List> {
        self.lists.values().filter(|list| !list.is_deleted)
    }

    pub(crate) fn of_record(&self, record: RecordId) -> impl Iterator<Item = ListId> {
        self.all().filter(move |list| list.members.contains_key(&record)).map(|list| list.id)
    }

    fn next_id(&self) -> ListId {
        self.lists.keys().next_back().map_or(ListId(1), |last| ListId(last.0 + 1))
    }

    /// Inserts a list or replaces its definition; members stay.
    pub(crate) fn put(&mut self, mut list: List) {
        if let Some(current) = self.lists.remove(&list.id) {
            list.members = current.members;
        }
        self.lists.insert(list.id, list);
    }

    pub(crate) fn change_members(&mut self, id: ListId, added: &[RecordId], removed: &[RecordId], at: Timestamp) {
        let Some(list) = self.lists.get_mut(&id) else {
            return;
        };
        for record in removed {
            list.members.remove(record);
        }
        for record in added {
            list.members.entry(*record).or_insert(at);
        }
    }

    pub(crate) fn as_changes(&self) -> Vec<Change> {
        let mut all = Vec::new();
        for list in self.lists.values() {
            all.push(Change::List { list: list.clone() });
            for (&record, &at) in &list.members {
                let (list_id, added) = (list.id, vec![record]);
                all.push(Change::Members { list_id, added, removed: Vec::new(), at });
            }
        }
        all
    }
}

impl Account {
    /// Takes a record out of all its lists.
    pub(crate) fn leave_lists(&mut self, record: RecordId, at: Timestamp) {
        let lists: Vec<ListId> = self.lists.of_record(record).collect();
        for list_id in lists {
            self.record(Change::Members { list_id, added: Vec::new(), removed: vec![record], at });
        }
    }
}
