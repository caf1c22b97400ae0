//! One HubSpot account: its settings, limits and everything it stores.

use rand::{SeedableRng, rngs::StdRng};

use crate::{
    change::Change,
    config::AccountConfig,
    limits::Limits,
    lists::Lists,
    objects::{ObjectStore, ObjectType},
    preferences::Preferences,
};

const OTHERS: [ObjectType; 4] = [ObjectType::Company, ObjectType::Deal, ObjectType::Ticket, ObjectType::Pet];

/// An account and the changes that have not reached the journal yet.
pub(crate) struct Account {
    pub(crate) settings: AccountConfig,
    pub(crate) limits: Limits,
    pub(crate) contacts: ObjectStore,
    pub(crate) tasks: ObjectStore,
    /// Of the types that nothing but their calls is about.
    others: [ObjectStore; OTHERS.len()],
    pub(crate) preferences: Preferences,
    pub(crate) lists: Lists,
    pub(crate) dice: StdRng,
    unwritten: Vec<Change>,
}

impl Account {
    pub(crate) fn new(settings: AccountConfig, seed: u64) -> Self {
        Self {
            limits: Limits::new(&settings),
            contacts: ObjectStore::new(ObjectType::Contact, settings.search_lag_ms),
            tasks: ObjectStore::new(ObjectType::Task, settings.search_lag_ms),
            others: OTHERS.map(|object| ObjectStore::new(object, settings.search_lag_ms)),
            preferences: Preferences::default(),
            lists: Lists::new(&settings.lists),
            dice: StdRng::seed_from_u64(seed ^ settings.portal_id.0),
            unwritten: Vec::new(),
            settings,
        }
    }

    pub(crate) fn store(&self, object: ObjectType) -> &ObjectStore {
        match object {
            ObjectType::Contact => &self.contacts,
            ObjectType::Task => &self.tasks,
            ObjectType::Company => &self.others[0],
            ObjectType::Deal => &self.others[1],
            ObjectType::Ticket => &self.others[2],
            ObjectType::Pet => &self.others[3],
        }
    }

    pub(crate) fn store_mut(&mut self, object: ObjectType) -> &mut ObjectStore {
        match object {
            ObjectType::Contact => &mut self.contacts,
            ObjectType::Task => &mut self.tasks,
            ObjectType::Company => &mut self.others[0],
            ObjectType::Deal => &mut self.others[1],
            ObjectType::Ticket => &mut self.others[2],
            ObjectType::Pet => &mut self.others[3],
        }
    }

    /// Applies the change and keeps it for the journal.
    pub(crate) fn record(&mut self, change: Change) {
        self.unwritten.push(change.clone());
        self.apply(change);
    }

    /// Keeps a change for the journal that the store has applied already.
    pub(crate) fn note(&mut self, change: Change) {
        self.unwritten.push(change);
    }

    pub(crate) fn take_unwritten(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.unwritten)
    }

    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Record { object, record } => self.store_mut(object).put(record),
            Change::Gone { object, id, blocked_email } => self.store_mut(object).forget(id, blocked_email),
            Change::Alias { object, from, to } => self.store_mut(object).alias(from, to),
            Change::Property { object, definition } => {
                let properties = &mut self.store_mut(object).schema.properties;
                properties.insert(definition.name.clone(), definition);
            }
            Change::Group { object, group } => {
                self.store_mut(object).schema.groups.insert(group.name.clone(), group);
            }
            Change::Status { email, subscription_id, status } => {
                self.preferences.set(email, subscription_id, status);
            }
            Change::Everything { email, opted_out_at } => self.preferences.set_everything(email, opted_out_at),
            Change::List { list } => self.lists.put(list),
            Change::Members { list_id, added, removed, at } => {
                self.lists.change_members(list_id, &added, &removed, at);
            }
        }
    }

    /// The whole stored state as changes, for a journal that is written afresh.
    pub(crate) fn as_changes(&self) -> Vec<Change> {
        let mut all = Vec::new();
        for object in ObjectType::ALL {
            all.extend(self.store(object).as_changes());
        }
        all.extend(self.preferences.as_changes());
        all.extend(self.lists.as_changes());
        all
    }
}
