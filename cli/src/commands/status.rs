//! `hubferry status`

use std::io::IsTerminal as _;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use hubferry::adapters::db::{self, Db, DbFailure, PortalStatus};
use hubferry::adapters::sqs::{DeadLetterQueue, Sqs};
use hubferry::config::Environment;
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use super::database;
use crate::arguments::StatusArgs;
use crate::end::End;
use crate::output;

/// Time between two looks: often enough to watch an import, and no load on the database.
const WATCH_PAUSE: Duration = Duration::from_secs(2);

/// What is not said by then about dead letters is not waited for.
const QUEUES_PATIENCE: Duration = Duration::from_secs(4);

/// Columns before the first number: portal, name and mode.
const TEXT_COLUMNS: usize = 3;

/// The numbers of a portal, in the table's order.
const HEADERS: [&str; 13] = [
    "portal",
    "name",
    "mode",
    "pending",
    "publishing",
    "queued",
    "processing",
    "retry",
    "synced 1h",
    "superseded 1h",
    "dead",
    "oldest",
    "paused",
];

/// What is looked at.
struct Sources {
    db: Db,
    /// `None`: nobody said where the queues are.
    queues: Option<Sqs>,
}

/// What was found.
struct Status {
    portals: Vec<PortalStatus>,
    dead_letters: DeadLetters,
}

/// What is known of the dead-letter queues.
enum DeadLetters {
    /// Nobody said where the queues are.
    NotLookedAt,
    /// SQS did not answer in time.
    Unanswered,
    Found(Vec<DeadLetterQueue>),
}

pub(crate) async fn run(args: StatusArgs, environment: Environment, json: bool) -> anyhow::Result<End> {
    let queues = match environment.known_queue_urls() {
        Some(urls) => Some(Sqs::new(urls).await),
        None => None,
    };
    let sources = Sources { db: database(environment)?, queues };
    if args.watch {
        watch(&sources, json).await?;
    } else {
        let status = look(&sources).await?;
        output::result(json, &value(&status), &text(&status));
    }
    Ok(End::Done)
}

/// Shows it until Ctrl-C, or until nobody reads it. A database that is away for a while ends nothing: that is when somebody
/// watches.
async fn watch(sources: &Sources, json: bool) -> anyhow::Result<()> {
    let clears = !json && std::io::stdout().is_terminal();
    let mut looks = tokio::time::interval(WATCH_PAUSE);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            stopped = tokio::signal::ctrl_c() => return Ok(stopped?),
            _ = looks.tick() => {}
        }
        let found = look(sources).await;
        if clears {
            output::clear_screen();
        }
        match found {
            Ok(status) if !output::one_of_many(json, &value(&status), &text(&status)) => return Ok(()),
            Ok(_) => {}
            Err(error) => output::failure(&error.into()),
        }
    }
}

async fn look(sources: &Sources) -> Result<Status, DbFailure> {
    let portals = async { db::status_counts(&*sources.db.connection().await?).await };
    let (portals, dead_letters) = tokio::join!(portals, dead_letters(sources.queues.as_ref()));
    Ok(Status { portals: portals?, dead_letters })
}

async fn dead_letters(queues: Option<&Sqs>) -> DeadLetters {
    let Some(queues) = queues else { return DeadLetters::NotLookedAt };
    tokio::time::timeout(QUEUES_PATIENCE, queues.dead_letters())
        .await
        .map_or(DeadLetters::Unanswered, DeadLetters::Found)
}

fn value(status: &Status) -> Value {
    let dead_letters = match &status.dead_letters {
        DeadLetters::Found(queues) => json!(queues),
        DeadLetters::NotLookedAt | DeadLetters::Unanswered => Value::Null,
    };
    json!({"portals": status.portals, "dead_letters": dead_letters})
}

fn text(status: &Status) -> String {
    format!("{}\n{}", portals_text(&status.portals), dead_letters_text(&status.dead_letters))
}

fn dead_letters_text(dead_letters: &DeadLetters) -> String {
    let queues = match dead_letters {
        DeadLetters::Found(queues) => queues,
        DeadLetters::NotLookedAt => {
            return "dead letters: not looked at, since not all of HUBFERRY_QUEUE_INTERACTIVE_URL, HUBFERRY_QUEUE_BULK_URL and \
                    HUBFERRY_QUEUE_INBOUND_URL are set"
                .into();
        }
        DeadLetters::Unanswered => return "dead letters: SQS did not answer".into(),
    };
    let counts = queues.iter().map(|found| match (&found.queue, found.messages) {
        (Some(queue), Some(messages)) => format!("{messages} in {queue}"),
        (Some(queue), None) => format!("unknown in {queue}"),
        (None, _) => format!("no dead-letter queue is known of {}", found.source),
    });
    format!("dead letters: {}", counts.collect::<Vec<_>>().join(", "))
}

fn portals_text(portals: &[PortalStatus]) -> String {
    if portals.is_empty() {
        return "there are no portals yet: run `hubferry portal init PORTAL_ID`".into();
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header(HEADERS).add_rows(portals.iter().map(row));
    for column in table.column_iter_mut().skip(TEXT_COLUMNS).take(HEADERS.len() - TEXT_COLUMNS - 1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn row(portal: &PortalStatus) -> Vec<String> {
    let paused = portal
        .paused_until
        .map(|until| format!("until {until:.0}: {}", portal.paused_reason.as_deref().unwrap_or("no reason given")));
    let counts = [
        portal.pending,
        portal.publishing,
        portal.queued,
        portal.processing,
        portal.retry,
        portal.synced_last_hour,
        portal.superseded_last_hour,
        portal.dead,
    ];
    let mut row = vec![portal.portal_id.to_string(), portal.name.clone(), portal.mode.clone()];
    row.extend(counts.map(|count| count.to_string()));
    row.push(portal.oldest_age().map_or_else(|| "-".to_owned(), age));
    row.push(paused.unwrap_or_else(|| "no".to_owned()));
    row
}

/// An age by its two largest units, such as "3h 20m".
fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_shown_by_its_two_largest_units() {
        let shown = [0, 59, 61, 3_600, 12_000, 90_000].map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0s", "59s", "1m 1s", "1h 0m", "3h 20m", "1d 1h"]);
    }
}
