//! Runs seeds, and says what is wrong with those that fail.

use std::fmt::Write as _;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use futures::stream::{self, StreamExt as _};

use crate::arguments::Arguments;
use crate::check::{self, Findings};
use crate::drain::{self, Drained};
use crate::place::Place;
use crate::processes::{Crew, Tally};
use crate::report::{self, Row};
use crate::scenario::{Scenario, Stream};
use crate::trouble::{self, Played};
use crate::workload::{self, Accounts};
use crate::{history, people};

/// Sentences about what is wrong that are printed.
const MOST_OFFENCES: usize = 20;

/// Persons whose history is printed.
const MOST_HISTORIES: usize = 2;

/// What a seed came to.
struct Outcome {
    accounts: Accounts,
    tally: Tally,
    played: Played,
    drained: Drained,
    findings: Findings,
}

/// Runs all seeds. Answers whether every one held.
pub(crate) async fn all(arguments: &Arguments) -> anyhow::Result<bool> {
    let began = Instant::now();
    let mut rows = Vec::new();
    let mut broken = 0;
    let seeds = stream::iter(arguments.seed..arguments.seed + arguments.seeds);
    let run = async |seed| (seed, one(seed, arguments).await);
    let mut ended = pin!(seeds.map(run).buffer_unordered(arguments.at_once.into()));
    while let Some((seed, ended)) = ended.next().await {
        let held = match ended {
            Ok(row) => {
                report::progress(&row);
                let held = row.held;
                rows.push(row);
                held
            }
            Err(error) => {
                report::line(&format!("seed {seed}: could not be played to its end: {error:#}"));
                broken += 1;
                false
            }
        };
        if !held && arguments.fail_fast {
            break;
        }
    }
    rows.sort_by_key(|row| row.seed);
    report::table(&rows, began.elapsed());
    Ok(broken == 0 && rows.iter().all(|row| row.held))
}

async fn one(seed: u64, arguments: &Arguments) -> anyhow::Result<Row> {
    let began = Instant::now();
    let place = Place::new(Scenario::draw(seed, arguments)).await?;
    let outcome = play(&place).await?;
    let held = outcome.findings.are_none();
    let row =
        Row::of(&place, &outcome.tally, &outcome.played, &outcome.drained, &outcome.accounts, held, began.elapsed());
    if !held {
        report::line(&explanation(&place, arguments, &outcome).await?);
    }
    if !held && arguments.keep {
        report::line(&place.keep());
    } else {
        place.remove().await?;
    }
    Ok(row)
}

async fn play(place: &Place) -> anyhow::Result<Outcome> {
    let mut crew = Crew::of_place(place);
    crew.restart_armed(&mut place.scenario.dice(Stream::Start))?;
    let ready = AtomicBool::new(false);
    let clients = async {
        let accounts = workload::run(place).await;
        ready.store(true, Ordering::Relaxed);
        accounts
    };
    let (accounts, played) = tokio::join!(clients, trouble::make(place, &mut crew, &ready));
    let (accounts, played) = (accounts?, played?);
    let mut drained = drain::drain(place, &mut crew).await?;
    let tally = crew.end().await?;
    let mut findings = check::findings(place, &accounts).await?;
    findings.offences.append(&mut drained.offences);
    Ok(Outcome { accounts, tally, played, drained, findings })
}

/// What is wrong, how to see it again, and what happened to those it happened to. One text, since seeds run side by side.
async fn explanation(place: &Place, arguments: &Arguments, outcome: &Outcome) -> anyhow::Result<String> {
    let Findings { offences, differences } = &outcome.findings;
    let seed = place.scenario.seed;
    let mut text = format!("\nSEED {seed} FAILED: {:?}\nagain: {}\n", place.scenario, report::again(seed, arguments));
    let differing = differences.iter().map(|difference| format!("person {}: {}", difference.person, difference.what));
    let all: Vec<String> = offences.iter().cloned().chain(differing).collect();
    for offence in all.iter().take(MOST_OFFENCES) {
        writeln!(text, "- {offence}")?;
    }
    if all.len() > MOST_OFFENCES {
        writeln!(text, "- and {} more", all.len() - MOST_OFFENCES)?;
    }
    for (end, times) in &outcome.tally.unexpected {
        writeln!(text, "  ({times} x {end})")?;
    }
    let mut shown: Vec<usize> = differences.iter().map(|difference| difference.person).collect();
    shown.dedup();
    for number in shown.into_iter().take(MOST_HISTORIES) {
        let person: Option<&people::Person> = outcome.accounts.people.iter().find(|person| person.number == number);
        if let Some(person) = person {
            text.push_str(&history::of(place, person).await?);
        }
    }
    Ok(text)
}
