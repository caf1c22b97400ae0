//! Rules: which changes in HubSpot call for work, and for which.
//!
//! A portal has one set of rules at a time. A set is read and checked as a whole; what it says is decided here, without
//! looking at anything but the change.

mod check;
mod dedupe;
mod effect;
mod matching;
mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::crm_change::CrmChange;

pub use check::RulesFault;
pub use effect::{EffectKind, NewEffect, RuleFlaw, effects};
pub use template::RenderFault;

/// The rules of one portal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSet {
    /// In the order of the file; each is asked about every change.
    pub rules: Vec<Rule>,
}

/// When one thing changes, one effect follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, unique in the set: part of the identity of its effects.
    pub name: String,
    /// The changes that it is about.
    pub when: Condition,
    /// What follows.
    pub effect: EffectKind,
    /// For the effect: JSON whose texts are templates.
    #[serde(default)]
    pub payload: serde_json::Map<String, Value>,
    /// Template of what makes two effects of this rule the same one; object, property, value and week when it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
    /// IANA name of the zone whose weeks and days count; UTC when it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

/// The changes that a rule is about. What is missing is not asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// Object type by name, such as `deal`, or HubSpot's type id of objects that have none, such as `2-1234`.
    pub object: String,
    /// The property that changes.
    pub property: String,
    /// What it was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Wanted>,
    /// What it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Wanted>,
    /// The record's property `pipeline`, as it is known here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Wanted>,
}

/// A value that a rule waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a text, a list of texts, or {\"is\": \"any\", \"changed\", \"set\" or \"empty\"}"
)]
pub enum Wanted {
    /// Exactly this one.
    Exactly(String),
    /// One of these.
    OneOf(Vec<String>),
    /// A value of a kind.
    Kind(WantedKind),
}

/// A kind of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedKind {
    /// Which.
    pub is: ValueKind,
}

/// Which values are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueKind {
    /// Whatever it is.
    Any,
    /// Another one than was known before.
    Changed,
    /// Not the empty text.
    Set,
    /// The empty text, or nothing that is known.
    Empty,
}

/// A property of a record that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Portal.
    pub portal_id: i64,
    /// Object type, as the notification's type names it.
    pub object_type: String,
    /// Record.
    pub object_id: i64,
    /// Property.
    pub property: String,
    /// Value that was known before, if any was.
    pub from: Option<String>,
    /// Value now; the empty text when it was cleared.
    pub to: String,
    /// Key of the notification that told of it, in hexadecimal digits.
    pub notification: String,
    /// When it changed.
    pub occurred_at: Timestamp,
    /// What is known of the record, of the properties that rules [read](RuleSet::reads).
    pub properties: BTreeMap<String, String>,
}

/// The property of a record that names its pipeline.
pub(super) const PIPELINE: &str = "pipeline";

impl Change {
    /// What the projection found, and what is known of its record.
    #[must_use]
    pub fn of(change: &CrmChange, properties: BTreeMap<String, String>) -> Self {
        let notification = change.notification_key.iter().fold(String::new(), |mut digits, byte| {
            let _ = write!(digits, "{byte:02x}");
            digits
        });
        Self {
            portal_id: change.portal_id.0,
            object_type: change.object_type.clone(),
            object_id: change.object_id.0,
            property: change.property.clone(),
            from: change.before.clone(),
            to: change.after.clone().unwrap_or_default(),
            notification,
            occurred_at: change.occurred_at,
            properties,
        }
    }
}

impl RuleSet {
    /// What its rules wait for, as `object:property`.
    #[must_use]
    pub fn watched(&self) -> BTreeSet<String> {
        self.rules.iter().map(|rule| format!("{}:{}", rule.when.object, rule.when.property)).collect()
    }

    /// The other properties of a record that its rules ask for.
    #[must_use]
    pub fn reads(&self) -> BTreeSet<String> {
        let mut read: BTreeSet<String> = self.rules.iter().flat_map(template::properties_read).collect();
        if self.rules.iter().any(|rule| rule.when.pipeline.is_some()) {
            read.insert(PIPELINE.to_owned());
        }
        read
    }
}

impl Rule {
    /// The zone whose weeks count. A checked rule has a real one.
    fn zone(&self) -> TimeZone {
        self.time_zone.as_deref().and_then(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC)
    }
}

#[cfg(test)]
mod tests;
