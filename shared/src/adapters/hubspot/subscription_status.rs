//! A subscription status as it is written and as it comes back.

use std::fmt;

use jiff::Timestamp;

use super::decode::{self, Object};

/// What a person wants, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConsentState {
    /// Wants mail of this type.
    Subscribed,
    /// Wants none.
    Unsubscribed,
}

impl ConsentState {
    /// HubSpot's word.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Subscribed => "SUBSCRIBED",
            Self::Unsubscribed => "UNSUBSCRIBED",
        }
    }
}

/// One status to write.
#[derive(Clone, PartialEq, Eq)]
pub struct StatusWrite {
    /// The person's address.
    pub email: String,
    /// HubSpot's id of the subscription type.
    pub subscription_id: i64,
    /// What the person wants.
    pub state: ConsentState,
    /// One of HubSpot's legal bases, such as `CONSENT_WITH_NOTICE`. Needed where the account's privacy setting is on.
    pub legal_basis: Option<String>,
    /// Why that basis holds. Needed together with it.
    pub explanation: Option<String>,
}

/// A status as HubSpot holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionStatus {
    /// HubSpot's id of the subscription type.
    pub subscription_id: i64,
    /// What the person wants, as far as HubSpot knows.
    pub status: SubscriptionState,
    /// Since when.
    pub timestamp: Option<Timestamp>,
    /// Where it came from, in HubSpot's words.
    pub source: Option<String>,
    /// The brand inside the account; 0 is the account itself.
    pub business_unit_id: Option<i64>,
    /// What a write changed. Absent when read.
    pub success_reason: Option<StatusWriteReason>,
}

/// HubSpot's word for a status. New words may come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionState {
    /// `SUBSCRIBED`.
    Subscribed,
    /// `UNSUBSCRIBED`.
    Unsubscribed,
    /// `NOT_SPECIFIED`: nobody said anything.
    NotSpecified,
    /// Another word.
    Other(String),
}

/// HubSpot's word for what a write changed. New words may come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusWriteReason {
    /// `NO_STATUS_CHANGE`.
    NoChange,
    /// `REQUESTED_CHANGE_OCCURRED`.
    Changed,
    /// `RESUBSCRIBE_OCCURRED`: an opt-out was overwritten.
    Resubscribed,
    /// `UNSUBSCRIBE_FROM_ALL_OCCURRED`.
    UnsubscribedFromAll,
    /// Another word.
    Other(String),
}

/// Reads a status; `None` when it says not which subscription it is about, or nothing.
pub(super) fn status(object: &Object) -> Option<SubscriptionStatus> {
    Some(SubscriptionStatus {
        subscription_id: decode::integer(object.get("subscriptionId"))?,
        status: match decode::text(object, "status")? {
            "SUBSCRIBED" => SubscriptionState::Subscribed,
            "UNSUBSCRIBED" => SubscriptionState::Unsubscribed,
            "NOT_SPECIFIED" => SubscriptionState::NotSpecified,
            other => SubscriptionState::Other(other.to_owned()),
        },
        timestamp: decode::instant(object.get("timestamp")),
        source: decode::text(object, "source").map(str::to_owned),
        business_unit_id: decode::integer(object.get("businessUnitId")),
        success_reason: decode::text(object, "setStatusSuccessReason").map(|reason| match reason {
            "NO_STATUS_CHANGE" => StatusWriteReason::NoChange,
            "REQUESTED_CHANGE_OCCURRED" => StatusWriteReason::Changed,
            "RESUBSCRIBE_OCCURRED" => StatusWriteReason::Resubscribed,
            "UNSUBSCRIBE_FROM_ALL_OCCURRED" => StatusWriteReason::UnsubscribedFromAll,
            other => StatusWriteReason::Other(other.to_owned()),
        }),
    })
}

impl fmt::Debug for StatusWrite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("StatusWrite");
        debug.field("subscription_id", &self.subscription_id).field("state", &self.state);
        debug.field("legal_basis", &self.legal_basis).finish_non_exhaustive()
    }
}
