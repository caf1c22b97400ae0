//! `hubferry status`

use std::io::IsTerminal as _;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use hubferry::adapters::db::{self, Db, DbFailure, PortalStatus};
use hubferry::config::Environment;
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use super::database;
use crate::arguments::StatusArgs;
use crate::end::End;
use crate::output;

/// Time between two looks: often enough to watch an import, and no load on the database.
const WATCH_PAUSE: Duration = Duration::from_secs(2);

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

pub(crate) async fn run(args: StatusArgs, environment: Environment, json: bool) -> anyhow::Result<End> {
    let db = database(environment)?;
    if args.watch {
        watch(&db, json).await?;
    } else {
        let portals = look(&db).await?;
        output::result(json, &value(&portals), &text(&portals));
    }
    Ok(End::Done)
}

/// Shows it until Ctrl-C, or until nobody reads it. A database that is away for a while ends nothing: that is when somebody
/// watches.
async fn watch(db: &Db, json: bool) -> anyhow::Result<()> {
    let clears = !json && std::io::stdout().is_terminal();
    let mut looks = tokio::time::interval(WATCH_PAUSE);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            stopped = tokio::signal::ctrl_c() => return Ok(stopped?),
            _ = looks.tick() => {}
        }
        let found = look(db).await;
        if clears {
            output::clear_screen();
        }
        match found {
            Ok(portals) if !output::one_of_many(json, &value(&portals), &text(&portals)) => return Ok(()),
            Ok(_) => {}
            Err(error) => output::failure(&error.into()),
        }
    }
}

async fn look(db: &Db) -> Result<Vec<PortalStatus>, DbFailure> {
    db::status_counts(&*db.connection().await?).await
}

fn value(portals: &[PortalStatus]) -> Value {
    json!({"portals": portals})
}

fn text(portals: &[PortalStatus]) -> String {
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
