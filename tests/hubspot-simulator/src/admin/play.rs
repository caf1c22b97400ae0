//! What the people who work in HubSpot do, past all limits.

use anyhow::{Context, anyhow};
use jiff::Timestamp;

use crate::{
    account::Account,
    answer::ApiError,
    change::Change,
    clock::{Moment, to_milliseconds},
    ids::{PortalId, RecordId, SubscriptionId},
    objects::{self, MergeError, NewValues, ObjectType},
    preferences::{self, NewStatus, SubscriptionState},
    world::World,
};

/// `source` of a status that somebody changed on a preferences page.
const SOURCE: &str = "PREFERENCES_PAGE";

/// Lets somebody act in the account and keeps what changed.
pub(crate) fn act<T>(
    world: &mut World,
    portal: PortalId,
    act: impl FnOnce(&mut Account, Moment) -> Result<T, ApiError>,
) -> anyhow::Result<T> {
    let now = world.clock.now();
    let account = world.account_mut(portal).context("unknown account")?;
    let done = act(account, now).map_err(|error| anyhow!("{}", error.into_row()))?;
    world.keep(portal)?;
    Ok(done)
}

pub(crate) fn opt_out(
    account: &mut Account,
    email: &str,
    subscription_id: Option<u64>,
    at: Timestamp,
) -> Result<(), ApiError> {
    match subscription_id {
        Some(id) => set(account, email, id, SubscriptionState::Unsubscribed, at),
        None => preferences::opt_out_of_everything(account, email, SOURCE, to_milliseconds(at)),
    }
}

pub(crate) fn opt_in(account: &mut Account, email: &str, subscription_id: u64, at: Timestamp) -> Result<(), ApiError> {
    set(account, email, subscription_id, SubscriptionState::Subscribed, at)
}

fn set(
    account: &mut Account,
    email: &str,
    subscription_id: u64,
    status_state: SubscriptionState,
    at: Timestamp,
) -> Result<(), ApiError> {
    let new = NewStatus {
        subscription_id: SubscriptionId(subscription_id),
        status_state,
        channel: Some("EMAIL".to_owned()),
        legal_basis: None,
        legal_basis_explanation: None,
    };
    preferences::change(account, email, new, SOURCE, to_milliseconds(at)).map(|_| ())
}

pub(crate) fn seed_contact(account: &mut Account, properties: &NewValues, at: Timestamp) -> Result<RecordId, ApiError> {
    seed(account, ObjectType::Contact, properties, at)
}

pub(crate) fn seed(
    account: &mut Account,
    object: ObjectType,
    properties: &NewValues,
    at: Timestamp,
) -> Result<RecordId, ApiError> {
    let written = account.store_mut(object).write(None, properties, at);
    let record = written.map_err(|refusal| refusal.into_error(object))?;
    let id = record.id;
    account.note(Change::Record { object, record });
    Ok(id)
}

pub(crate) fn merge(
    account: &mut Account,
    primary: RecordId,
    other: RecordId,
    at: Timestamp,
) -> Result<RecordId, ApiError> {
    let merged = objects::merge_records(account, primary, other, at);
    merged.map(|survivor| survivor.id).map_err(|error| match error {
        MergeError::Missing => ApiError::not_found("resource not found"),
        MergeError::Same => ApiError::invalid("A record cannot be merged with itself"),
    })
}

pub(crate) fn delete(account: &mut Account, id: RecordId, at: Timestamp) -> Result<(), ApiError> {
    if objects::archive(account, ObjectType::Contact, id, at) {
        Ok(())
    } else {
        Err(ApiError::not_found("resource not found"))
    }
}
