//! The shape of a property definition. Source: the properties guide and its public specification.

use serde::{Deserialize, Serialize};

/// How HubSpot checks and stores the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PropertyType {
    Bool,
    Date,
    Datetime,
    Enumeration,
    Number,
    PhoneNumber,
    String,
}

/// One property of an object type.
#[expect(clippy::struct_excessive_bools, reason = "the fields are those of HubSpot's own object")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PropertyDefinition {
    pub(crate) name: String,
    pub(crate) label: String,
    #[serde(rename = "type")]
    pub(crate) kind: PropertyType,
    pub(crate) field_type: String,
    pub(crate) group_name: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) options: Vec<PropertyOption>,
    #[serde(default)]
    pub(crate) has_unique_value: bool,
    #[serde(default)]
    pub(crate) hidden: bool,
    #[serde(default)]
    pub(crate) form_field: bool,
    #[serde(default)]
    pub(crate) hubspot_defined: bool,
    #[serde(default)]
    pub(crate) read_only: bool,
}

/// One choice of an enumeration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PropertyOption {
    pub(crate) label: String,
    pub(crate) value: String,
    #[serde(default)]
    pub(crate) hidden: bool,
    #[serde(default)]
    pub(crate) display_order: i64,
}

/// A group that properties are shown under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PropertyGroup {
    pub(crate) name: String,
    pub(crate) label: String,
    #[serde(default)]
    pub(crate) display_order: i64,
}

impl PropertyDefinition {
    /// A property that HubSpot brings itself.
    pub(super) fn standard(name: &str, label: &str, kind: PropertyType, field_type: &str, group: &str) -> Self {
        Self {
            name: name.to_owned(),
            label: label.to_owned(),
            kind,
            field_type: field_type.to_owned(),
            group_name: group.to_owned(),
            description: String::new(),
            options: Vec::new(),
            has_unique_value: false,
            hidden: false,
            form_field: true,
            hubspot_defined: true,
            read_only: false,
        }
    }

    pub(super) fn unique(mut self) -> Self {
        self.has_unique_value = true;
        self
    }

    pub(super) fn read_only(mut self) -> Self {
        self.read_only = true;
        self.form_field = false;
        self
    }

    pub(super) fn options(mut self, values: &[&str]) -> Self {
        self.options = (0..)
            .zip(values)
            .map(|(display_order, value)| PropertyOption {
                label: (*value).to_owned(),
                value: (*value).to_owned(),
                hidden: false,
                display_order,
            })
            .collect();
        self
    }
}
