//! CRM records: their store, and the calls on them. Sources: the contacts guide, its public specification, and recorded
//! answers of real accounts.

mod archive;
mod batch;
mod merge;
mod read;
mod render;
mod search;
mod search_index;
mod single;
mod store;
mod write;

pub(crate) use archive::{archive, batch_archive, delete, gdpr_delete};
pub(crate) use batch::{batch_answer, batch_create, batch_update, batch_upsert};
pub(crate) use merge::{MergeError, merge, merge_records};
pub(crate) use read::{batch_read, get, list};
pub(crate) use search::search;
pub(crate) use single::{create, update};
pub(crate) use store::ObjectStore;
pub(crate) use write::{NewValues, Refusal};

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::RecordId;

/// Order in which `lifecyclestage` moves; HubSpot ignores a step back.
pub(crate) const LIFECYCLE_STAGES: [&str; 8] = [
    "subscriber",
    "lead",
    "marketingqualifiedlead",
    "salesqualifiedlead",
    "opportunity",
    "customer",
    "evangelist",
    "other",
];

/// The types of records that the simulator keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ObjectType {
    Contact,
    Task,
    Company,
    Deal,
    Ticket,
    /// The one custom type that every account has.
    Pet,
}

impl ObjectType {
    pub(crate) const ALL: [Self; 6] = [Self::Contact, Self::Task, Self::Company, Self::Deal, Self::Ticket, Self::Pet];

    /// Reads the segment of a path: the plural name, the singular one, or the type id.
    pub(crate) fn from_path(segment: &str) -> Option<Self> {
        match segment {
            "contacts" | "contact" | "0-1" => Some(Self::Contact),
            "tasks" | "task" | "0-27" => Some(Self::Task),
            "companies" | "company" | "0-2" => Some(Self::Company),
            "deals" | "deal" | "0-3" => Some(Self::Deal),
            "tickets" | "ticket" | "0-5" => Some(Self::Ticket),
            "pets" | "2-7001" => Some(Self::Pet),
            _ => None,
        }
    }

    /// The name in endpoint names.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Contact => "contacts",
            Self::Task => "tasks",
            Self::Company => "companies",
            Self::Deal => "deals",
            Self::Ticket => "tickets",
            Self::Pet => "pets",
        }
    }

    /// The name in HubSpot's sentences.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Contact => "Contact",
            Self::Task => "Task",
            Self::Company => "Company",
            Self::Deal => "Deal",
            Self::Ticket => "Ticket",
            Self::Pet => "Pet",
        }
    }
}

/// One stored record. Its own columns (id, instants) are also readable as properties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: RecordId,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    #[serde(default)]
    pub(crate) archived_at: Option<Timestamp>,
}

impl Record {
    pub(crate) fn get(&self, property: &str) -> Option<&str> {
        self.properties.get(property).map(String::as_str)
    }

    pub(crate) fn email(&self) -> Option<&str> {
        self.get("email")
    }

    /// The primary address and the additional ones: all of them are taken.
    pub(crate) fn emails(&self) -> impl Iterator<Item = &str> {
        self.email().into_iter().chain(self.additional_emails())
    }

    pub(crate) fn additional_emails(&self) -> impl Iterator<Item = &str> {
        let all = self.get("hs_additional_emails").unwrap_or_default();
        all.split(';').filter(|email| !email.is_empty())
    }

    /// Stores the value, or removes the property when it is empty.
    pub(crate) fn set(&mut self, property: &str, value: impl Into<String>) {
        let value = value.into();
        if value.is_empty() {
            self.properties.remove(property);
        } else {
            self.properties.insert(property.to_owned(), value);
        }
    }
}
