//! The messages of a queue and the orders in which they are looked up.
//!
//! A receive takes from the visible messages only, and time is caught up from two sorted sets, so that no operation
//! looks at all messages.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;

use crate::clock::Moment;
use crate::message::{MessageView, Place, Stored};
use crate::receipt::MessageKey;

/// Messages of a queue by their place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueCounts {
    /// Receivable now.
    pub visible: usize,
    /// Received and hidden.
    pub in_flight: usize,
    /// Sent and still hidden.
    pub delayed: usize,
}

/// Messages by their key, by their turn, by the moment at which they show, and by their age.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    /// Told when a message may have become receivable.
    pub(crate) arrival: Arc<Notify>,
    messages: HashMap<MessageKey, Stored>,
    /// The receivable messages by turn.
    visible: BTreeMap<u64, MessageKey>,
    /// The hidden messages by the moment at which they show.
    hidden: BTreeSet<(Moment, MessageKey)>,
    /// All messages by age, for retention.
    by_age: BTreeSet<(Moment, MessageKey)>,
    delayed: usize,
    next_turn: u64,
}

impl Shelf {
    /// Takes a message in, receivable at once or hidden at a place.
    pub(crate) fn insert(&mut self, key: MessageKey, stored: Stored, hidden: Option<Place>) {
        self.by_age.insert((stored.message.sent_at, key));
        self.messages.insert(key, stored);
        match hidden {
            Some(place) => self.link_hidden(key, place),
            None => self.link_visible(key),
        }
    }

    pub(crate) fn get(&self, key: MessageKey) -> Option<&Stored> {
        self.messages.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: MessageKey) -> Option<&mut Stored> {
        self.messages.get_mut(&key)
    }

    /// The receivable message whose turn it is.
    pub(crate) fn first_visible(&self) -> Option<MessageKey> {
        self.visible.first_key_value().map(|(_, key)| *key)
    }

    /// The next moment at which a hidden message shows.
    pub(crate) fn next_showing(&self) -> Option<Moment> {
        self.hidden.first().map(|(shows_at, _)| *shows_at)
    }

    /// Lets every message show that is due by now.
    pub(crate) fn show_due(&mut self, now: Moment) {
        while let Some(&(_, key)) = self.hidden.first().filter(|(shows_at, _)| *shows_at <= now) {
            self.unlink(key);
            self.link_visible(key);
        }
    }

    /// Removes every message that was sent at least `retention` ago; answers how many.
    pub(crate) fn remove_expired(&mut self, retention: Duration, now: Moment) -> u64 {
        let mut removed = 0;
        while let Some(&(_, key)) = self.by_age.first().filter(|(sent_at, _)| sent_at.after(retention) <= now) {
            self.remove(key);
            removed += 1;
        }
        removed
    }

    /// Hides a message, wherever it was, until a moment.
    pub(crate) fn hide(&mut self, key: MessageKey, until: Moment) {
        self.unlink(key);
        self.link_hidden(key, Place::InFlight(until));
    }

    pub(crate) fn remove(&mut self, key: MessageKey) -> Option<Stored> {
        self.unlink(key);
        let stored = self.messages.remove(&key)?;
        self.by_age.remove(&(stored.message.sent_at, key));
        Some(stored)
    }

    /// Removes all messages.
    pub(crate) fn clear(&mut self) {
        self.messages.clear();
        self.visible.clear();
        self.hidden.clear();
        self.by_age.clear();
        self.delayed = 0;
    }

    pub(crate) fn counts(&self) -> QueueCounts {
        QueueCounts { visible: self.visible.len(), in_flight: self.hidden.len() - self.delayed, delayed: self.delayed }
    }

    /// The messages, oldest first.
    pub(crate) fn views(&self) -> Vec<MessageView> {
        self.by_age.iter().filter_map(|(_, key)| self.messages.get(key)).map(Stored::view).collect()
    }

    fn link_visible(&mut self, key: MessageKey) {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.visible.insert(turn, key);
        self.put(key, Place::Visible(turn));
        self.arrival.notify_waiters();
    }

    fn link_hidden(&mut self, key: MessageKey, place: Place) {
        if let Place::Delayed(until) | Place::InFlight(until) = place {
            self.hidden.insert((until, key));
        }
        self.delayed += usize::from(matches!(place, Place::Delayed(_)));
        self.put(key, place);
        // A waiting receiver has to look again when this message shows.
        self.arrival.notify_waiters();
    }

    fn put(&mut self, key: MessageKey, place: Place) {
        if let Some(stored) = self.messages.get_mut(&key) {
            stored.place = place;
        }
    }

    /// Takes a message out of the orders of its place.
    fn unlink(&mut self, key: MessageKey) {
        match self.messages.get(&key).map(|stored| stored.place) {
            Some(Place::Visible(turn)) => {
                self.visible.remove(&turn);
            }
            Some(Place::Delayed(until)) => {
                self.delayed -= usize::from(self.hidden.remove(&(until, key)));
            }
            Some(Place::InFlight(until)) => {
                self.hidden.remove(&(until, key));
            }
            None => {}
        }
    }
}
