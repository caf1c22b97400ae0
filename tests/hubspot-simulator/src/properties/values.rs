//! How HubSpot checks a value against its property, and the form in which it keeps it.

use jiff::{
    Timestamp,
    civil::{Date, Time},
    tz::TimeZone,
};
use serde::Serialize;

use super::{PropertyDefinition, PropertyType, Schema};
use crate::clock::iso;

/// Longest value of a property. HubSpot says characters; the simulator counts UTF-16 units, the strictest reading
/// that a Java service could mean.
const MAX_VALUE_UNITS: usize = 65_536;

/// One entry of the JSON list that HubSpot embeds in the text of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ValueProblem {
    is_valid: bool,
    message: String,
    error: &'static str,
    name: String,
}

impl ValueProblem {
    pub(crate) fn new(error: &'static str, name: &str, message: impl Into<String>) -> Self {
        Self { is_valid: false, message: message.into(), error, name: name.to_owned() }
    }
}

impl Schema {
    /// The stored form of `value`; an empty one clears the property and is always valid for a writable property.
    pub(crate) fn encode(&self, name: &str, value: &str) -> Result<String, ValueProblem> {
        let Some(property) = self.get(name) else {
            let message = format!("Property \"{name}\" does not exist");
            return Err(ValueProblem::new("PROPERTY_DOESNT_EXIST", name, message));
        };
        if property.read_only {
            let message = format!("\"{name}\" is a read only property; its value cannot be set.");
            return Err(ValueProblem::new("READ_ONLY_VALUE", name, message));
        }
        if value.is_empty() {
            return Ok(String::new());
        }
        property.encode(value)
    }
}

impl PropertyDefinition {
    fn encode(&self, value: &str) -> Result<String, ValueProblem> {
        if value.encode_utf16().count() > MAX_VALUE_UNITS {
            return Err(
                self.problem("VALUE_TOO_LONG", format!("Property values must be at most {MAX_VALUE_UNITS} characters"))
            );
        }
        match self.name.as_str() {
            "email" => return self.encode_email(value),
            "hs_additional_emails" => {
                let all: Result<Vec<String>, _> = value.split(';').map(|part| self.encode_email(part)).collect();
                return all.map(|all| all.join(";"));
            }
            _ => {}
        }
        if !matches!(self.kind, PropertyType::String | PropertyType::PhoneNumber) && has_ragged_edges(value) {
            let message = format!("\"{value}\" includes leading or trailing whitespace.");
            return Err(self.problem("LEADING_TRAILING_WHITESPACE", message));
        }
        match self.kind {
            PropertyType::String | PropertyType::PhoneNumber => Ok(value.to_owned()),
            PropertyType::Number => self.encode_number(value),
            PropertyType::Bool => self.encode_bool(value),
            PropertyType::Enumeration => self.encode_options(value),
            PropertyType::Date => self.encode_date(value),
            PropertyType::Datetime => self.encode_datetime(value),
        }
    }

    fn encode_email(&self, value: &str) -> Result<String, ValueProblem> {
        let folded = fold_email(value);
        if is_email(&folded) {
            Ok(folded)
        } else {
            Err(self.problem("INVALID_EMAIL", format!("Email address {value} is invalid")))
        }
    }

    fn encode_number(&self, value: &str) -> Result<String, ValueProblem> {
        match value.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(value.to_owned()),
            _ => Err(self.problem("INVALID_LONG", format!("{value} was not a valid number."))),
        }
    }

    fn encode_bool(&self, value: &str) -> Result<String, ValueProblem> {
        if matches!(value, "true" | "false") {
            return Ok(value.to_owned());
        }
        let message = format!("{value} was not one of the allowed options: [true, false]");
        Err(self.problem("INVALID_OPTION", message))
    }

    /// Checkboxes hold several options with `;` between them, and a leading `;` appends.
    fn encode_options(&self, value: &str) -> Result<String, ValueProblem> {
        let is_known = |part: &str| self.options.iter().any(|option| option.value == part);
        let unknown = if self.field_type == "checkbox" {
            value.split(';').filter(|part| !part.is_empty()).find(|part| !is_known(part))
        } else {
            Some(value).filter(|part| !is_known(part))
        };
        let Some(unknown) = unknown else {
            return Ok(value.to_owned());
        };
        let allowed: Vec<&str> = self.options.iter().map(|option| option.value.as_str()).collect();
        let message = format!("{unknown} was not one of the allowed options: [{}]", allowed.join(", "));
        Err(self.problem("INVALID_OPTION", message))
    }

    /// A civil date, or an instant that is midnight UTC; kept as `YYYY-MM-DD`.
    fn encode_date(&self, value: &str) -> Result<String, ValueProblem> {
        if let Some(date) = parse_civil_date(value) {
            return Ok(date.to_string());
        }
        let Some(at) = parse_instant(value) else {
            return Err(self.problem("INVALID_DATE", format!("{value} was not a valid date.")));
        };
        let utc = at.to_zoned(TimeZone::UTC);
        if utc.time() == Time::midnight() {
            return Ok(utc.date().to_string());
        }
        let (hour, minute, second) = (utc.hour(), utc.minute(), utc.second());
        let milli = utc.millisecond();
        let message = format!("{value} is at {hour}:{minute}:{second}.{milli} UTC, not midnight!");
        Err(self.problem("INVALID_DATE", message))
    }

    /// ISO 8601 or milliseconds; kept as ISO 8601 in UTC.
    fn encode_datetime(&self, value: &str) -> Result<String, ValueProblem> {
        let civil = || parse_civil_date(value)?.to_zoned(TimeZone::UTC).ok();
        parse_instant(value)
            .or_else(|| civil().map(|midnight| midnight.timestamp()))
            .map(iso)
            .ok_or_else(|| self.problem("INVALID_DATE", format!("{value} was not a valid datetime.")))
    }

    fn problem(&self, error: &'static str, message: String) -> ValueProblem {
        ValueProblem::new(error, &self.name, message)
    }
}

/// The form in which HubSpot compares and returns addresses.
pub(crate) fn fold_email(value: &str) -> String {
    value.trim().to_lowercase()
}

/// A plausible address: HubSpot wants a domain with a dot and a top-level domain that exists. The simulator takes every
/// alphabetic one except those that begin with `invalid`, which no registry will ever have.
pub(crate) fn is_email(folded: &str) -> bool {
    let Some((local, domain)) = folded.rsplit_once('@') else {
        return false;
    };
    let Some((host, top)) = domain.rsplit_once('.') else {
        return false;
    };
    let is_host =
        host.split('.').all(|label| !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-'));
    let is_local = !local.is_empty()
        && !local.contains(['@', ' ', ',', ';', '<', '>', '"'])
        && !local.chars().any(char::is_control);
    let is_top = top.chars().count() >= 2 && top.chars().all(char::is_alphabetic) && !top.starts_with("invalid");
    is_local && is_host && is_top
}

/// Exactly `YYYY-MM-DD`; jiff alone would take a longer text and ignore its time.
fn parse_civil_date(value: &str) -> Option<Date> {
    if value.len() == "YYYY-MM-DD".len() { value.parse().ok() } else { None }
}

fn parse_instant(value: &str) -> Option<Timestamp> {
    match value.parse::<i64>() {
        Ok(milliseconds) => Timestamp::from_millisecond(milliseconds).ok(),
        Err(_) => value.parse().ok(),
    }
}

/// Unicode white space and the invisible characters that HubSpot refuses at the edges of anything but a string.
fn has_ragged_edges(value: &str) -> bool {
    let is_edge = |c: char| c.is_whitespace() || matches!(c, '\u{200B}'..='\u{200D}' | '\u{2060}' | '\u{FEFF}');
    value.starts_with(is_edge) || value.ends_with(is_edge)
}
