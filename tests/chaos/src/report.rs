//! What a person reads: a line a seed, and a table in the end.

use std::io::Write as _;
use std::time::Duration;

use comfy_table::Table;

use crate::arguments::Arguments;
use crate::drain::Drained;
use crate::place::{Place, QUEUES};
use crate::processes::Tally;
use crate::trouble::Played;
use crate::workload::Accounts;

/// A seed in figures.
pub(crate) struct Row {
    seed: u64,
    kills: u32,
    stops: u32,
    points: String,
    failpoints: u32,
    faults: String,
    redeliveries: u64,
    events: usize,
    calls: u64,
    replayed: u64,
    took: Duration,
    pub(crate) held: bool,
}

impl Row {
    pub(crate) fn of(
        place: &Place,
        tally: &Tally,
        played: &Played,
        drained: &Drained,
        accounts: &Accounts,
        held: bool,
        took: Duration,
    ) -> Self {
        let queues = place.queues.stats().queues;
        let own = QUEUES.iter().filter_map(|name| queues.get(*name));
        let points = tally.points.iter().map(|(name, times)| format!("{name} {times}")).collect::<Vec<_>>();
        Self {
            seed: place.scenario.seed,
            kills: tally.kills,
            stops: tally.stops,
            failpoints: tally.points.values().sum(),
            points: points.join(", "),
            faults: format!(
                "{} HubSpot, {} SQS, {} sessions, {} forgotten",
                played.hubspot, played.sqs, played.sessions, played.forgotten
            ),
            redeliveries: own.map(|queue| queue.received.saturating_sub(queue.sent)).sum(),
            events: accounts.accepted.len(),
            calls: place.simulator.stats().total,
            replayed: drained.replayed,
            took,
            held,
        }
    }

    const fn verdict(&self) -> &'static str {
        if self.held { "held" } else { "FAILED" }
    }
}

/// The command that repeats a seed.
pub(crate) fn again(seed: u64, arguments: &Arguments) -> String {
    let guard = arguments.guard_off.map(|guard| format!(" --guard-off {}", guard.name())).unwrap_or_default();
    let lease = arguments.lease_ms.map(|lease| format!(" --lease-ms {lease}")).unwrap_or_default();
    let moves = if arguments.no_moves { " --no-moves" } else { "" };
    format!("make chaos SEEDS=1 ARGS=\"--seed {seed} --rows {}{lease}{guard}{moves} --keep\"", arguments.rows)
}

/// A seed has ended.
pub(crate) fn progress(row: &Row) {
    let (seed, took, verdict) = (row.seed, row.took.as_secs(), row.verdict());
    line(&format!("seed {seed}: {verdict} after {took} s; failpoints: {}", row.points));
}

/// All seeds.
pub(crate) fn table(rows: &[Row]) {
    let mut table = Table::new();
    table.set_header([
        "seed",
        "kills",
        "stops",
        "failpoints",
        "faults",
        "redeliveries",
        "events",
        "calls",
        "replayed",
        "seconds",
        "verdict",
    ]);
    for row in rows {
        table.add_row([
            row.seed.to_string(),
            row.kills.to_string(),
            row.stops.to_string(),
            row.failpoints.to_string(),
            row.faults.clone(),
            row.redeliveries.to_string(),
            row.events.to_string(),
            row.calls.to_string(),
            row.replayed.to_string(),
            row.took.as_secs().to_string(),
            row.verdict().to_owned(),
        ]);
    }
    line(&table.to_string());
}

/// A line on standard output. A reader that went away is no failure of ours.
pub(crate) fn line(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
