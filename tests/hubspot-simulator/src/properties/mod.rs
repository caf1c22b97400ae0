//! Property definitions of an object type, and the calls on them.

mod definition;
mod routes;
mod standard;
mod values;

pub(crate) use definition::{PropertyDefinition, PropertyGroup, PropertyType};
pub(crate) use routes::{create, create_group, get, get_group, list, list_groups};
pub(crate) use values::{ValueProblem, fold_email, is_email};

use std::collections::BTreeMap;

use crate::objects::ObjectType;

/// Properties with unique values per object type, beyond the ones HubSpot brings. Source: properties guide.
const MAX_UNIQUE_PROPERTIES: usize = 10;

/// The properties and groups of one object type.
pub(crate) struct Schema {
    pub(crate) properties: BTreeMap<String, PropertyDefinition>,
    pub(crate) groups: BTreeMap<String, PropertyGroup>,
}

impl Schema {
    /// What a fresh account knows.
    pub(crate) fn standard(object: ObjectType) -> Self {
        let properties = standard::properties(object);
        let group = standard::group(object);
        Self {
            properties: properties.into_iter().map(|property| (property.name.clone(), property)).collect(),
            groups: BTreeMap::from([(group.name.clone(), group)]),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&PropertyDefinition> {
        self.properties.get(name)
    }

    /// Whether records can be addressed by the property.
    pub(crate) fn is_unique(&self, name: &str) -> bool {
        self.get(name).is_some_and(|property| property.has_unique_value)
    }

    fn custom_unique_count(&self) -> usize {
        let all = self.properties.values();
        all.filter(|property| property.has_unique_value && !property.hubspot_defined).count()
    }
}
