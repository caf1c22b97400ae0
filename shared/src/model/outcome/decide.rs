//! The one function that decides what happens to an event after an answer.
//!
//! Being throttled, locked out, paused or without a valid token costs no attempt: such waits say nothing about the event.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{
    Answer, Attempt, Class, CredentialProblem, Decision, LimitPolicy, PauseReason, ResolveReason, SnoozeReason,
    SupersededReason, retry_after,
};

/// Upper end of the first backoff. A visitor waits for the first retry, so it comes within seconds.
const BACKOFF_BASE: Duration = Duration::from_secs(15);
/// Growth of the upper end from attempt to attempt.
const BACKOFF_FACTOR: u32 = 3;
/// Upper end of every late backoff. With full jitter the expected sum of the eleven waits is close to a day.
const BACKOFF_CEILING: Duration = Duration::from_hours(12);
/// Lower end of every backoff, so that jitter never means "at once".
const BACKOFF_FLOOR: Duration = Duration::from_secs(1);
/// How far a `Retry-After` may stretch a backoff: a gateway's header is a hint, not a verdict.
const RETRY_AFTER_CEILING: Duration = Duration::from_hours(1);

/// HubSpot's locks last about two seconds; it asks to wait at least that long.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// Spread of those who waited for the same lock.
const LOCK_JITTER: Duration = Duration::from_secs(2);

/// Freeze after a limit per second.
const SECONDLY_FREEZE: Duration = Duration::from_secs(1);
/// Freeze after the rolling window of ten seconds, or after a 429 that does not say.
const TEN_SECONDLY_FREEZE: Duration = Duration::from_secs(10);
/// Freeze after the daily limit when its reset is not known.
const DAILY_FREEZE: Duration = Duration::from_hours(1);
/// No day is longer (25 hours when clocks go back): a reset beyond it is a mistake.
const DAILY_FREEZE_CEILING: Duration = Duration::from_hours(25);
/// How far a `Retry-After` may stretch a freeze by a short window. It stops the whole portal, so no header may do that for long.
const WINDOW_FREEZE_CEILING: Duration = Duration::from_mins(5);
/// Spread of the events that a freeze sent away.
const FREEZE_JITTER: Duration = Duration::from_secs(2);

/// Pause of a portal whose account is being moved, when HubSpot does not say for how long.
const MIGRATION_PAUSE: Duration = Duration::from_mins(5);
/// Pause of a portal whose token is not accepted; a person is told at the same time.
const CREDENTIAL_PAUSE: Duration = Duration::from_mins(5);

/// Decides. `random` is uniform in `0..1` and spreads the waits.
#[must_use]
pub fn decide(answer: Answer<'_>, attempt: &Attempt, now: Timestamp, random: f64) -> Decision {
    let refusal = match answer {
        Answer::Done => return Decision::Complete,
        Answer::Unknown => return retry(None, attempt, now, random),
        Answer::Refused(refusal) => refusal,
    };
    match refusal.class {
        Class::RateLimited(policy) => freeze(policy, refusal.retry_after, attempt, now, random),
        Class::Locked => {
            let wait = refusal.retry_after.unwrap_or(LOCK_WAIT).clamp(LOCK_WAIT, WINDOW_FREEZE_CEILING);
            let at = after(now, wait + LOCK_JITTER.mul_f64(unit(random)));
            Decision::SnoozeUntil { at, reason: SnoozeReason::RecordLocked }
        }
        Class::Migrating => {
            let until = after(now, refusal.retry_after.unwrap_or(MIGRATION_PAUSE).min(retry_after::MAX_WAIT));
            Decision::PausePortal { until, reason: PauseReason::Migrating }
        }
        Class::Temporary => retry(refusal.retry_after, attempt, now, random),
        Class::Credential(CredentialProblem::Expired) if !attempt.credential_refreshed => Decision::RefreshCredential,
        Class::Credential(_) => {
            Decision::PausePortal { until: after(now, CREDENTIAL_PAUSE), reason: PauseReason::CredentialRefused }
        }
        Class::Configuration | Class::RowInvalid => Decision::Dead { code: refusal.code.clone() },
        Class::WholeBatchInvalid => Decision::Split,
        Class::Conflict => Decision::Resolve(ResolveReason::Conflict),
        Class::Gone => Decision::Resolve(ResolveReason::Gone),
        Class::OptedOut => Decision::Superseded { reason: SupersededReason::RemoteOptOut },
    }
}

fn retry(retry_after: Option<Duration>, attempt: &Attempt, now: Timestamp, random: f64) -> Decision {
    if attempt.process_attempts.saturating_add(1) >= attempt.max_attempts {
        return Decision::Dead { code: "attempts_exhausted".to_owned() };
    }
    let jittered = backoff_ceiling(attempt.process_attempts).mul_f64(unit(random)).max(BACKOFF_FLOOR);
    let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_CEILING);
    Decision::RetryAt { at: after(now, jittered.max(asked)) }
}

/// Upper end of the wait after so many counted attempts.
fn backoff_ceiling(process_attempts: u32) -> Duration {
    let factor = BACKOFF_FACTOR.saturating_pow(process_attempts);
    BACKOFF_BASE.saturating_mul(factor).min(BACKOFF_CEILING)
}

fn freeze(
    policy: LimitPolicy,
    retry_after: Option<Duration>,
    attempt: &Attempt,
    now: Timestamp,
    random: f64,
) -> Decision {
    let asked = retry_after.unwrap_or_default();
    let wait = match policy {
        LimitPolicy::Secondly => SECONDLY_FREEZE.max(asked.min(WINDOW_FREEZE_CEILING)),
        LimitPolicy::TenSecondly | LimitPolicy::Unknown => TEN_SECONDLY_FREEZE.max(asked.min(WINDOW_FREEZE_CEILING)),
        LimitPolicy::Daily => {
            until_reset(attempt.daily_reset, now).unwrap_or(DAILY_FREEZE.max(asked.min(DAILY_FREEZE_CEILING)))
        }
    };
    let until = after(now, wait);
    Decision::Freeze { policy, until, resume_at: after(until, FREEZE_JITTER.mul_f64(unit(random))) }
}

/// The time to the reset, when it lies ahead and within a day.
fn until_reset(reset: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    let wait = Duration::try_from(reset?.duration_since(now)).ok()?;
    (wait > Duration::ZERO && wait <= DAILY_FREEZE_CEILING).then_some(wait)
}

fn after(now: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    now.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

/// A caller's random number, made harmless: NaN and numbers outside `0..1` would make `mul_f64` panic.
fn unit(random: f64) -> f64 {
    if random.is_finite() { random.clamp(0.0, 1.0) } else { 0.5 }
}

#[cfg(test)]
mod tests {
    use super::super::{DEFAULT_MAX_ATTEMPTS, Refusal};
    use super::*;

    fn now() -> Timestamp {
        "2026-09-23T10:00:00Z".parse().unwrap()
    }

    fn refused(class: Class) -> Refusal {
        Refusal::unmade(class, "sample", "sample")
    }

    fn decided(refusal: &Refusal, attempt: &Attempt, random: f64) -> Decision {
        decide(Answer::Refused(refusal), attempt, now(), random)
    }

    fn seconds(at: Timestamp) -> i64 {
        at.duration_since(now()).as_secs()
    }

    #[test]
    fn the_expected_waits_of_all_attempts_add_up_to_about_a_day() {
        let ceilings: f64 = (0..DEFAULT_MAX_ATTEMPTS - 1).map(|attempt| backoff_ceiling(attempt).as_secs_f64()).sum();
        let expected_hours = ceilings / 2.0 / 3600.0;
        assert!((22.0..=26.0).contains(&expected_hours), "{expected_hours} h");
    }

    #[test]
    fn a_retry_counts_and_the_last_attempt_is_the_end() {
        let temporary = refused(Class::Temporary);
        let attempt = |process_attempts| Attempt { process_attempts, ..Attempt::first() };
        assert!(matches!(decided(&temporary, &attempt(10), 0.5), Decision::RetryAt { .. }));
        let end = Decision::Dead { code: "attempts_exhausted".to_owned() };
        assert_eq!(decided(&temporary, &attempt(11), 0.5), end);
        assert_eq!(decided(&temporary, &attempt(u32::MAX), 0.5), end);
        assert_eq!(decide(Answer::Unknown, &attempt(11), now(), 0.5), end);
    }

    #[test]
    fn jitter_is_full_and_never_means_at_once() {
        let at = |random| match decided(&refused(Class::Temporary), &Attempt::first(), random) {
            Decision::RetryAt { at } => seconds(at),
            other => panic!("{other:?}"),
        };
        assert_eq!((at(0.0), at(1.0)), (1, 15));
        assert_eq!((at(f64::NAN), at(-1.0), at(7.0)), (7, 1, 15));
    }

    #[test]
    fn a_retry_waits_as_long_as_asked_but_not_for_ever() {
        let asks = |asked| Refusal { retry_after: Some(Duration::from_secs(asked)), ..refused(Class::Temporary) };
        let at = |asked| match decided(&asks(asked), &Attempt::first(), 0.0) {
            Decision::RetryAt { at } => seconds(at),
            other => panic!("{other:?}"),
        };
        assert_eq!((at(30), at(86_400)), (30, 3600));
    }

    #[test]
    fn throttling_locks_moves_and_credentials_cost_no_attempt() {
        let exhausted = Attempt { process_attempts: 11, ..Attempt::first() };
        for class in [
            Class::RateLimited(LimitPolicy::Secondly),
            Class::RateLimited(LimitPolicy::Daily),
            Class::RateLimited(LimitPolicy::Unknown),
            Class::Locked,
            Class::Migrating,
            Class::Credential(CredentialProblem::Expired),
            Class::Credential(CredentialProblem::Invalid),
        ] {
            let decision = decided(&refused(class), &exhausted, 0.5);
            assert!(!matches!(decision, Decision::RetryAt { .. } | Decision::Dead { .. }), "{class:?}: {decision:?}");
        }
    }

    #[test]
    fn a_freeze_lasts_as_long_as_the_limit_that_was_hit() {
        let reset = now() + SignedDuration::from_hours(14);
        let attempt = Attempt { daily_reset: Some(reset), ..Attempt::first() };
        let until = |policy| match decided(&refused(Class::RateLimited(policy)), &attempt, 0.0) {
            Decision::Freeze { until, .. } => seconds(until),
            other => panic!("{other:?}"),
        };
        assert_eq!(until(LimitPolicy::Secondly), 1);
        assert_eq!(until(LimitPolicy::TenSecondly), 10);
        assert_eq!(until(LimitPolicy::Unknown), 10);
        assert_eq!(until(LimitPolicy::Daily), 14 * 3600);
    }

    #[test]
    fn a_daily_reset_that_cannot_be_is_an_hour() {
        for reset in [now() - SignedDuration::from_secs(1), now() + SignedDuration::from_hours(26)] {
            let attempt = Attempt { daily_reset: Some(reset), ..Attempt::first() };
            let decision = decided(&refused(Class::RateLimited(LimitPolicy::Daily)), &attempt, 0.0);
            let Decision::Freeze { until, .. } = decision else { panic!("{decision:?}") };
            assert_eq!(seconds(until), 3600);
        }
    }

    #[test]
    fn a_lock_waits_two_seconds_at_least() {
        for random in [0.0, 0.5, 1.0] {
            let decision = decided(&refused(Class::Locked), &Attempt::first(), random);
            let Decision::SnoozeUntil { at, reason: SnoozeReason::RecordLocked } = decision else {
                panic!("{decision:?}")
            };
            assert!((2..=4).contains(&seconds(at)));
        }
    }

    #[test]
    fn a_move_pauses_the_portal_for_as_long_as_asked() {
        let moving = Refusal { retry_after: Some(Duration::from_hours(2)), ..refused(Class::Migrating) };
        let until = now() + SignedDuration::from_hours(2);
        let expected = Decision::PausePortal { until, reason: PauseReason::Migrating };
        assert_eq!(decided(&moving, &Attempt::first(), 0.3), expected);
    }

    #[test]
    fn an_expired_token_is_refreshed_once_and_then_pauses_the_portal_with_an_alarm() {
        let expired = refused(Class::Credential(CredentialProblem::Expired));
        assert_eq!(decided(&expired, &Attempt::first(), 0.3), Decision::RefreshCredential);
        let refreshed = Attempt { credential_refreshed: true, ..Attempt::first() };
        let decision = decided(&expired, &refreshed, 0.3);
        assert!(matches!(decision, Decision::PausePortal { reason, .. } if reason.alarms()), "{decision:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_wait_ends_before_now_or_after_two_days(
            class in proptest::sample::select(vec![
                Class::RateLimited(LimitPolicy::Secondly),
                Class::RateLimited(LimitPolicy::TenSecondly),
                Class::RateLimited(LimitPolicy::Daily),
                Class::Locked,
                Class::Migrating,
                Class::Temporary,
                Class::Credential(CredentialProblem::Invalid),
            ]),
            asked in proptest::option::of(proptest::prelude::any::<u64>()),
            random in proptest::num::f64::ANY,
            process_attempts in 0..u32::MAX,
        ) {
            let refusal = Refusal { retry_after: asked.map(Duration::from_secs), ..refused(class) };
            let attempt = Attempt { process_attempts, ..Attempt::first() };
            let at = match decided(&refusal, &attempt, random) {
                Decision::RetryAt { at } | Decision::SnoozeUntil { at, .. } => at,
                Decision::Freeze { until, resume_at, .. } => {
                    proptest::prop_assert!(until <= resume_at);
                    resume_at
                }
                Decision::PausePortal { until, .. } => until,
                Decision::Dead { .. } => return Ok(()),
                other => panic!("{other:?}"),
            };
            proptest::prop_assert!((1..=2 * 86_400).contains(&seconds(at)), "{} s", seconds(at));
        }
    }

    #[test]
    fn what_time_does_not_heal_ends_or_is_resolved() {
        let decision = |class| decided(&refused(class), &Attempt::first(), 0.5);
        assert_eq!(decision(Class::RowInvalid), Decision::Dead { code: "sample".to_owned() });
        assert_eq!(decision(Class::Configuration), Decision::Dead { code: "sample".to_owned() });
        assert_eq!(decision(Class::WholeBatchInvalid), Decision::Split);
        assert_eq!(decision(Class::Conflict), Decision::Resolve(ResolveReason::Conflict));
        assert_eq!(decision(Class::Gone), Decision::Resolve(ResolveReason::Gone));
        assert_eq!(decision(Class::OptedOut), Decision::Superseded { reason: SupersededReason::RemoteOptOut });
        assert_eq!(decide(Answer::Done, &Attempt::first(), now(), 0.5), Decision::Complete);
    }
}
