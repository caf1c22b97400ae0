//! A contact as it is written and as it comes back. `Debug` shows names of properties and no values.

use std::collections::BTreeMap;
use std::fmt;

/// The property that is the main identity of a contact.
pub(super) const EMAIL: &str = "email";
/// Further addresses of a contact, joined by `;`. A contact is found by each of them.
pub(super) const ADDITIONAL_EMAILS: &str = "hs_additional_emails";

/// One contact to create or update, found by a unique property.
#[derive(Clone, PartialEq, Eq)]
pub struct ContactUpsert {
    /// Unique in the batch; HubSpot then answers for each row on its own instead of refusing all for one.
    pub trace_id: String,
    /// The value of the id property.
    pub id: String,
    /// Internal name → value. An empty value clears the property.
    pub properties: BTreeMap<String, String>,
}

/// One contact to update, by its record id.
#[derive(Clone, PartialEq, Eq)]
pub struct ContactUpdate {
    /// Unique in the batch.
    pub trace_id: String,
    /// HubSpot's record id.
    pub record_id: String,
    /// Internal name → value. An empty value clears the property.
    pub properties: BTreeMap<String, String>,
}

/// A contact as the upsert left it.
#[derive(Clone, PartialEq, Eq)]
pub struct UpsertedContact {
    /// HubSpot's record id.
    pub record_id: String,
    /// The properties that the answer holds, among them those that were written.
    pub properties: BTreeMap<String, Option<String>>,
    /// Whether the contact was created. Absent when HubSpot does not say.
    pub new: Option<bool>,
}

/// A contact as HubSpot holds it.
#[derive(Clone, PartialEq, Eq)]
pub struct ContactRecord {
    /// HubSpot's record id. Another one than asked for when that record was merged into this one.
    pub record_id: String,
    /// The properties that were asked for, as far as the answer holds them.
    pub properties: BTreeMap<String, Option<String>>,
    /// Whether it lies in the recycling bin.
    pub archived: bool,
}

impl ContactRecord {
    /// The value of a property; an empty one is none.
    pub fn value(&self, property: &str) -> Option<&str> {
        self.properties.get(property).and_then(Option::as_deref).filter(|value| !value.is_empty())
    }

    /// Every address it is found by, in lower case, as far as the answer holds them.
    pub fn addresses(&self) -> Vec<String> {
        let additional = self.value(ADDITIONAL_EMAILS).unwrap_or_default().split(';');
        let all = self.value(EMAIL).into_iter().chain(additional).map(|email| email.trim().to_lowercase());
        all.filter(|email| !email.is_empty()).collect()
    }
}

impl fmt::Debug for ContactUpsert {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("ContactUpsert");
        debug.field("trace_id", &self.trace_id).field("properties", &self.properties.keys()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ContactUpdate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("ContactUpdate");
        debug.field("trace_id", &self.trace_id).field("record_id", &self.record_id);
        debug.field("properties", &self.properties.keys()).finish()
    }
}

impl fmt::Debug for UpsertedContact {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("UpsertedContact");
        debug.field("record_id", &self.record_id).field("properties", &self.properties.keys());
        debug.field("new", &self.new).finish()
    }
}

impl fmt::Debug for ContactRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("ContactRecord");
        debug.field("record_id", &self.record_id).field("properties", &self.properties.keys());
        debug.field("archived", &self.archived).finish()
    }
}
