//! How a value has to look before HubSpot accepts it for a property of a known type.
//!
//! What is not known is left alone: a value of an unknown type is only measured.

use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

/// Longest value of a string property, in UTF-16 code units (HubSpot: 65,536 characters).
///
/// HubSpot does not say what it counts. UTF-16 units are what a JVM counts, and never fewer than code points, so a value
/// that passes here passes under both readings. Longer values are refused, not cut: a cut value is a wrong value.
pub const MAX_VALUE_UTF16_UNITS: usize = 65_536;

/// Below this a number of a date is seconds, else milliseconds. As seconds it reaches to the year 2286; as milliseconds it
/// would only cover the first 115 days of 1970.
const SECONDS_BELOW: i64 = 10_000_000_000;

/// Milliseconds of a day: HubSpot's own form of a date is a multiple of it.
const DAY_MS: i64 = 86_400_000;

/// The type of a property, as HubSpot names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PropertyType {
    /// `string`.
    String,
    /// `number`.
    Number,
    /// `date`: a civil date without a time.
    Date,
    /// `datetime`: an instant.
    DateTime,
    /// `enumeration`.
    Enumeration,
    /// `bool`.
    Bool,
    /// `phone_number`.
    PhoneNumber,
}

impl PropertyType {
    /// Reads HubSpot's name of a type; `None` for a type that is not known here.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "string" => Some(Self::String),
            "number" => Some(Self::Number),
            "date" => Some(Self::Date),
            "datetime" => Some(Self::DateTime),
            "enumeration" => Some(Self::Enumeration),
            "bool" => Some(Self::Bool),
            "phone_number" => Some(Self::PhoneNumber),
            _ => None,
        }
    }
}

/// Why a value cannot be sent. The value itself is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Over [`MAX_VALUE_UTF16_UNITS`].
    #[error("the value has {units} UTF-16 units; HubSpot takes {MAX_VALUE_UTF16_UNITS}")]
    TooLong {
        /// Its length.
        units: usize,
    },
    /// Not a date in any known form.
    #[error("the value is not a date")]
    NotADate,
    /// Not an instant in any known form.
    #[error("the value is not an instant")]
    NotAnInstant,
}

impl ValueError {
    /// Stable code in snake case.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::TooLong { .. } => "value_too_long",
            Self::NotADate => "invalid_date",
            Self::NotAnInstant => "invalid_datetime",
        }
    }
}

/// The value as HubSpot accepts it. An empty value clears the property and passes as it is.
///
/// `zone` is where the person who entered a date lives: a local midnight belongs to that day, not to the UTC day before.
pub fn encode(kind: Option<PropertyType>, value: &str, zone: &TimeZone) -> Result<String, ValueError> {
    let encoded = match kind {
        None | Some(PropertyType::String) => value.to_owned(),
        Some(PropertyType::Number | PropertyType::Enumeration | PropertyType::Bool | PropertyType::PhoneNumber) => {
            trim(value).to_owned()
        }
        Some(PropertyType::Date) => encode_with(trim(value), |text| date(text, zone))?,
        Some(PropertyType::DateTime) => encode_with(trim(value), date_time)?,
    };
    let units = encoded.encode_utf16().count();
    if units > MAX_VALUE_UTF16_UNITS { Err(ValueError::TooLong { units }) } else { Ok(encoded) }
}

/// Whether HubSpot holds another value than the one that was written, as far as the type is known.
///
/// HubSpot takes some writes without applying them (a lifecycle stage never moves back), so the echo is compared. It
/// writes addresses in lower case and numbers in its own form; those are no differences.
#[must_use]
pub fn differs_from_echo(kind: Option<PropertyType>, written: &str, echoed: Option<&str>, zone: &TimeZone) -> bool {
    let echoed = echoed.unwrap_or_default();
    if written == echoed || written.eq_ignore_ascii_case(echoed) {
        return false;
    }
    match kind {
        Some(PropertyType::Number) => match (trim(written).parse::<f64>(), trim(echoed).parse::<f64>()) {
            (Ok(ours), Ok(theirs)) => (ours - theirs).abs() > f64::EPSILON * ours.abs(),
            _ => true,
        },
        Some(PropertyType::Date | PropertyType::DateTime) => encode(kind, written, zone) != encode(kind, echoed, zone),
        _ => trim(written).to_lowercase() != trim(echoed).to_lowercase(),
    }
}

/// Takes Unicode white space and the invisible characters that HubSpot refuses off both ends.
fn trim(value: &str) -> &str {
    value.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\u{200B}'..='\u{200D}' | '\u{2060}' | '\u{FEFF}'))
}

fn encode_with(text: &str, encode: impl Fn(&str) -> Result<String, ValueError>) -> Result<String, ValueError> {
    if text.is_empty() { Ok(String::new()) } else { encode(text) }
}

/// `YYYY-MM-DD` of the civil date that is meant.
fn date(text: &str, zone: &TimeZone) -> Result<String, ValueError> {
    if let Some(instant) = epoch(text) {
        return Ok(civil_date(instant, zone).to_string());
    }
    if let Some(date) = plain_date(text) {
        return Ok(date.to_string());
    }
    // With an offset of its own, the date is meant as written; `Z` only says that a machine wrote it.
    if let Ok(pieces) = jiff::fmt::temporal::DateTimeParser::new().parse_pieces(text)
        && pieces.time().is_some()
    {
        let meant_as_written = pieces.offset().is_none_or(|o| !matches!(o, jiff::fmt::temporal::PiecesOffset::Zulu));
        if meant_as_written {
            return Ok(pieces.date().to_string());
        }
        let instant: Timestamp = text.parse().map_err(|_| ValueError::NotADate)?;
        return Ok(civil_date(instant, zone).to_string());
    }
    Err(ValueError::NotADate)
}

/// ISO 8601 in UTC with milliseconds.
fn date_time(text: &str) -> Result<String, ValueError> {
    let instant = match epoch(text) {
        Some(instant) => instant,
        None => match plain_date(text) {
            Some(date) => midnight(date)?,
            None => text.parse().map_err(|_| ValueError::NotAnInstant)?,
        },
    };
    Ok(format!("{instant:.3}"))
}

fn midnight(date: Date) -> Result<Timestamp, ValueError> {
    let zoned: Result<Zoned, _> = date.to_zoned(TimeZone::fixed(Offset::UTC));
    zoned.map(|zoned| zoned.timestamp()).map_err(|_| ValueError::NotAnInstant)
}

fn plain_date(text: &str) -> Option<Date> {
    if text.len() == "2000-03-26".len() { text.parse().ok() } else { None }
}

/// A number of milliseconds, or of seconds.
fn epoch(text: &str) -> Option<Timestamp> {
    let number: i64 = text.parse().ok()?;
    if number.abs() < SECONDS_BELOW {
        Timestamp::from_second(number).ok()
    } else {
        Timestamp::from_millisecond(number).ok()
    }
}

/// Exactly midnight in UTC is HubSpot's own form of a date and means that UTC day; any other instant is a moment in
/// somebody's day.
fn civil_date(instant: Timestamp, zone: &TimeZone) -> Date {
    let is_utc_midnight = instant.as_millisecond().rem_euclid(DAY_MS) == 0;
    let zone = if is_utc_midnight { TimeZone::UTC } else { zone.clone() };
    instant.to_zoned(zone).date()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amsterdam() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn encoded(kind: PropertyType, value: &str) -> Result<String, ValueError> {
        encode(Some(kind), value, &amsterdam())
    }

    #[test]
    fn every_form_of_a_birthday_becomes_the_civil_date() {
        for form in [
            "954025200000",
            "954028800",
            "954028800000",
            "2000-03-26T14:00:00Z",
            "2000-03-25T23:00:00Z",
            "2000-03-26T00:00:00+01:00",
            "2000-03-26",
            " 2000-03-26\n",
        ] {
            assert_eq!(encoded(PropertyType::Date, form).as_deref(), Ok("2000-03-26"), "{form:?}");
        }
    }

    #[test]
    fn a_midnight_in_utc_stays_that_day_in_a_zone_behind_utc() {
        let chicago = TimeZone::posix("CST6CDT,M3.2.0,M11.1.0").unwrap();
        for form in ["954028800000", "2000-03-26T00:00:00Z", "2000-03-26"] {
            assert_eq!(encode(Some(PropertyType::Date), form, &chicago).as_deref(), Ok("2000-03-26"), "{form:?}");
        }
    }

    #[test]
    fn what_is_no_date_is_refused_without_repeating_it() {
        for form in ["tomorrow", "26-03-2000", "2000-13-01", "2000-02-30"] {
            assert_eq!(encoded(PropertyType::Date, form), Err(ValueError::NotADate), "{form:?}");
        }
    }

    #[test]
    fn an_instant_becomes_utc_with_milliseconds() {
        for (form, expected) in [
            ("2026-09-23T10:00:00+02:00", "2026-09-23T08:00:00.000Z"),
            ("1790150400123", "2026-09-23T08:00:00.123Z"),
            ("1790150400", "2026-09-23T08:00:00.000Z"),
            ("2026-09-23", "2026-09-23T00:00:00.000Z"),
        ] {
            assert_eq!(encoded(PropertyType::DateTime, form).as_deref(), Ok(expected));
        }
        assert_eq!(encoded(PropertyType::DateTime, "noon"), Err(ValueError::NotAnInstant));
    }

    #[test]
    fn values_of_other_types_lose_outer_space_and_invisible_characters() {
        for (kind, value, expected) in [
            (PropertyType::Enumeration, "Gold\u{00A0}", "Gold"),
            (PropertyType::Number, " 12", "12"),
            (PropertyType::Enumeration, "\u{200B}Silver", "Silver"),
            (PropertyType::Date, "2026-01-01\n", "2026-01-01"),
            (PropertyType::Bool, "\u{FEFF}true\u{2060}", "true"),
            (PropertyType::Enumeration, "Two words", "Two words"),
        ] {
            assert_eq!(encoded(kind, value).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn strings_and_values_of_unknown_type_are_left_alone() {
        assert_eq!(encoded(PropertyType::String, " as typed\u{00A0}").as_deref(), Ok(" as typed\u{00A0}"));
        assert_eq!(encode(None, " 954025200000 ", &amsterdam()).as_deref(), Ok(" 954025200000 "));
    }

    #[test]
    fn an_empty_value_clears_whatever_the_type() {
        for kind in [PropertyType::Date, PropertyType::DateTime, PropertyType::Number, PropertyType::String] {
            assert_eq!(encoded(kind, "").as_deref(), Ok(""));
        }
    }

    #[test]
    fn length_is_counted_in_utf16_units_and_nothing_is_cut() {
        let value = |character: &str, count: usize| encoded(PropertyType::String, &character.repeat(count));
        assert!(value("x", 65_536).is_ok());
        assert_eq!(value("x", 65_537), Err(ValueError::TooLong { units: 65_537 }));
        assert_eq!(value("🦊", 32_768).unwrap().chars().count(), 32_768);
        assert_eq!(value("🦊", 65_536), Err(ValueError::TooLong { units: 131_072 }));
    }

    #[test]
    fn an_echo_differs_only_when_the_value_does() {
        let differs = |kind, written, echoed| differs_from_echo(kind, written, echoed, &amsterdam());
        assert!(differs(Some(PropertyType::Enumeration), "lead", Some("customer")));
        assert!(differs(None, "a", None));
        assert!(!differs(None, "", None));
        assert!(!differs(None, "Ann@Example.test", Some("ann@example.test")));
        assert!(!differs(Some(PropertyType::Number), "12", Some("12.0")));
        assert!(differs(Some(PropertyType::Number), "12", Some("13")));
        assert!(!differs(Some(PropertyType::Date), "2000-03-26", Some("954028800000")));
        assert!(!differs(Some(PropertyType::DateTime), "2026-09-23T08:00:00Z", Some("2026-09-23T08:00:00.000Z")));
    }
}
