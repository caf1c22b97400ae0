//! One line a delivery, without anything that it holds.

use std::sync::atomic::Ordering;

use super::{Answer, Webhook};
use crate::model::notification::UnreadableBody;

/// Deliveries that failed in a row, refused or not stored, at which a person is warned: by then it is not somebody knocking once.
const WARN_AT: [u64; 3] = [1, 5, 20];

impl Webhook {
    /// Logs what became of it, without what it holds, and counts what was refused in a row.
    pub(super) fn report(&self, answer: &Answer) {
        match answer {
            Answer::Stored { delivery_id, stored, unreadable } => {
                self.failed_in_a_row.store(0, Ordering::Relaxed);
                tracing::info!(
                    delivery.id = %delivery_id,
                    received = stored.received,
                    quarantined = stored.quarantined,
                    repeated = stored.repeated,
                    unreadable = unreadable.map(UnreadableBody::code),
                    "A delivery was stored."
                );
            }
            Answer::Empty => {
                self.failed_in_a_row.store(0, Ordering::Relaxed);
                tracing::info!("A delivery held nothing.");
            }
            Answer::Refused(error) => {
                let refused = self.one_more_failed();
                if WARN_AT.contains(&refused) {
                    tracing::warn!(reason = error.code(), error = %error, refused, "Deliveries do not verify.");
                } else {
                    tracing::info!(reason = error.code(), refused, "A delivery did not verify.");
                }
            }
            Answer::Unavailable => {
                let failed = self.one_more_failed();
                if WARN_AT.contains(&failed) {
                    tracing::warn!(failed, "Deliveries can't be stored.");
                } else {
                    tracing::info!(failed, "A delivery could not be stored; HubSpot sends it again.");
                }
            }
            Answer::TooLarge | Answer::NotFound | Answer::MethodNotAllowed => {
                tracing::info!(status = answer.status().as_u16(), "A request was not taken.");
            }
        }
    }

    /// Counts a delivery that failed, and tells how many have in a row.
    fn one_more_failed(&self) -> u64 {
        self.failed_in_a_row.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }
}
