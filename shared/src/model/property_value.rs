//! How a value has to look before HubSpot accepts it for a property of a known type.
//!
//! What is not known is left alone: a value of an unknown type is only measured.

use std::collections::BTreeSet;

use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};
use serde::{Deserialize, Serialize};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PropertyType {
    /// `string`.
    String,
    /// `number`.
    Number,
    /// `date`: a civil date without a time.
    Date,
    /// `datetime`: an instant.
    #[serde(rename = "datetime")]
    DateTime,
    /// `enumeration`.
    Enumeration,
    /// `bool`.
    Bool,
    /// `phone_number`.
    PhoneNumber,
}

impl PropertyType {
    /// HubSpot's name of the type.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Date => "date",
            Self::DateTime => "datetime",
            Self::Enumeration => "enumeration",
            Self::Bool => "bool",
            Self::PhoneNumber => "phone_number",
        }
    }

    /// Reads HubSpot's name of a type; `None` for a type that is not known here.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        use PropertyType::{Bool, Date, DateTime, Enumeration, Number, PhoneNumber, String};
        [String, Number, Date, DateTime, Enumeration, Bool, PhoneNumber].into_iter().find(|kind| kind.as_str() == name)
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
    /// An instant, of which nobody said in which zone it is that day.
    #[error("the value is an instant; without a time zone it is no date")]
    DateNeedsZone,
    /// Not an instant in any known form.
    #[error("the value is not an instant")]
    NotAnInstant,
    /// Not a number.
    #[error("the value is not a number")]
    NotANumber,
    /// Neither true nor false.
    #[error("the value is neither true nor false")]
    NotABool,
}

impl ValueError {
    /// Stable code in snake case.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::TooLong { .. } => "value_too_long",
            Self::NotADate => "invalid_date",
            Self::DateNeedsZone => "date_needs_zone",
            Self::NotAnInstant => "invalid_datetime",
            Self::NotANumber => "invalid_number",
            Self::NotABool => "invalid_bool",
        }
    }
}

/// The value as HubSpot accepts it. An empty value clears the property and passes as it is.
///
/// `zone` is where the people who enter dates live: a local midnight belongs to that day, not to the UTC day before. Without
/// it an instant within a day is refused as a date, since a guess would be wrong for half the world.
pub fn encode(kind: Option<PropertyType>, value: &str, zone: Option<&TimeZone>) -> Result<String, ValueError> {
    let encoded = match kind {
        None | Some(PropertyType::String) => value.to_owned(),
        Some(PropertyType::PhoneNumber) => trim(value).to_owned(),
        Some(PropertyType::Number) => encode_with(trim(value), number)?,
        Some(PropertyType::Bool) => encode_with(trim(value), bool)?,
        Some(PropertyType::Enumeration) => options(value).join(";"),
        Some(PropertyType::Date) => encode_with(trim(value), |text| date(text, zone))?,
        Some(PropertyType::DateTime) => encode_with(trim(value), date_time)?,
    };
    let units = encoded.encode_utf16().count();
    if units > MAX_VALUE_UTF16_UNITS { Err(ValueError::TooLong { units }) } else { Ok(encoded) }
}

/// Whether HubSpot holds another value than the one that was written, as far as the type is known.
///
/// HubSpot takes some writes without applying them (a lifecycle stage never moves back), so the echo is compared. It
/// writes addresses in lower case, numbers, dates and telephone numbers in its own form; those are no differences. Of an
/// unknown type, a value differs when it does under every type.
#[must_use]
pub fn differs_from_echo(kind: Option<PropertyType>, written: &str, echoed: Option<&str>) -> bool {
    use PropertyType::{Bool, Date, DateTime, Enumeration, Number, PhoneNumber, String};
    let echoed = echoed.unwrap_or_default();
    let words = |text: &str| trim(text).to_lowercase();
    if words(written) == words(echoed) {
        return false;
    }
    let same = |kind| match (encode(Some(kind), written, None), encode(Some(kind), echoed, None)) {
        (Ok(ours), Ok(theirs)) => !ours.is_empty() && ours == theirs,
        _ => false,
    };
    match kind {
        Some(String | Bool) => true,
        Some(Number) => !is_same_number(written, echoed),
        Some(Date | DateTime) => !same(Date) && !same(DateTime),
        Some(Enumeration) => !is_same_set(written, echoed),
        Some(PhoneNumber) => !is_same_phone(written, echoed),
        None => {
            !is_same_number(written, echoed)
                && !same(Date)
                && !same(DateTime)
                && !is_same_set(written, echoed)
                && !is_same_phone(written, echoed)
        }
    }
}

fn is_same_number(written: &str, echoed: &str) -> bool {
    match (trim(written).parse::<f64>(), trim(echoed).parse::<f64>()) {
        (Ok(ours), Ok(theirs)) => (ours - theirs).abs() <= f64::EPSILON * ours.abs(),
        _ => false,
    }
}

/// HubSpot returns the options of a checkbox in an order of its own.
fn is_same_set(written: &str, echoed: &str) -> bool {
    let set = |text| options(text).into_iter().map(str::to_lowercase).collect::<BTreeSet<_>>();
    !set(written).is_empty() && set(written) == set(echoed)
}

/// HubSpot groups the digits as the country does.
fn is_same_phone(written: &str, echoed: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let is_phone = |text: &str| text.chars().all(|c| c.is_ascii_digit() || " +-()./".contains(c));
    is_phone(written) && is_phone(echoed) && !digits(written).is_empty() && digits(written) == digits(echoed)
}

/// Takes Unicode white space and the invisible characters that HubSpot refuses off both ends.
fn trim(value: &str) -> &str {
    value.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\u{200B}'..='\u{200D}' | '\u{2060}' | '\u{FEFF}'))
}

fn encode_with(text: &str, encode: impl Fn(&str) -> Result<String, ValueError>) -> Result<String, ValueError> {
    if text.is_empty() { Ok(String::new()) } else { encode(text) }
}

/// The options of an enumeration, of which a checkbox holds several with `;` between them. A `;` before the first would
/// make HubSpot append to what is there, and what is there is not what was decided.
fn options(text: &str) -> Vec<&str> {
    text.split(';').map(trim).filter(|option| !option.is_empty()).collect()
}

fn number(text: &str) -> Result<String, ValueError> {
    let is_number = text.parse::<f64>().is_ok_and(f64::is_finite);
    if is_number { Ok(text.to_owned()) } else { Err(ValueError::NotANumber) }
}

fn bool(text: &str) -> Result<String, ValueError> {
    let lower = text.to_ascii_lowercase();
    if matches!(lower.as_str(), "true" | "false") { Ok(lower) } else { Err(ValueError::NotABool) }
}

/// `YYYY-MM-DD` of the civil date that is meant.
fn date(text: &str, zone: Option<&TimeZone>) -> Result<String, ValueError> {
    if let Some(instant) = epoch(text) {
        return civil_date(instant, zone);
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
        return civil_date(instant, zone);
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
fn civil_date(instant: Timestamp, zone: Option<&TimeZone>) -> Result<String, ValueError> {
    let is_utc_midnight = instant.as_millisecond().rem_euclid(DAY_MS) == 0;
    let zone = if is_utc_midnight { &TimeZone::UTC } else { zone.ok_or(ValueError::DateNeedsZone)? };
    Ok(instant.to_zoned(zone.clone()).date().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amsterdam() -> TimeZone {
        TimeZone::get("Europe/Amsterdam").unwrap()
    }

    fn encoded(kind: PropertyType, value: &str) -> Result<String, ValueError> {
        encode(Some(kind), value, Some(&amsterdam()))
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
        let chicago = TimeZone::get("America/Chicago").unwrap();
        for form in ["954028800000", "2000-03-26T00:00:00Z", "2000-03-26"] {
            assert_eq!(encode(Some(PropertyType::Date), form, Some(&chicago)).as_deref(), Ok("2000-03-26"), "{form:?}");
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
        assert_eq!(encode(None, " 954025200000 ", Some(&amsterdam())).as_deref(), Ok(" 954025200000 "));
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
        let differs = differs_from_echo;
        assert!(differs(Some(PropertyType::Enumeration), "lead", Some("customer")));
        assert!(differs(None, "a", None));
        assert!(!differs(None, "", None));
        assert!(!differs(None, "Ann@Example.test", Some("ann@example.test")));
        assert!(!differs(Some(PropertyType::Number), "12", Some("12.0")));
        assert!(differs(Some(PropertyType::Number), "12", Some("13")));
        assert!(!differs(Some(PropertyType::Date), "2000-03-26", Some("954028800000")));
        assert!(!differs(Some(PropertyType::DateTime), "2026-09-23T08:00:00Z", Some("2026-09-23T08:00:00.000Z")));
        assert!(differs(Some(PropertyType::Date), "2000-03-26", Some("2000-03-25")));
        assert!(!differs(Some(PropertyType::Enumeration), "b;a", Some("a;b")));
        assert!(differs(Some(PropertyType::Enumeration), "a;b", Some("a")));
        assert!(!differs(Some(PropertyType::PhoneNumber), "+31 6 1234 5678", Some("+31612345678")));
        assert!(differs(Some(PropertyType::String), "", Some("old")), "what should be empty is not");
    }

    #[test]
    fn of_an_unknown_type_only_what_no_type_explains_is_a_difference() {
        for (written, echoed) in [("954028800000", "2000-03-26"), ("12.0", "12"), ("b;a", "a;b"), ("06 12", "0612")] {
            assert!(!differs_from_echo(None, written, Some(echoed)), "{written} {echoed}");
        }
        for (written, echoed) in
            [("lead", "customer"), ("12", "13"), ("2000-03-26", "2000-03-25"), ("", "x"), ("x", "")]
        {
            assert!(differs_from_echo(None, written, Some(echoed)), "{written} {echoed}");
        }
    }

    #[test]
    fn an_instant_is_no_date_where_nobody_said_the_zone() {
        for form in ["954025200000", "2000-03-26T14:00:00Z"] {
            assert_eq!(encode(Some(PropertyType::Date), form, None), Err(ValueError::DateNeedsZone), "{form}");
        }
        assert_eq!(encode(Some(PropertyType::Date), "2000-03-26T00:00:00+02:00", None).as_deref(), Ok("2000-03-26"));
        assert_eq!(encode(Some(PropertyType::Date), "954028800", None).as_deref(), Ok("2000-03-26"));
    }

    #[test]
    fn numbers_booleans_and_options_are_checked_and_cleaned() {
        assert_eq!(encoded(PropertyType::Number, "-1.5e3 ").as_deref(), Ok("-1.5e3"));
        for value in ["12,5", "twelve", "inf", "NaN"] {
            assert_eq!(encoded(PropertyType::Number, value), Err(ValueError::NotANumber), "{value}");
        }
        assert_eq!(encoded(PropertyType::Bool, " TRUE").as_deref(), Ok("true"));
        assert_eq!(encoded(PropertyType::Bool, "yes"), Err(ValueError::NotABool));
        assert_eq!(encoded(PropertyType::Enumeration, ";Gold\u{A0}; Silver;;").as_deref(), Ok("Gold;Silver"));
    }

    #[test]
    fn types_are_read_by_hubspots_names() {
        for name in ["string", "number", "date", "datetime", "enumeration", "bool", "phone_number"] {
            let kind = PropertyType::parse(name).unwrap();
            assert_eq!(kind.as_str(), name);
            assert_eq!(serde_json::to_value(kind).unwrap(), name);
        }
        assert_eq!(PropertyType::parse("json"), None);
    }
}
