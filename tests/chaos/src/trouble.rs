//! What goes wrong while the clients decide: processes die and hang, HubSpot and SQS misbehave.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hubspot_simulator::{Action, Fault};
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::json;
use sqs_emulator::{Fault as QueueFault, FaultKind};

use crate::arguments::Guard;
use crate::audit;
use crate::place::{Place, QUEUES, VISIBILITY};
use crate::processes::{Crew, Part};
use crate::scenario::Stream;

/// Trouble ends after this, whether the clients are ready or not.
const LONGEST: Duration = Duration::from_mins(1);

/// What was played, besides what happened to processes.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) hubspot: u32,
    pub(crate) sqs: u32,
    pub(crate) sessions: i64,
    pub(crate) forgotten: u32,
}

/// Makes trouble until the clients are ready, and for as long as the scenario says.
pub(crate) async fn make(place: &Place, crew: &mut Crew<'_>, clients_ready: &AtomicBool) -> anyhow::Result<Played> {
    let mut dice = place.scenario.dice(Stream::Trouble);
    let mut played = Played::default();
    let began = Instant::now();
    // The intake has to answer once, so that every client is under way.
    tokio::time::sleep(Duration::from_secs(1)).await;
    while began.elapsed() < LONGEST
        && (began.elapsed() < place.scenario.trouble || !clients_ready.load(Ordering::Relaxed))
    {
        crew.look()?;
        crew.restart_armed(&mut dice)?;
        crew.wake(place.scenario.lease.mul_f64(dice.random_range(1.5..2.0))).await?;
        for _ in 0..dice.random_range(1..=2) {
            one(place, crew, &mut dice, &mut played).await?;
        }
        for _ in 0..dice.random_range(2..10) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            // Best while somebody else is at what it held.
            if audit::is_retaken(&place.db).await? {
                crew.wake(place.scenario.lease).await?;
            }
        }
    }
    Ok(played)
}

async fn one(place: &Place, crew: &mut Crew<'_>, dice: &mut StdRng, played: &mut Played) -> anyhow::Result<()> {
    match dice.random_range(0..100) {
        0..18 => {
            let parts = crew.of(None);
            let chosen = parts[dice.random_range(0..parts.len())];
            let spared = match crew.slots[chosen].part {
                Part::Intake => !place.scenario.intake_dies,
                // Alive they do more harm.
                Part::Worker => place.scenario.guard_off == Some(Guard::Fence),
                Part::Dispatcher | Part::Reconciler => false,
            };
            if !spared {
                crew.kill(chosen);
            }
        }
        18..28 => {
            let part = if dice.random_bool(0.7) && place.scenario.guard_off != Some(Guard::Fence) {
                Part::Worker
            } else {
                Part::Dispatcher
            };
            let parts = crew.of(Some(part));
            crew.stop(parts[dice.random_range(0..parts.len())]).await?;
        }
        28..65 => {
            place.simulator.add_fault(hubspot_fault(place, dice));
            played.hubspot += 1;
        }
        65..72 => place.queues.advance(VISIBILITY),
        72..88 => {
            place.queues.add_fault(queue_fault(dice));
            played.sqs += 1;
        }
        88..96 if place.scenario.guard_off != Some(Guard::Fence) => played.sessions += break_finish(place).await?,
        _ if place.scenario.queues_forget => {
            place.queues.clear_queue(QUEUES[dice.random_range(0..QUEUES.len())]);
            played.forgotten += 1;
        }
        _ => {}
    }
    Ok(())
}

/// Slow answers are longer than a call may take; late processing is not, since no client could ever guard against a HubSpot that
/// carries out a call long after the client has gone.
fn hubspot_fault(place: &Place, dice: &mut StdRng) -> Fault {
    let call = u64::try_from(place.scenario.call_limit_of_lease().as_millis()).unwrap_or(1000);
    let limited = |policy: &str| {
        Action::respond(429, json!({"status": "error", "category": "RATE_LIMITS", "policyName": policy}))
    };
    // Without the guards of the lease, slow calls are what shows it.
    let slow = matches!(place.scenario.guard_off, Some(Guard::Lease | Guard::Fence)) && dice.random_bool(0.6);
    let action = match if slow { 4 } else { dice.random_range(0..12) } {
        0 => limited("SECONDLY"),
        1 => Action::respond(503, json!({"status": "error"})),
        2 => Action::Html(502),
        3 => Action::locked(),
        4 | 5 => Action::DelayMs(dice.random_range(call / 8..call * 6 / 10)),
        6 => Action::SlowAnswerMs(dice.random_range(call / 2..call * 3 / 2)),
        7 => Action::Cut,
        8 | 9 => Action::LoseAnswer,
        10 => Action::Truncate,
        _ => Action::CutBody,
    };
    let fault = Fault::next(dice.random_range(1..=3), action);
    let endpoints = [
        "contacts.batch_upsert",
        "preferences.batch_write",
        "preferences.write",
        "lists.add_members",
        "lists.remove_members",
        "lists.change_members",
    ];
    match endpoints.choose(dice) {
        Some(endpoint) if dice.random_bool(0.6) => fault.on_endpoint(endpoint),
        _ => fault,
    }
}

fn queue_fault(dice: &mut StdRng) -> QueueFault {
    let kind = match dice.random_range(0..8) {
        0 | 1 => FaultKind::DuplicateDelivery,
        2 => FaultKind::EntryFailure { code: "InternalError".into(), sender_fault: false },
        3 => FaultKind::EntryOmitted { effect: dice.random_bool(0.5) },
        4 => FaultKind::DelayedDelivery { seconds: dice.random_range(1..=4) },
        5 => FaultKind::Unavailable,
        6 => FaultKind::CutBeforeEffect,
        _ => FaultKind::CutAfterEffect,
    };
    QueueFault::new(kind).next(dice.random_range(1..=6))
}

/// Waits a moment for a finish to begin, and ends its session in the middle.
async fn break_finish(place: &Place) -> anyhow::Result<i64> {
    audit::slow_finish(&place.db, 0.15).await?;
    let mut broken = 0;
    for _ in 0..20 {
        broken = audit::break_finish(&place.db).await?;
        if broken > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    audit::slow_finish(&place.db, 0.0).await?;
    Ok(broken)
}
