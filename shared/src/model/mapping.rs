//! What a product means in a portal.

mod source;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::subscription::DesiredState;

pub use source::{Origin, PropertySource};

/// The targets of one version of a mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Targets {
    /// `HubSpot` contact property → where its value comes from.
    #[serde(default)]
    pub contact_properties: BTreeMap<String, PropertySource>,
    /// The subscription type whose status follows the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription_type: Option<i64>,
    /// The business unit (brand in `HubSpot`'s words) that the subscription type belongs to; 0 or none for the account itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_unit: Option<i64>,
    /// Segments (static lists) that the contact joins and leaves.
    #[serde(default)]
    pub segments: Segments,
}

/// Segment changes by desired state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segments {
    /// When a contact subscribes.
    #[serde(default)]
    pub subscribed: SegmentChange,
    /// When a contact leaves.
    #[serde(default)]
    pub unsubscribed: SegmentChange,
}

/// Segments to join and to leave, by list id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentChange {
    /// Lists to join.
    #[serde(default)]
    pub add: Vec<String>,
    /// Lists to leave.
    #[serde(default)]
    pub remove: Vec<String>,
}

/// What is wrong with targets, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct TargetsFault {
    /// The field, as a path.
    pub field: String,
    /// What is wrong, and what to do.
    pub problem: &'static str,
}

/// `HubSpot` properties that hubferry writes itself.
const OWN_PROPERTIES: [&str; 2] = ["email", "hs_object_id"];

impl Targets {
    /// The segment changes that a decision asks for.
    pub fn segment_change(&self, state: DesiredState) -> &SegmentChange {
        match state {
            DesiredState::Subscribed => &self.segments.subscribed,
            DesiredState::Unsubscribed => &self.segments.unsubscribed,
        }
    }

    /// Refuses targets that could not work in any portal: property names that `HubSpot` does not allow or that hubferry
    /// writes itself, values and zones that do not go with their type, ids that are not positive numbers, a segment both joined
    /// and left.
    pub fn check(&self) -> Result<(), TargetsFault> {
        let fault = |field: String, problem| Err(TargetsFault { field, problem });
        for (name, source) in &self.contact_properties {
            let field = format!("contact_properties.{name}");
            if OWN_PROPERTIES.contains(&name.as_str()) {
                return fault(field, "is written by hubferry itself; remove it");
            }
            if !is_property_name(name) {
                return fault(field, "is no property name: lower-case letters, digits and underscores, a letter first");
            }
            if let Err(problem) = source.check() {
                return fault(field, problem);
            }
        }
        if self.subscription_type.is_some_and(|id| id <= 0) {
            return fault("subscription_type".into(), "must be a positive number");
        }
        if self.business_unit.is_some_and(|id| id < 0) {
            return fault("business_unit".into(), "must be 0 or a positive number");
        }
        for (state, change) in
            [("subscribed", &self.segments.subscribed), ("unsubscribed", &self.segments.unsubscribed)]
        {
            if change.add.iter().chain(&change.remove).any(|list| list.parse::<u64>().is_err()) {
                return fault(
                    format!("segments.{state}"),
                    "holds something that is no list id: give the number as a string",
                );
            }
            if change.add.iter().any(|list| change.remove.contains(list)) {
                return fault(format!("segments.{state}"), "both joins and leaves a list");
            }
        }
        Ok(())
    }
}

fn is_property_name(name: &str) -> bool {
    name.len() <= 100
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(json: &str) -> Targets {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn ordinary_targets_are_accepted() {
        let targets = targets(
            r#"{"contact_properties": {"firstname": "first_name", "lead_source": {"value": "web"}}, "subscription_type": 1001,
                "segments": {"subscribed": {"add": ["101"]}, "unsubscribed": {"remove": ["101"]}}}"#,
        );
        assert_eq!(targets.check(), Ok(()));
        let web = PropertySource { origin: Origin::Constant("web".into()), kind: None, zone: None };
        assert_eq!(targets.contact_properties["lead_source"], web);
        assert_eq!(targets.segment_change(DesiredState::Unsubscribed).remove, ["101"]);
    }

    #[test]
    fn a_misspelt_field_is_refused() {
        assert!(serde_json::from_str::<Targets>(r#"{"subscriptiontype": 1}"#).is_err());
    }

    #[test]
    fn faults_name_their_field() {
        let field = |json: &str| targets(json).check().unwrap_err().field;
        assert_eq!(field(r#"{"contact_properties": {"email": "email"}}"#), "contact_properties.email");
        assert_eq!(field(r#"{"contact_properties": {"First Name": "a"}}"#), "contact_properties.First Name");
        assert_eq!(
            field(r#"{"contact_properties": {"renewal": {"value": "soon", "type": "date"}}}"#),
            "contact_properties.renewal"
        );
        assert_eq!(field(r#"{"subscription_type": 0}"#), "subscription_type");
        assert_eq!(field(r#"{"segments": {"subscribed": {"add": ["abc"]}}}"#), "segments.subscribed");
        assert_eq!(
            field(r#"{"segments": {"unsubscribed": {"add": ["1"], "remove": ["1"]}}}"#),
            "segments.unsubscribed"
        );
    }
}
