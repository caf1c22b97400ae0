//! `Retry-After` in every form in which it has been met (RFC 9110, section 10.2.3, and what servers really send).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, fmt::rfc2822::DateTimeParser};

/// The shortest wait, whatever the header says: a date in the past must not become an instant retry.
pub const MIN_WAIT: Duration = Duration::from_secs(1);

/// The longest wait, whatever the header says. HubSpot's longest is the move of an account, up to a day; a larger number
/// is milliseconds mistaken for seconds, or a mistake.
pub const MAX_WAIT: Duration = Duration::from_hours(24);

static HTTP_DATE: DateTimeParser = DateTimeParser::new();

/// The wait that the headers ask for, between [`MIN_WAIT`] and [`MAX_WAIT`]; of several headers the longest counts.
///
/// Seconds may carry a fraction, which is rounded up. `None` when no header is readable: the caller uses its own backoff.
pub fn parse<'a>(headers: impl IntoIterator<Item = &'a str>, now: Timestamp) -> Option<Duration> {
    headers
        .into_iter()
        .filter_map(|header| parse_one(header.trim(), now))
        .max()
        .map(|wait| wait.clamp(MIN_WAIT, MAX_WAIT))
}

fn parse_one(header: &str, now: Timestamp) -> Option<Duration> {
    seconds(header).or_else(|| until_date(header, now))
}

fn seconds(header: &str) -> Option<Duration> {
    let (whole, fraction) = header.split_once('.').unwrap_or((header, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    // A number that does not fit is beyond every cap.
    let whole: u64 = whole.parse().unwrap_or(u64::MAX);
    let rounded_up = u64::from(fraction.bytes().any(|b| b != b'0'));
    Some(Duration::from_secs(whole.saturating_add(rounded_up)))
}

fn until_date(header: &str, now: Timestamp) -> Option<Duration> {
    let date = HTTP_DATE.parse_timestamp(header).ok()?;
    Some(Duration::try_from(date.duration_since(now).max(SignedDuration::ZERO)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(headers: &[&str]) -> Option<u64> {
        let now = "2026-09-23T10:00:00Z".parse().unwrap();
        parse(headers.iter().copied(), now).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_are_read_with_space_around_and_a_fraction_rounded_up() {
        assert_eq!(wait(&["10"]), Some(10));
        assert_eq!(wait(&[" 10 "]), Some(10));
        assert_eq!(wait(&["1.5"]), Some(2));
        assert_eq!(wait(&["2.0"]), Some(2));
    }

    #[test]
    fn a_date_is_read_against_the_given_now_and_a_past_one_is_the_shortest_wait() {
        assert_eq!(wait(&["Wed, 23 Sep 2026 10:00:30 GMT"]), Some(30));
        assert_eq!(wait(&["Wed, 23 Sep 2026 09:00:00 GMT"]), Some(1));
        assert_eq!(wait(&["0"]), Some(1));
    }

    #[test]
    fn numbers_beyond_a_day_are_capped() {
        assert_eq!(wait(&["86400000"]), Some(86_400));
        assert_eq!(wait(&["99999999999999999999999"]), Some(86_400));
        assert_eq!(wait(&["Wed, 23 Sep 2099 10:00:30 GMT"]), Some(86_400));
    }

    #[test]
    fn of_several_headers_the_longest_counts() {
        assert_eq!(wait(&["5", "60"]), Some(60));
        assert_eq!(wait(&["nonsense", "7"]), Some(7));
    }

    #[test]
    fn what_cannot_be_read_leaves_the_wait_to_the_caller() {
        for header in ["-3", "1000abc", "", "1e3", ".5", "1.2.3", "NaN", "soon", "١٠"] {
            assert_eq!(wait(&[header]), None, "{header:?}");
        }
        assert_eq!(wait(&[]), None);
    }
}
