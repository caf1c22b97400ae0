//! What search sees: the records as they were a while ago.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

use super::Record;
use crate::ids::RecordId;

/// A copy of the records that follows the writes with a lag.
pub(crate) struct SearchIndex {
    lag: SignedDuration,
    visible: BTreeMap<RecordId, Record>,
    coming: VecDeque<Record>,
}

impl SearchIndex {
    pub(super) fn new(lag_ms: u64) -> Self {
        Self {
            lag: SignedDuration::from_millis(i64::try_from(lag_ms).unwrap_or(i64::MAX)),
            visible: BTreeMap::new(),
            coming: VecDeque::new(),
        }
    }

    /// What has become visible by now moves on, so that the queue stays short where nobody searches.
    pub(super) fn put(&mut self, record: &Record) {
        self.publish(record.updated_at);
        self.coming.push_back(record.clone());
    }

    pub(super) fn remove(&mut self, id: RecordId) {
        self.visible.remove(&id);
        self.coming.retain(|record| record.id != id);
    }

    /// Live records that search knows of at this moment.
    pub(super) fn catch_up(&mut self, now: Timestamp) -> impl Iterator<Item = &Record> {
        self.publish(now);
        self.visible.values().filter(|record| record.archived_at.is_none())
    }

    fn publish(&mut self, now: Timestamp) {
        while self.coming.front().is_some_and(|next| self.is_due(next, now)) {
            if let Some(record) = self.coming.pop_front() {
                self.visible.insert(record.id, record);
            }
        }
    }

    fn is_due(&self, record: &Record, now: Timestamp) -> bool {
        now.duration_since(record.updated_at) >= self.lag
    }
}
