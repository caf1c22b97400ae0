//! The calls on property definitions. Source: the properties guide.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{MAX_UNIQUE_PROPERTIES, PropertyDefinition, PropertyGroup};
use crate::{
    account::Account,
    answer::{Answer, ApiError, Handled},
    call::Call,
    change::Change,
};

/// `GET …/properties/{type}`.
pub(crate) fn list(account: &mut Account, call: &Call) -> Handled {
    let schema = &account.store(call.object).schema;
    let all: Vec<&PropertyDefinition> = schema.properties.values().collect();
    Ok(Answer::ok(json!({ "results": all })))
}

/// `GET …/properties/{type}/{name}`.
pub(crate) fn get(account: &mut Account, call: &Call) -> Handled {
    let name = call.param(0);
    match account.store(call.object).schema.get(name) {
        Some(property) => Ok(Answer::ok(json!(property))),
        None => Err(ApiError::not_found(format!("Property {name} does not exist"))),
    }
}

/// `POST …/properties/{type}`.
pub(crate) fn create(account: &mut Account, call: &Call) -> Handled {
    let mut definition: PropertyDefinition = call.json()?;
    definition.hubspot_defined = false;
    definition.read_only = false;
    let schema = &account.store(call.object).schema;
    check_new(schema, &definition)?;
    let answer = Answer::json(201, json!(definition));
    account.record(Change::Property { object: call.object, definition });
    Ok(answer)
}

fn check_new(schema: &super::Schema, definition: &PropertyDefinition) -> Result<(), ApiError> {
    let name = &definition.name;
    if schema.get(name).is_some() {
        let message = format!("A property named '{name}' already exists.");
        return Err(ApiError::new(409, "OBJECT_ALREADY_EXISTS", message)
            .with("subCategory", "Properties.PROPERTY_WITH_NAME_EXISTS"));
    }
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(is_allowed) {
        return Err(ApiError::invalid(
            "Property names start with a letter and hold lower-case letters, digits and underscores only",
        ));
    }
    if !schema.groups.contains_key(&definition.group_name) {
        let group = &definition.group_name;
        return Err(ApiError::invalid(format!("Property group {group} does not exist"))
            .with("subCategory", "Properties.GROUP_DOES_NOT_EXIST"));
    }
    if definition.has_unique_value && schema.custom_unique_count() >= MAX_UNIQUE_PROPERTIES {
        return Err(ApiError::invalid(format!(
            "At most {MAX_UNIQUE_PROPERTIES} properties with unique values are allowed"
        )));
    }
    Ok(())
}

/// `GET …/properties/{type}/groups`.
pub(crate) fn list_groups(account: &mut Account, call: &Call) -> Handled {
    let schema = &account.store(call.object).schema;
    let all: Vec<&PropertyGroup> = schema.groups.values().collect();
    Ok(Answer::ok(json!({ "results": all })))
}

/// `GET …/properties/{type}/groups/{name}`.
pub(crate) fn get_group(account: &mut Account, call: &Call) -> Handled {
    let name = call.param(0);
    match account.store(call.object).schema.groups.get(name) {
        Some(group) => Ok(Answer::ok(json!(group))),
        None => Err(ApiError::not_found(format!("Property group {name} does not exist"))),
    }
}

/// `POST …/properties/{type}/groups`.
pub(crate) fn create_group(account: &mut Account, call: &Call) -> Handled {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct NewGroup {
        name: String,
        label: Option<String>,
        #[serde(default)]
        display_order: i64,
    }
    let new: NewGroup = call.json()?;
    if account.store(call.object).schema.groups.contains_key(&new.name) {
        let message = format!("A property group named '{}' already exists.", new.name);
        return Err(ApiError::new(409, "OBJECT_ALREADY_EXISTS", message)
            .with("subCategory", "Properties.GROUP_WITH_NAME_EXISTS"));
    }
    let label = new.label.unwrap_or_else(|| new.name.clone());
    let group = PropertyGroup { name: new.name, label, display_order: new.display_order };
    let body: Value = json!(group);
    account.record(Change::Group { object: call.object, group });
    Ok(Answer::json(201, body))
}
