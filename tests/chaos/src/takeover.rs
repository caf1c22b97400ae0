//! How long it takes until others have finished what a killed worker held.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use hubspot_simulator::{Action, Fault};
use serde_json::json;
use uuid::Uuid;

use crate::arguments::Arguments;
use crate::people::{BRAND, PRODUCTS, address};
use crate::place::Place;
use crate::processes::{Crew, Part};
use crate::report;
use crate::scenario::Scenario;

/// What the product promises: a lease of 25 s, a round of the dispatcher, and the work itself.
const PROMISED: Duration = Duration::from_secs(30);

/// Calls are this slow until the kill, so that it comes in the middle of a batch.
const SLOW: u64 = 3000;

/// Nothing of this takes longer.
const PATIENCE: Duration = Duration::from_secs(90);

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Measures once. Answers whether the promise was kept.
pub(crate) async fn measure(arguments: &Arguments) -> anyhow::Result<bool> {
    let place = Place::new(Scenario::ordinary(arguments.rows)).await?;
    let took = kill_one(&place).await?;
    place.remove().await?;
    Ok(took < PROMISED)
}

async fn kill_one(place: &Place) -> anyhow::Result<Duration> {
    let mut crew = Crew::of_place(place);
    crew.restart_all()?;
    let workers = crew.of(Some(Part::Worker));
    // The other one sleeps until this one holds something.
    tokio::time::sleep(Duration::from_secs(2)).await;
    crew.stop(workers[1]).await?;
    place.simulator.add_fault(Fault::always(Action::DelayMs(SLOW)));
    accept(place).await?;
    let held = held(place).await?;
    let killed_at = Instant::now();
    crew.kill(workers[0]);
    place.simulator.clear_faults();
    crew.wake(Duration::ZERO).await?;
    while unfinished(place, &held).await? > 0 {
        anyhow::ensure!(killed_at.elapsed() < PATIENCE, "not finished after {PATIENCE:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let took = killed_at.elapsed();
    report::line(&format!(
        "a worker was killed with {} events in its hands; others had finished them {:.1} s later, of {} s promised",
        held.len(),
        took.as_secs_f64(),
        PROMISED.as_secs()
    ));
    crew.end().await?;
    Ok(took)
}

/// One request a person, all bulk.
async fn accept(place: &Place) -> anyhow::Result<()> {
    let requests: Vec<_> = (0..place.scenario.people)
        .map(|person| {
            json!({
                "idempotency_key": format!("takeover-{person}"), "brand": BRAND, "product": PRODUCTS[0].name,
                "contact": {"email": address(person, 0)}, "desired_state": "subscribed", "lane": "bulk",
                "consent": {"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "form"},
            })
        })
        .collect();
    let sql = "select count(*) from hubferry.accept_subscriptions($1) where error_code is null";
    let accepted: i64 = place.db.query_one(sql, &[&json!(requests)]).await?.get(0);
    anyhow::ensure!(usize::try_from(accepted)? == requests.len(), "not all requests were accepted");
    Ok(())
}

/// The events that the worker has claimed, as soon as it has some.
async fn held(place: &Place) -> anyhow::Result<Vec<Uuid>> {
    let sql = "select event_id from hubferry.outbox_events where status = 'processing'";
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let rows = place.db.query(sql, &[]).await?;
        if !rows.is_empty() {
            // Long enough for the first call to be under way.
            tokio::time::sleep(Duration::from_millis(SLOW / 3)).await;
            let rows = place.db.query(sql, &[]).await?;
            return Ok(rows.iter().map(|row| row.get(0)).collect());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    None.context("no worker claimed anything")
}

async fn unfinished(place: &Place, held: &[Uuid]) -> anyhow::Result<i64> {
    let sql = "select count(*) from hubferry.outbox_events where event_id = any ($1) and finished_at is null";
    Ok(place.db.query_one(sql, &[&held]).await?.get(0))
}
