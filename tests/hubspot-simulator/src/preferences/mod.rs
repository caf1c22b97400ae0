//! Subscription statuses of addresses, and the calls on them. Sources: the subscription preferences guide and its public
//! specification (v4, 2026-03).

mod batch;
mod everything;
mod single;
mod write;

pub(crate) use batch::{batch_read, batch_write};
pub(crate) use everything::{batch_read_everything, batch_write_everything, read_everything, write_everything};
pub(crate) use single::{definitions, read, write};
pub(crate) use write::{NewStatus, change, opt_out_of_everything};

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{account::Account, answer::ApiError, call::Call, change::Change, clock::iso, ids::SubscriptionId};

/// What an address wants of one subscription type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SubscriptionState {
    /// Wants it.
    Subscribed,
    /// Opted out.
    Unsubscribed,
    /// Never said.
    NotSpecified,
}

/// HubSpot's list of legal bases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum LegalBasis {
    ConsentWithNotice,
    LegitimateInterestClient,
    LegitimateInterestOther,
    LegitimateInterestPql,
    NonGdpr,
    PerformanceOfContract,
    ProcessAndStore,
}

/// A status and where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredStatus {
    pub(crate) state: SubscriptionState,
    pub(crate) source: String,
    pub(crate) changed_at: Timestamp,
    #[serde(default)]
    pub(crate) legal_basis: Option<LegalBasis>,
    #[serde(default)]
    pub(crate) legal_basis_explanation: Option<String>,
}

/// Everything known of the addresses, whether or not they belong to a contact.
#[derive(Default)]
pub(crate) struct Preferences {
    subscribers: BTreeMap<String, Subscriber>,
}

/// One address.
#[derive(Default)]
pub(crate) struct Subscriber {
    pub(crate) statuses: BTreeMap<SubscriptionId, StoredStatus>,
    pub(crate) opted_out_at: Option<Timestamp>,
}

impl Preferences {
    pub(crate) fn get(&self, email: &str, subscription_id: SubscriptionId) -> Option<&StoredStatus> {
        self.subscribers.get(email)?.statuses.get(&subscription_id)
    }

    pub(crate) fn opted_out_at(&self, email: &str) -> Option<Timestamp> {
        self.subscribers.get(email)?.opted_out_at
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&String, &Subscriber)> {
        self.subscribers.iter()
    }

    pub(crate) fn set(&mut self, email: String, subscription_id: SubscriptionId, status: StoredStatus) {
        self.subscribers.entry(email).or_default().statuses.insert(subscription_id, status);
    }

    pub(crate) fn set_everything(&mut self, email: String, opted_out_at: Option<Timestamp>) {
        self.subscribers.entry(email).or_default().opted_out_at = opted_out_at;
    }

    pub(crate) fn as_changes(&self) -> Vec<Change> {
        let mut all = Vec::new();
        for (email, subscriber) in &self.subscribers {
            for (&subscription_id, status) in &subscriber.statuses {
                let (email, status) = (email.clone(), status.clone());
                all.push(Change::Status { email, subscription_id, status });
            }
            if subscriber.opted_out_at.is_some() {
                let opted_out_at = subscriber.opted_out_at;
                all.push(Change::Everything { email: email.clone(), opted_out_at });
            }
        }
        all
    }
}

/// The status object of every active definition; what an address never said is `NOT_SPECIFIED`.
fn status_objects(account: &Account, email: &str) -> Vec<Value> {
    let definitions = account.settings.definitions.iter();
    definitions.map(|definition| status_object(account, email, definition.id)).collect()
}

/// One status object, as both reads and writes show it.
fn status_object(account: &Account, email: &str, subscription_id: SubscriptionId) -> Value {
    let mut definitions = account.settings.definitions.iter();
    let name = definitions.find(|definition| definition.id == subscription_id).map(|found| &found.name);
    let mut shown = json!({
        "channel": "EMAIL",
        "subscriberIdString": email,
        "subscriptionId": subscription_id,
        "subscriptionName": name,
        "businessUnitId": 0,
    });
    match account.preferences.get(email, subscription_id) {
        None => {
            shown["status"] = json!(SubscriptionState::NotSpecified);
            shown["source"] = "NONE".into();
            shown["timestamp"] = iso(Timestamp::UNIX_EPOCH).into();
        }
        Some(status) => {
            shown["status"] = json!(status.state);
            shown["source"] = status.source.clone().into();
            shown["timestamp"] = iso(status.changed_at).into();
            if let Some(basis) = status.legal_basis {
                shown["legalBasis"] = json!(basis);
            }
            if let Some(explanation) = &status.legal_basis_explanation {
                shown["legalBasisExplanation"] = explanation.clone().into();
            }
        }
    }
    shown
}

/// `channel=EMAIL` is required wherever it stands in the query.
fn check_channel(call: &Call) -> Result<(), ApiError> {
    match call.query("channel") {
        Some("EMAIL") => Ok(()),
        Some(_) => Err(ApiError::invalid("Only the channel EMAIL is supported")),
        None => Err(ApiError::invalid("The query parameter 'channel' is required")),
    }
}

/// The batch calls need Marketing Hub Enterprise and scopes of their own.
fn check_batch_scope(account: &Account, scope: &str) -> Result<(), ApiError> {
    if account.settings.batch_consent {
        return Ok(());
    }
    let message = "This app hasn't been granted all required scopes to make this call.";
    let errors = json!([{
        "message": "One or more of the following scopes are required.",
        "context": { "requiredGranularScopes": [scope] },
    }]);
    Err(ApiError::new(403, "MISSING_SCOPES", message).with("errors", errors))
}
