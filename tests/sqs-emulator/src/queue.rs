//! One standard queue: what its actions do to its messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Moment;
use crate::error::SqsError;
use crate::message::{Message, MessageView, Place, Stored};
use crate::receipt::{MessageKey, Receipt};
use crate::settings::QueueSettings;
use crate::shelf::{QueueCounts, Shelf};
use crate::store::QueueStats;

/// Messages in flight that a standard queue allows (quota of SQS: about 120,000).
const IN_FLIGHT_MAX: usize = 120_000;
/// How long a message may stay hidden after its receipt, extensions included (quota of SQS).
const VISIBILITY_MAX: Duration = Duration::from_hours(12);
/// Sent messages that are remembered for [`crate::SqsEmulator::history`], so that a long-lived emulator stays small.
const HISTORY_MAX: usize = 100_000;
/// Least time between two purges (rule of `PurgeQueue`).
const PURGE_INTERVAL: Duration = Duration::from_mins(1);

/// A standard queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) settings: QueueSettings,
    pub(crate) created_at: Moment,
    pub(crate) modified_at: Moment,
    pub(crate) stats: QueueStats,
    shelf: Shelf,
    purged_at: Option<Moment>,
    history: VecDeque<Arc<Message>>,
}

/// What a receive found: messages for the receiver, and those that were received too often.
pub(crate) struct Found {
    pub(crate) deliveries: Vec<(Receipt, Stored)>,
    pub(crate) dead: Vec<Stored>,
}

impl Queue {
    pub(crate) fn new(settings: QueueSettings, now: Moment) -> Self {
        Self {
            settings,
            created_at: now,
            modified_at: now,
            stats: QueueStats::default(),
            shelf: Shelf::default(),
            purged_at: None,
            history: VecDeque::new(),
        }
    }

    /// Takes a new message in, hidden for `delay`.
    pub(crate) fn send(&mut self, key: MessageKey, message: Message, delay: Duration) {
        let message = Arc::new(message);
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(Arc::clone(&message));
        self.stats.sent += 1;
        let shows_at = message.sent_at.after(delay);
        let place = (!delay.is_zero()).then_some(Place::Delayed(shows_at));
        let stored = Stored {
            message,
            receives: 0,
            first_received_at: None,
            received_at: None,
            dead_letter_source: None,
            place: Place::Visible(0),
        };
        self.shelf.insert(key, stored, place);
    }

    /// Takes in a message that was in a queue already: a copy, or one that its queue gave up.
    pub(crate) fn take_in(&mut self, key: MessageKey, stored: Stored) {
        self.shelf.insert(key, stored, None);
    }

    /// Catches up with the clock: hidden messages show, and those beyond their retention are gone.
    pub(crate) fn catch_up(&mut self, now: Moment) {
        self.stats.expired += self.shelf.remove_expired(self.settings.retention, now);
        self.shelf.show_due(now);
    }

    /// The next moment at which a hidden message shows.
    pub(crate) fn next_showing(&self) -> Option<Moment> {
        self.shelf.next_showing()
    }

    /// Told when a message may have become receivable.
    pub(crate) fn arrival(&self) -> &Arc<Notify> {
        &self.shelf.arrival
    }

    /// Hands out up to `maximum` messages, hidden for `visibility`. One that was received `max_receives` times already
    /// is taken out instead.
    pub(crate) fn receive(
        &mut self,
        maximum: usize,
        visibility: Duration,
        max_receives: u32,
        now: Moment,
    ) -> Result<Found, SqsError> {
        self.catch_up(now);
        if self.counts().in_flight >= IN_FLIGHT_MAX {
            return Err(SqsError::over_limit("Too many messages in flight."));
        }
        let mut found = Found { deliveries: Vec::new(), dead: Vec::new() };
        while found.deliveries.len() < maximum {
            let Some(key) = self.shelf.first_visible() else { break };
            if self.shelf.get(key).is_some_and(|stored| stored.receives >= max_receives) {
                found.dead.extend(self.shelf.remove(key).map(|stored| self.given_up(stored)));
            } else if let Some(delivery) = self.deliver(key, visibility, now) {
                found.deliveries.push(delivery);
            }
        }
        // Those received for no time at all show again, after the receive and not within it.
        self.catch_up(now);
        Ok(found)
    }

    fn given_up(&mut self, stored: Stored) -> Stored {
        self.stats.dead_lettered += 1;
        Stored { dead_letter_source: Some(self.settings.arn()), ..stored }
    }

    fn deliver(&mut self, key: MessageKey, visibility: Duration, now: Moment) -> Option<(Receipt, Stored)> {
        let stored = self.shelf.get_mut(key)?;
        stored.receives += 1;
        stored.received_at = Some(now);
        stored.first_received_at.get_or_insert(now);
        let delivery = (Receipt { key, delivery: stored.receives }, stored.clone());
        self.stats.received += 1;
        self.shelf.hide(key, now.after(visibility));
        Some(delivery)
    }

    /// Deletes a message by the handle of its newest delivery; an older handle deletes nothing (rule of
    /// `DeleteMessage`). Whether something was deleted.
    pub(crate) fn delete(&mut self, receipt: &Receipt) -> bool {
        let is_newest = self.shelf.get(receipt.key).is_some_and(|stored| stored.receives == receipt.delivery);
        if is_newest {
            self.shelf.remove(receipt.key);
            self.stats.deleted += 1;
        }
        is_newest
    }

    /// Hides a message in flight until `timeout` from now, or shows it at once for zero.
    pub(crate) fn change_visibility(
        &mut self,
        receipt: &Receipt,
        handle: &str,
        timeout: Duration,
        now: Moment,
    ) -> Result<(), SqsError> {
        self.catch_up(now);
        let stored = self.shelf.get(receipt.key).ok_or_else(|| SqsError::message_not_inflight(handle))?;
        if stored.receives != receipt.delivery || !matches!(stored.place, Place::InFlight(_)) {
            return Err(SqsError::message_not_inflight(handle));
        }
        let latest = stored.received_at.unwrap_or(now).after(VISIBILITY_MAX);
        if now.after(timeout) > latest {
            let reason = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]";
            return Err(SqsError::invalid_value(timeout.as_secs(), "VisibilityTimeout", reason));
        }
        self.shelf.hide(receipt.key, now.after(timeout));
        self.shelf.show_due(now);
        Ok(())
    }

    /// Removes all messages, at most once a minute.
    pub(crate) fn purge(&mut self, now: Moment) -> Result<(), SqsError> {
        if self.purged_at.is_some_and(|purged_at| purged_at.after(PURGE_INTERVAL) > now) {
            return Err(SqsError::purge_in_progress(&self.settings.name));
        }
        self.purged_at = Some(now);
        self.clear();
        Ok(())
    }

    /// Removes all messages.
    pub(crate) fn clear(&mut self) {
        self.shelf.clear();
    }

    pub(crate) fn counts(&self) -> QueueCounts {
        self.shelf.counts()
    }

    /// The messages that are in the queue, oldest first.
    pub(crate) fn views(&self) -> Vec<MessageView> {
        self.shelf.views()
    }

    /// Every message that was sent, oldest first, as far as the history reaches.
    pub(crate) fn history(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.history.iter()
    }
}
