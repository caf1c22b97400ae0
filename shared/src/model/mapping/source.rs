//! Where the value of a property comes from, and what HubSpot takes it for.
//!
//! Written as `"city"`, as `{"value": "web"}`, or with a type as `{"property": "birthday", "type": "date", "zone": "Europe/Amsterdam"}`.

use std::fmt;
use std::sync::LazyLock;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::property_value::{PropertyType, ValueError, encode};

/// The zones that are built into the program: the same on every machine, and read from no file.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Where the value of a `HubSpot` property comes from, and its type if the mapping names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertySource {
    /// Where the value comes from.
    pub origin: Origin,
    /// `HubSpot`'s type of the property. Without it the value is sent as it is.
    pub kind: Option<PropertyType>,
    /// Where the people live who enter dates; only of a date.
    pub zone: Option<TimeZone>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A property of the contact, by the application's name.
    Property(String),
    /// Always this text.
    Constant(String),
}

impl PropertySource {
    /// The text as `HubSpot` accepts it.
    pub fn encode(&self, text: &str) -> Result<String, ValueError> {
        encode(self.kind, text, self.zone.as_ref())
    }

    /// What can't work in any portal.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.zone.is_some() && self.kind != Some(PropertyType::Date) {
            return Err("has a zone, which only a date needs: give it the type date or remove the zone");
        }
        match &self.origin {
            Origin::Property(name) if name.is_empty() => Err("names no property of the contact"),
            Origin::Constant(text) if self.encode(text).is_err() => Err("has a value that its type does not take"),
            Origin::Property(_) | Origin::Constant(_) => Ok(()),
        }
    }
}

/// The object of a source as people write it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    property: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<PropertyType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
}

impl Written {
    fn read<E: Error>(self) -> Result<PropertySource, E> {
        let origin = match (self.property, self.value) {
            (Some(property), None) => Origin::Property(property),
            (None, Some(value)) => Origin::Constant(value),
            _ => return Err(E::custom("needs either `property` or `value`")),
        };
        let zone = match self.zone {
            None => None,
            Some(name) => Some(
                ZONES.get(&name).map_err(|_| E::custom("zone is no name of a time zone, such as Europe/Amsterdam"))?,
            ),
        };
        Ok(PropertySource { origin, kind: self.kind, zone })
    }
}

impl<'de> Deserialize<'de> for PropertySource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Source)
    }
}

struct Source;

impl<'de> Visitor<'de> for Source {
    type Value = PropertySource;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a property of the contact, or an object with `property` or `value`")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<PropertySource, E> {
        Ok(PropertySource { origin: Origin::Property(name.to_owned()), kind: None, zone: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PropertySource, A::Error> {
        Written::deserialize(MapAccessDeserializer::new(map))?.read()
    }
}

impl Serialize for PropertySource {
    /// The shortest form: mappings that were stored before types were known stay the same text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let zone = self.zone.as_ref().and_then(TimeZone::iana_name).map(str::to_owned);
        let (property, value) = match &self.origin {
            Origin::Property(name) if self.kind.is_none() && zone.is_none() => return serializer.serialize_str(name),
            Origin::Property(name) => (Some(name.clone()), None),
            Origin::Constant(text) => (None, Some(text.clone())),
        };
        Written { property, value, kind: self.kind, zone }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(json: Value) -> Result<PropertySource, String> {
        serde_json::from_value(json).map_err(|error| error.to_string())
    }

    #[test]
    fn every_form_is_written_as_it_was_read() {
        for form in [
            json!("city"),
            json!({"value": "web"}),
            json!({"value": "2026-01-01", "type": "date"}),
            json!({"property": "birthday", "type": "date", "zone": "Europe/Amsterdam"}),
            json!({"property": "seats", "type": "number"}),
        ] {
            let source = read(form.clone()).unwrap();
            assert_eq!(source.check(), Ok(()), "{form}");
            assert_eq!(serde_json::to_value(&source).unwrap(), form);
        }
        let longer = read(json!({"property": "city"})).unwrap();
        assert_eq!(serde_json::to_value(&longer).unwrap(), json!("city"), "a stored mapping keeps its text");
    }

    #[test]
    fn what_is_no_source_is_refused_with_a_reason() {
        for (form, reason) in [
            (json!({"property": "a", "typ": "date"}), "unknown field `typ`"),
            (json!({"property": "a", "value": "b"}), "either `property` or `value`"),
            (json!({"type": "date"}), "either `property` or `value`"),
            (json!({"property": "a", "type": "json"}), "unknown variant `json`"),
            (json!({"property": "a", "type": "date", "zone": "Mars/Base"}), "no name of a time zone"),
            (json!(1), "the name of a property of the contact"),
        ] {
            assert!(read(form.clone()).unwrap_err().contains(reason), "{form}: {:?}", read(form.clone()));
        }
    }

    #[test]
    fn what_cannot_work_is_told_when_the_mapping_is_checked() {
        for form in [
            json!({"value": "soon", "type": "date"}),
            json!({"property": "a", "type": "datetime", "zone": "Europe/Amsterdam"}),
            json!({"property": "a", "zone": "Europe/Amsterdam"}),
            json!(""),
        ] {
            assert!(read(form.clone()).unwrap().check().is_err(), "{form}");
        }
    }
}
