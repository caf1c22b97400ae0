//! Changing a status: the rules that the single and the batch call share.

use jiff::Timestamp;
use serde::Deserialize;

use super::{LegalBasis, StoredStatus, SubscriptionState};
use crate::{
    account::Account,
    answer::ApiError,
    change::Change,
    ids::SubscriptionId,
    properties::{fold_email, is_email},
};

/// A requested status; `channel` and the legal basis are checked when it is written, so that a row fails alone.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewStatus {
    pub(crate) subscription_id: SubscriptionId,
    pub(crate) status_state: SubscriptionState,
    #[serde(default)]
    pub(crate) channel: Option<String>,
    #[serde(default)]
    pub(crate) legal_basis: Option<LegalBasis>,
    #[serde(default)]
    pub(crate) legal_basis_explanation: Option<String>,
}

/// Writes the status and names what happened in HubSpot's words (`setStatusSuccessReason`).
pub(crate) fn change(
    account: &mut Account,
    address: &str,
    new: NewStatus,
    source: &str,
    at: Timestamp,
) -> Result<&'static str, ApiError> {
    let email = fold_email(address);
    check(account, &email, &new)?;
    let (id, state) = (new.subscription_id, new.status_state);
    let current = account.preferences.get(&email, id).map_or(SubscriptionState::NotSpecified, |s| s.state);
    let is_resubscribe = current == SubscriptionState::Unsubscribed && state == SubscriptionState::Subscribed;
    if is_resubscribe && account.settings.refuse_resubscribe && source == API_SOURCE {
        return Err(ApiError::invalid(format!(
            "Subscription {id} for {email} cannot be updated because they have unsubscribed"
        )));
    }
    if current == state {
        return Ok("NO_STATUS_CHANGE");
    }
    let status = StoredStatus {
        state,
        source: source.to_owned(),
        changed_at: at,
        legal_basis: new.legal_basis,
        legal_basis_explanation: new.legal_basis_explanation,
    };
    if state == SubscriptionState::Subscribed && account.preferences.opted_out_at(&email).is_some() {
        account.record(Change::Everything { email: email.clone(), opted_out_at: None });
    }
    account.record(Change::Status { email, subscription_id: id, status });
    Ok(if is_resubscribe { "RESUBSCRIBE_OCCURRED" } else { "REQUESTED_CHANGE_OCCURRED" })
}

/// `source` of a status that came through the API.
pub(super) const API_SOURCE: &str = "PUBLIC_API";

fn check(account: &Account, email: &str, new: &NewStatus) -> Result<(), ApiError> {
    if !is_email(email) {
        return Err(ApiError::invalid(format!("Email address {email} is invalid")));
    }
    if new.channel.as_deref() != Some("EMAIL") {
        return Err(ApiError::invalid("The field 'channel' is required and must be EMAIL"));
    }
    let id = new.subscription_id;
    if account.settings.definitions.iter().any(|definition| definition.id == id) {
        return Ok(());
    }
    Err(ApiError::invalid(format!("Subscription definition with id {id} does not exist"))
        .context("subscriptionId", [id]))
}

/// Opts the address out of every subscription type and of the account as a whole.
pub(crate) fn opt_out_of_everything(
    account: &mut Account,
    address: &str,
    source: &str,
    at: Timestamp,
) -> Result<(), ApiError> {
    let email = fold_email(address);
    let ids: Vec<SubscriptionId> = account.settings.definitions.iter().map(|found| found.id).collect();
    for subscription_id in ids {
        let new = NewStatus {
            subscription_id,
            status_state: SubscriptionState::Unsubscribed,
            channel: Some("EMAIL".to_owned()),
            legal_basis: None,
            legal_basis_explanation: None,
        };
        change(account, &email, new, source, at)?;
    }
    if account.preferences.opted_out_at(&email).is_none() {
        account.record(Change::Everything { email, opted_out_at: Some(at) });
    }
    Ok(())
}
