//! Properties of contacts: what a portal needs before the first contact is written, and what a mapping is checked against.

use reqwest::Method;
use serde_json::{Value, json};

use super::decode::{self, Object};
use super::request::{Request, encode_segment};
use super::transport::Success;
use super::{Account, Call, Family};
use crate::model::outcome::{Intent, Operation, Refusal};
use crate::model::property_value::PropertyType;

/// A property group to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPropertyGroup {
    /// Internal name, in lower case.
    pub name: String,
    /// What people see.
    pub label: String,
}

/// A text property to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProperty {
    /// Internal name, in lower case.
    pub name: String,
    /// What people see.
    pub label: String,
    /// Internal name of its group.
    pub group: String,
    /// What people read about it.
    pub description: String,
    /// Whether every value is unique, so that contacts are found by it. Only possible at creation, and for at most ten
    /// properties of an object.
    pub unique: bool,
}

/// A property as HubSpot holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertyDefinition {
    /// Internal name.
    pub name: String,
    /// Internal name of its group.
    pub group: Option<String>,
    /// The type, when it is a known one.
    pub kind: Option<PropertyType>,
    /// How people edit it, such as `text`.
    pub field_type: Option<String>,
    /// Whether every value is unique.
    pub unique: bool,
    /// Whether it is deleted and can be restored by creating it again.
    pub archived: bool,
    /// The values of an enumeration.
    pub options: Vec<String>,
}

impl Account<'_> {
    /// Creates a property group of contacts. A group of that name is a conflict.
    pub async fn create_property_group(&self, group: &NewPropertyGroup) -> Call<()> {
        let body = json!({"name": group.name, "label": group.label, "displayOrder": -1});
        let request = self.property_request(Method::POST, "/groups", Some(body));
        self.call(request, |success| decode::object(success).and_then(refuse_error).map(|_| ())).await
    }

    /// Creates a text property of contacts. A property of that name is a conflict: read it and compare.
    pub async fn create_property(&self, property: &NewProperty) -> Call<PropertyDefinition> {
        let body = json!({
            "name": property.name, "label": property.label, "groupName": property.group,
            "description": property.description, "type": "string", "fieldType": "text",
            "hasUniqueValue": property.unique,
        });
        let request = self.property_request(Method::POST, "", Some(body));
        self.call(request, definition).await
    }

    /// Reads a property of contacts. One that does not exist is refused as gone.
    pub async fn read_property(&self, name: &str) -> Call<PropertyDefinition> {
        let request = self.property_request(Method::GET, &format!("/{}", encode_segment(name)), None);
        self.call(request, definition).await
    }

    /// Reads every property of contacts in one call; deleted ones are not among them.
    pub async fn list_properties(&self) -> Call<Vec<PropertyDefinition>> {
        let request = self.property_request(Method::GET, "", None);
        self.call(request, |success| {
            let status = success.status;
            let object = decode::object(success).and_then(refuse_error)?;
            let all = object.get("results").and_then(Value::as_array);
            let all = all.ok_or_else(|| Refusal::unreadable(status, "unexpected_json"))?;
            Ok(all.iter().filter_map(Value::as_object).filter_map(read_definition).collect())
        })
        .await
    }

    fn property_request(&self, method: Method, tail: &str, body: Option<Value>) -> Request {
        Request {
            method,
            path: format!("{}/contacts{tail}", self.versions.path(Family::Properties)),
            query: Vec::new(),
            body,
            intent: Intent { operation: Operation::ManageProperties, rows: 0 },
        }
    }
}

fn definition(success: Success) -> Result<PropertyDefinition, Refusal> {
    let status = success.status;
    let object = decode::object(success).and_then(refuse_error)?;
    read_definition(&object).ok_or_else(|| Refusal::unreadable(status, "unexpected_json"))
}

fn read_definition(object: &Object) -> Option<PropertyDefinition> {
    let owned = |key| decode::text(object, key).map(str::to_owned);
    let flag = |key: &str| object.get(key).and_then(Value::as_bool).unwrap_or(false);
    let options = decode::objects(object.get("options").cloned());
    Some(PropertyDefinition {
        name: owned("name")?,
        group: owned("groupName"),
        kind: decode::text(object, "type").and_then(PropertyType::parse),
        field_type: owned("fieldType"),
        unique: flag("hasUniqueValue"),
        archived: flag("archived"),
        options: options.iter().filter_map(|option| decode::id(option.get("value"))).collect(),
    })
}

/// An error object that came with a success's status.
fn refuse_error(object: Object) -> Result<Object, Refusal> {
    if decode::is_error(&object) {
        return Err(Refusal::of_row(
            &crate::model::outcome::ErrorBody::from_object(&object),
            Operation::ManageProperties,
        ));
    }
    Ok(object)
}
