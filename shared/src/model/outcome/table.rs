//! The table in `docs/OUTCOMES.md`, built from [`classify()`] and [`decide()`] and compared with the file.
//!
//! Every sample is classified; the table lists it under the class that came out, and asks `decide` what happens.

mod samples;

use std::time::Duration;

use jiff::Timestamp;

use super::*;
use samples::samples;

const BEGIN: &str = "<!-- The table is compared with the code by a test: change the code first. -->";
const END: &str = "<!-- End of the table. -->";

#[test]
fn the_table_for_people_on_call_says_what_the_code_does() {
    let document = include_str!("../../../../docs/OUTCOMES.md");
    let (_, rest) = document.split_once(BEGIN).expect("the begin mark");
    let (table, _) = rest.split_once(END).expect("the end mark");
    let expected = render();
    assert_eq!(table.trim(), expected.trim(), "docs/OUTCOMES.md has to hold this table:\n\n{expected}\n");
}

fn render() -> String {
    let samples = samples();
    let rows = classes().into_iter().map(|class| {
        let from: Vec<&str> = samples.iter().filter(|(_, of)| *of == class).map(|(text, _)| text.as_str()).collect();
        assert!(!from.is_empty(), "no sample falls into {class:?}");
        format!("| {} | {} | {} |", title(class), from.join("; "), decision(class))
    });
    let head = "| class | from | decision |\n|---|---|---|".to_owned();
    std::iter::once(head).chain(rows).collect::<Vec<_>>().join("\n")
}

/// Every class, in the order of the table. A class that is missing here is missing in `title` too, which is exhaustive.
fn classes() -> Vec<Class> {
    vec![
        Class::RateLimited(LimitPolicy::Secondly),
        Class::RateLimited(LimitPolicy::TenSecondly),
        Class::RateLimited(LimitPolicy::Daily),
        Class::RateLimited(LimitPolicy::Unknown),
        Class::Locked,
        Class::Migrating,
        Class::Temporary,
        Class::Credential(CredentialProblem::Expired),
        Class::Credential(CredentialProblem::Invalid),
        Class::Configuration,
        Class::RowInvalid,
        Class::WholeBatchInvalid,
        Class::Conflict,
        Class::Gone,
        Class::OptedOut,
    ]
}

fn title(class: Class) -> &'static str {
    match class {
        Class::RateLimited(LimitPolicy::Secondly) => "rate limited, second",
        Class::RateLimited(LimitPolicy::TenSecondly) => "rate limited, ten seconds",
        Class::RateLimited(LimitPolicy::Daily) => "rate limited, day",
        Class::RateLimited(LimitPolicy::Unknown) => "rate limited, not said by what",
        Class::Locked => "locked",
        Class::Migrating => "migrating",
        Class::Temporary => "temporary",
        Class::Credential(CredentialProblem::Expired) => "credential, expired",
        Class::Credential(CredentialProblem::Invalid) => "credential, invalid",
        Class::Configuration => "configuration",
        Class::RowInvalid => "row invalid",
        Class::WholeBatchInvalid => "whole batch invalid",
        Class::Conflict => "conflict",
        Class::Gone => "gone, merged",
        Class::OptedOut => "opted out",
    }
}

/// What `decide` says, in words and with the numbers that it gives.
fn decision(class: Class) -> String {
    let first = ask(class, None, 0, 0.0);
    let slowest = |decision: &Decision| wait(decision).map(words).unwrap_or_default();
    match &first {
        Decision::Complete => "complete".to_owned(),
        Decision::RetryAt { .. } => {
            let last = DEFAULT_MAX_ATTEMPTS - 2;
            let (early, late) = (ask(class, None, 0, 1.0), ask(class, None, last, 1.0));
            let end = ask(class, None, last + 1, 1.0);
            format!(
                "retry after at most {}, growing to {}, with full jitter; `Retry-After` is honoured up to {}; after {} attempts {}",
                slowest(&early),
                slowest(&late),
                slowest(&ask(class, Some(retry_after::MAX_WAIT), 0, 0.0)),
                DEFAULT_MAX_ATTEMPTS,
                dead(&end),
            )
        }
        Decision::SnoozeUntil { .. } => {
            format!("snooze {} to {}", slowest(&first), slowest(&ask(class, None, 0, 1.0)))
        }
        Decision::Freeze { policy: LimitPolicy::Daily, .. } => {
            format!(
                "freeze the portal's bucket until the daily reset, or {} when it is not known; snooze",
                slowest(&first)
            )
        }
        Decision::Freeze { .. } => format!(
            "freeze the portal's bucket for everybody, {} (`Retry-After` up to {}); snooze",
            slowest(&first),
            slowest(&ask(class, Some(retry_after::MAX_WAIT), 0, 0.0)),
        ),
        Decision::PausePortal { reason, .. } => format!(
            "pause the portal for {}{}{}; snooze",
            slowest(&first),
            pause_by_header(class, &first),
            if reason.alarms() { " and alarm" } else { "" },
        ),
        Decision::RefreshCredential => format!("refresh once; then {}", second_refusal(class)),
        Decision::Split => "split the batch: by what the refusal names, else by halves".to_owned(),
        Decision::Resolve(ResolveReason::Conflict) => "resolve: find the record, link, update".to_owned(),
        Decision::Resolve(ResolveReason::Gone) => "resolve: re-link, then decide".to_owned(),
        Decision::Superseded { reason } => format!("superseded, `{}`", reason.code()),
        Decision::Dead { .. } => "dead, with the named cause; everything else goes on".to_owned(),
    }
}

fn pause_by_header(class: Class, first: &Decision) -> String {
    let asked = ask(class, Some(retry_after::MAX_WAIT), 0, 0.0);
    if asked == *first {
        String::new()
    } else {
        format!(", or `Retry-After` up to {}", wait(&asked).map(words).unwrap())
    }
}

fn second_refusal(class: Class) -> String {
    let attempt = Attempt { credential_refreshed: true, ..Attempt::first() };
    let refusal = Refusal::unmade(class, "sample", "sample");
    let decision = decide(Answer::Refused(&refusal), &attempt, now(), 0.0);
    format!("pause the portal for {} and alarm", wait(&decision).map(words).unwrap())
}

fn ask(class: Class, retry_after: Option<Duration>, process_attempts: u32, random: f64) -> Decision {
    let refusal = Refusal { retry_after, ..Refusal::unmade(class, "sample", "sample") };
    let attempt = Attempt { process_attempts, ..Attempt::first() };
    decide(Answer::Refused(&refusal), &attempt, now(), random)
}

fn now() -> Timestamp {
    "2026-09-23T10:00:00Z".parse().unwrap()
}

fn wait(decision: &Decision) -> Option<i64> {
    let until = match decision {
        Decision::RetryAt { at } | Decision::SnoozeUntil { at, .. } => at,
        Decision::Freeze { until, .. } | Decision::PausePortal { until, .. } => until,
        _ => return None,
    };
    Some(until.duration_since(now()).as_secs())
}

fn words(seconds: i64) -> String {
    match seconds {
        s if s % 3600 == 0 => format!("{} h", s / 3600),
        s if s % 60 == 0 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

fn dead(decision: &Decision) -> String {
    match decision {
        Decision::Dead { code } => format!("dead, `{code}`"),
        other => panic!("{other:?} is not the end"),
    }
}
