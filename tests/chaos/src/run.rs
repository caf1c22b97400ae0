//! Runs seeds one after the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

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
    let mut rows = Vec::new();
    for seed in arguments.seed..arguments.seed + arguments.seeds {
        let row = one(seed, arguments).await?;
        report::progress(&row);
        let failed = !row.held;
        rows.push(row);
        if failed && arguments.fail_fast {
            break;
        }
    }
    report::table(&rows);
    Ok(rows.iter().all(|row| row.held))
}

async fn one(seed: u64, arguments: &Arguments) -> anyhow::Result<Row> {
    let began = Instant::now();
    let place = Place::new(Scenario::draw(seed, arguments)).await?;
    let outcome = play(&place).await?;
    let held = outcome.findings.are_none();
    let row =
        Row::of(&place, &outcome.tally, &outcome.played, &outcome.drained, &outcome.accounts, held, began.elapsed());
    if !held {
        explain(&place, arguments, &outcome).await?;
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

/// Says what is wrong, how to see it again, and what happened to those it happened to.
async fn explain(place: &Place, arguments: &Arguments, outcome: &Outcome) -> anyhow::Result<()> {
    let Findings { offences, differences } = &outcome.findings;
    report::line(&format!("\nSEED {} FAILED: {:?}", place.scenario.seed, place.scenario));
    report::line(&format!("again: {}", report::again(place.scenario.seed, arguments)));
    let differing = differences.iter().map(|difference| format!("person {}: {}", difference.person, difference.what));
    let all: Vec<String> = offences.iter().cloned().chain(differing).collect();
    for offence in all.iter().take(MOST_OFFENCES) {
        report::line(&format!("- {offence}"));
    }
    if all.len() > MOST_OFFENCES {
        report::line(&format!("- and {} more", all.len() - MOST_OFFENCES));
    }
    for (end, times) in &outcome.tally.unexpected {
        report::line(&format!("  ({times} x {end})"));
    }
    let mut shown: Vec<usize> = differences.iter().map(|difference| difference.person).collect();
    shown.dedup();
    for number in shown.into_iter().take(MOST_HISTORIES) {
        let person: Option<&people::Person> = outcome.accounts.people.iter().find(|person| person.number == number);
        if let Some(person) = person {
            report::line(&history::of(place, person).await?);
        }
    }
    Ok(())
}
