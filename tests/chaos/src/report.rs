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
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) seed: u64,
    kills: u32,
    stops: u32,
    points: String,
    failpoints: u32,
    faults: [u64; 4],
    redeliveries: u64,
    events: usize,
    erased: usize,
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
            faults: [played.hubspot.into(), played.sqs.into(), played.sessions.unsigned_abs(), played.forgotten.into()],
            redeliveries: own.map(|queue| queue.received.saturating_sub(queue.sent)).sum(),
            events: accounts.accepted.len(),
            erased: accounts.people.iter().filter(|person| person.erased.is_some()).count(),
            calls: place.simulator.stats().total,
            replayed: drained.replayed,
            took,
            held,
        }
    }

    /// Both together.
    fn plus(mut self, other: &Self) -> Self {
        self.kills += other.kills;
        self.stops += other.stops;
        self.failpoints += other.failpoints;
        for (sum, more) in self.faults.iter_mut().zip(other.faults) {
            *sum += more;
        }
        self.redeliveries += other.redeliveries;
        self.events += other.events;
        self.erased += other.erased;
        self.calls += other.calls;
        self.replayed += other.replayed;
        self.took += other.took;
        self
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
    let erasures = if arguments.no_erasures { " --no-erasures" } else { "" };
    format!("make chaos SEEDS=1 ARGS=\"--seed {seed} --rows {}{lease}{guard}{moves}{erasures} --keep\"", arguments.rows)
}

/// A seed has ended.
pub(crate) fn progress(row: &Row) {
    let (seed, took, verdict) = (row.seed, row.took.as_secs(), row.verdict());
    line(&format!("seed {seed}: {verdict} after {took} s; failpoints: {}", row.points));
}

/// All seeds, and all of them together.
pub(crate) fn table(rows: &[Row], took: Duration) {
    let mut table = Table::new();
    table.set_header([
        "seed",
        "kills",
        "stops",
        "failpoints",
        "faults",
        "redeliveries",
        "events",
        "erased",
        "calls",
        "replayed",
        "seconds",
        "verdict",
    ]);
    for row in rows {
        table.add_row(cells(row, row.seed.to_string(), row.verdict().to_owned()));
    }
    let total = rows.iter().fold(Row::default(), Row::plus);
    let failed = rows.iter().filter(|row| !row.held).count();
    table.add_row(cells(&total, format!("{} seeds", rows.len()), format!("{failed} failed")));
    line(&table.to_string());
    line(&format!("{} seeds took {} s", rows.len(), took.as_secs()));
}

fn cells(row: &Row, seed: String, verdict: String) -> [String; 12] {
    let [hubspot, sqs, sessions, forgotten] = row.faults;
    [
        seed,
        row.kills.to_string(),
        row.stops.to_string(),
        row.failpoints.to_string(),
        format!("{hubspot} HubSpot, {sqs} SQS, {sessions} sessions, {forgotten} forgotten"),
        row.redeliveries.to_string(),
        row.events.to_string(),
        row.erased.to_string(),
        row.calls.to_string(),
        row.replayed.to_string(),
        row.took.as_secs().to_string(),
        verdict,
    ]
}

/// A line on standard output. A reader that went away is no failure of ours.
pub(crate) fn line(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
