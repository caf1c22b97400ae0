//! When two notifications are the same one.

use serde_json::json;
use sha2::{Digest, Sha256};

use super::Notification;
use super::fields::Fields;

/// The field that differs each time HubSpot sends the same notification again.
const ATTEMPT: &str = "attemptNumber";

/// SHA-256 over what makes a notification the same when it comes again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NotificationKey(pub [u8; 32]);

impl NotificationKey {
    /// Portal, type, record or both records, property, instant and event. HubSpot does not promise that the number of the
    /// event alone is unique; which attempt it is, and which batch it came in, say nothing about what happened.
    pub(super) fn of(notification: &Notification) -> Self {
        let details = &notification.details;
        let parts = json!([
            notification.portal_id,
            notification.subscription_type,
            notification.object_type,
            notification.object_id,
            details["fromObjectId"],
            details["toObjectId"],
            notification.property_name,
            notification.occurred_at.as_millisecond(),
            notification.event_id,
        ]);
        Self::of_text(&parts.to_string())
    }

    /// Of one that can't be used: all it holds, but for the attempt.
    pub(super) fn of_fields(fields: &Fields<'_>) -> Self {
        Self::of_text(&fields.without(ATTEMPT))
    }

    /// Of one that has no fields.
    pub(super) fn of_text(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }
}
