//! The state of one account, as tests look at it and act on it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use jiff::Timestamp;

use crate::{
    account::Account,
    admin::play,
    answer::ApiError,
    clock::Moment,
    ids::{ListId, PortalId, RecordId, SubscriptionId},
    objects::{ObjectType, Record},
    preferences::SubscriptionState,
    properties::fold_email,
    world::SharedWorld,
};

/// A contact as the account holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContactView {
    /// Its record id.
    pub id: RecordId,
    /// Its values, by property; a property without a value is absent.
    pub properties: BTreeMap<String, String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl ContactView {
    /// The value of a property.
    pub fn get(&self, property: &str) -> Option<&str> {
        self.properties.get(property).map(String::as_str)
    }
}

impl From<&Record> for ContactView {
    fn from(record: &Record) -> Self {
        Self {
            id: record.id,
            properties: record.properties.clone(),
            created_at: record.created_at,
            updated_at: record.updated_at,
        }
    }
}

/// The state of one account, and the hands of the people who work in it.
pub struct AccountHandle<'a> {
    pub(crate) world: &'a SharedWorld,
    pub(crate) portal: PortalId,
}

impl AccountHandle<'_> {
    /// All live contacts, in the order of their ids.
    pub fn contacts(&self) -> Vec<ContactView> {
        self.look(|account| account.contacts.all().map(ContactView::from).collect())
    }

    /// The live contact with this primary or additional address.
    pub fn contact_by_email(&self, email: &str) -> Option<ContactView> {
        self.contact_by("email", email)
    }

    /// The live contact with this value of a unique property.
    pub fn contact_by(&self, property: &str, value: &str) -> Option<ContactView> {
        self.look(|account| account.contacts.find_unique(property, value).map(ContactView::from))
    }

    /// What an address wants of a subscription type.
    pub fn status_of(&self, email: &str, subscription_id: u64) -> SubscriptionState {
        let email = fold_email(email);
        self.look(|account| {
            let status = account.preferences.get(&email, SubscriptionId(subscription_id));
            status.map_or(SubscriptionState::NotSpecified, |status| status.state)
        })
    }

    /// When the status last changed; absent when it was never set.
    pub fn status_changed_at(&self, email: &str, subscription_id: u64) -> Option<Timestamp> {
        let email = fold_email(email);
        self.look(|account| {
            let status = account.preferences.get(&email, SubscriptionId(subscription_id));
            status.map(|status| status.changed_at)
        })
    }

    /// Members of a list; empty when there is no such list.
    pub fn list_members(&self, list_id: u64) -> BTreeSet<RecordId> {
        self.look(|account| {
            let list = account.lists.get(ListId(list_id));
            list.map(|list| list.members.keys().copied().collect()).unwrap_or_default()
        })
    }

    /// Somebody opts out, of one subscription type or of everything. Fails for an unknown type or a malformed address.
    pub fn opt_out(&self, email: &str, subscription_id: Option<u64>, at: Option<Timestamp>) -> anyhow::Result<()> {
        self.act(|account, now| play::opt_out(account, email, subscription_id, at.unwrap_or(now.at)))
    }

    /// Somebody subscribes through a HubSpot form. Fails for an unknown type or a malformed address.
    pub fn opt_in(&self, email: &str, subscription_id: u64, at: Option<Timestamp>) -> anyhow::Result<()> {
        self.act(|account, now| play::opt_in(account, email, subscription_id, at.unwrap_or(now.at)))
    }

    /// A contact that exists already. Fails as the API would.
    pub fn seed_contact(&self, properties: &[(&str, &str)]) -> anyhow::Result<RecordId> {
        let properties = properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        self.act(|account, now| play::seed_contact(account, &properties, now.at))
    }

    /// A record of another type that exists already; the type as in a path, such as `companies`. Fails as the API would.
    pub fn seed_record(&self, object_type: &str, properties: &[(&str, &str)]) -> anyhow::Result<RecordId> {
        let object = ObjectType::from_path(object_type).context("there is no such type")?;
        let properties = properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        self.act(|account, now| play::seed(account, object, &properties, now.at))
    }

    /// Merges `other` into `primary` and gives the id of the surviving record, which is new.
    pub fn merge(&self, primary: RecordId, other: RecordId) -> anyhow::Result<RecordId> {
        self.act(|account, now| play::merge(account, primary, other, now.at))
    }

    /// Moves a contact to the recycling bin. Fails when there is none.
    pub fn delete(&self, id: RecordId) -> anyhow::Result<()> {
        self.act(|account, now| play::delete(account, id, now.at))
    }

    fn look<T>(&self, read: impl FnOnce(&Account) -> T) -> T {
        let world = self.world.lock();
        // The handle exists only for accounts that the world has had from its start.
        let index = world.accounts.iter().position(|account| account.settings.portal_id == self.portal);
        read(&world.accounts[index.unwrap_or(0)])
    }

    fn act<T>(&self, act: impl FnOnce(&mut Account, Moment) -> Result<T, ApiError>) -> anyhow::Result<T> {
        let mut world = self.world.lock();
        play::act(&mut world, self.portal, act)
    }
}
