//! All queues of one emulator, and what happens between them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::clock::Moment;
use crate::error::SqsError;
use crate::faults::Faults;
use crate::queue::Queue;
use crate::receipt::MessageKey;
use crate::settings::{QueueSettings, validate_queue_name};
use crate::shelf::QueueCounts;

/// What happened to a queue's messages since the queue was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueStats {
    /// Messages taken in from senders.
    pub sent: u64,
    /// Deliveries to receivers, repeated ones included.
    pub received: u64,
    /// Messages deleted by receivers.
    pub deleted: u64,
    /// Messages given to the dead-letter queue.
    pub dead_lettered: u64,
    /// Messages dropped at the end of their retention.
    pub expired: u64,
}

/// Everything the emulator counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EmulatorStats {
    /// Calls by action, those that failed included.
    pub calls: BTreeMap<String, u64>,
    /// What happened to each queue's messages.
    pub queues: BTreeMap<String, QueueStats>,
    /// Where each queue's messages are.
    pub counts: BTreeMap<String, QueueCounts>,
}

/// The state that one lock guards.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) faults: Faults,
    queues: BTreeMap<String, Queue>,
    calls: BTreeMap<String, u64>,
    next_key: MessageKey,
}

impl Store {
    /// Makes a queue, or leaves one alone that exists with the same attributes.
    ///
    /// `named` are the attributes that the caller set; only they are compared (rule of `CreateQueue`).
    pub(crate) fn create_queue(
        &mut self,
        settings: QueueSettings,
        named: &[&str],
        now: Moment,
    ) -> Result<(), SqsError> {
        validate_queue_name(&settings.name)?;
        if let Some(existing) = self.queues.get(&settings.name) {
            let (old, new) = (existing.settings.to_attributes(), settings.to_attributes());
            let differing = named.iter().find(|name| old.get(**name) != new.get(**name));
            return differing.map_or(Ok(()), |name| Err(SqsError::queue_exists_differently(name)));
        }
        self.check_dead_letter(&settings)?;
        self.queues.insert(settings.name.clone(), Queue::new(settings, now));
        Ok(())
    }

    /// Makes a queue or gives an existing one these settings; its dead-letter queue is made when it is missing.
    pub(crate) fn put_queue(&mut self, settings: QueueSettings, now: Moment) -> Result<(), SqsError> {
        if let Some(dead_letter) = &settings.dead_letter {
            self.create_queue(QueueSettings::new(dead_letter.queue.clone()), &[], now)?;
        }
        self.create_queue(settings.clone(), &[], now)?;
        self.change_settings(settings, now)
    }

    /// Gives an existing queue new settings.
    pub(crate) fn change_settings(&mut self, settings: QueueSettings, now: Moment) -> Result<(), SqsError> {
        self.check_dead_letter(&settings)?;
        let queue = self.queue_mut(&settings.name)?;
        queue.settings = settings;
        queue.modified_at = now;
        Ok(())
    }

    fn check_dead_letter(&self, settings: &QueueSettings) -> Result<(), SqsError> {
        let Some(dead_letter) = &settings.dead_letter else {
            return Ok(());
        };
        if self.queues.contains_key(&dead_letter.queue) {
            return Ok(());
        }
        let policy = settings.to_attributes().remove("RedrivePolicy").unwrap_or_default();
        Err(SqsError::invalid_value(policy, "RedrivePolicy", "Dead letter target does not exist."))
    }

    pub(crate) fn delete_queue(&mut self, name: &str) -> Result<(), SqsError> {
        let queue = self.queues.remove(name).ok_or_else(SqsError::queue_does_not_exist)?;
        // Whoever waits for a message learns that the queue is gone.
        queue.arrival().notify_waiters();
        Ok(())
    }

    pub(crate) fn queue(&self, name: &str) -> Result<&Queue, SqsError> {
        self.queues.get(name).ok_or_else(SqsError::queue_does_not_exist)
    }

    pub(crate) fn queue_mut(&mut self, name: &str) -> Result<&mut Queue, SqsError> {
        self.queues.get_mut(name).ok_or_else(SqsError::queue_does_not_exist)
    }

    pub(crate) fn queue_names(&self) -> impl Iterator<Item = &str> {
        self.queues.keys().map(String::as_str)
    }

    /// A number for a new message.
    pub(crate) fn new_key(&mut self) -> MessageKey {
        self.next_key += 1;
        self.next_key
    }

    /// Whether a message of this number was ever stored.
    pub(crate) fn has_issued(&self, key: MessageKey) -> bool {
        (1..=self.next_key).contains(&key)
    }

    pub(crate) fn count_call(&mut self, action: &str) {
        *self.calls.entry(action.to_owned()).or_default() += 1;
    }

    /// Lets every queue catch up with the clock and wakes whoever waits for a message.
    pub(crate) fn catch_up(&mut self, now: Moment) {
        for queue in self.queues.values_mut() {
            queue.catch_up(now);
            queue.arrival().notify_waiters();
        }
    }

    pub(crate) fn stats(&self) -> EmulatorStats {
        EmulatorStats {
            calls: self.calls.clone(),
            queues: self.queues.iter().map(|(name, queue)| (name.clone(), queue.stats)).collect(),
            counts: self.queues.iter().map(|(name, queue)| (name.clone(), queue.counts())).collect(),
        }
    }
}
