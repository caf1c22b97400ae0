//! When a change that HubSpot reports is our own write coming back.
//!
//! Nothing in a notification says so dependably: the source is the same for every integration. So what was written is
//! remembered for a while, and a change to the same value is taken for it.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};

/// How far apart a write and the change that HubSpot reports of it may lie by their own clocks, and for how long after the
/// write somebody else's change to the very same value is taken for it. HubSpot stamps a change when it applies it, so
/// that delay on the notification's way plays no part in it.
pub const ECHO_WINDOW: Duration = Duration::from_mins(10);

/// SHA-256 of a value, however it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueHash(pub [u8; 32]);

/// What a change is to what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EchoMatch {
    /// It is what was written.
    Echo,
    /// The property was written, with another value.
    Near,
    /// It was not written by us.
    Foreign,
}

impl ValueHash {
    /// Of a value as we wrote it, as HubSpot's answer repeats it, or as a notification reports it: the three spell numbers,
    /// dates, addresses and checkboxes in ways of their own.
    #[must_use]
    pub fn of(value: &str) -> Self {
        Self(Sha256::digest(plain(value)).into())
    }
}

fn plain(value: &str) -> String {
    let text = value.trim();
    if let Some(instant) = instant(text) {
        return instant.as_millisecond().to_string();
    }
    if let Some(number) = number(text) {
        return number;
    }
    let mut options: Vec<&str> = text.split(';').map(str::trim).filter(|option| !option.is_empty()).collect();
    options.sort_unstable();
    options.join(";").to_lowercase()
}

/// A date or an instant in ISO 8601. As a number of milliseconds it is a number already.
fn instant(text: &str) -> Option<Timestamp> {
    if text.len() == "2000-03-26".len()
        && let Ok(date) = text.parse::<Date>()
    {
        return date.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    }
    text.parse().ok()
}

/// A decimal number without what it does not need: `1.50` is `1.5`, `-0` is `0`.
fn number(text: &str) -> Option<String> {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.chars().all(|c| c.is_ascii_digit());
    // With a leading zero it is a postcode or a telephone number, and the zero counts.
    let is_number =
        !whole.is_empty() && all_digits(whole) && all_digits(fraction) && (whole == "0" || !whole.starts_with('0'));
    if !is_number {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let sign = if whole == "0" && fraction.is_empty() { "" } else { sign };
    Some(format!("{sign}{whole}{point}{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_has_one_hash_however_it_is_written() {
        for (ours, theirs) in [
            ("Ada@Example.test", "ada@example.test"),
            ("2026-11-30", "1795996800000"),
            ("1.50", "1.5"),
            ("-0", "0"),
            ("web;mail", "mail;web"),
            (" Ada ", "Ada"),
            ("2026-11-30T10:00:00Z", "2026-11-30T10:00:00.000Z"),
        ] {
            assert_eq!(ValueHash::of(ours), ValueHash::of(theirs), "{ours} {theirs}");
        }
    }

    #[test]
    fn other_values_have_other_hashes() {
        for (ours, theirs) in [("Ada", "Adam"), ("007", "7"), ("1", "-1"), ("", "0"), ("1.5", "15"), ("a;b", "a")] {
            assert_ne!(ValueHash::of(ours), ValueHash::of(theirs), "{ours} {theirs}");
        }
    }
}
