//! After the trouble: everything runs again, and what waits is not waited for.

use std::time::{Duration, Instant};

use hubferry::adapters::budget::BudgetError;

use crate::place::{Place, QUEUES, VISIBILITY};
use crate::processes::{Crew, Part};

/// A stack that has not finished by then does not converge.
const PATIENCE: Duration = Duration::from_mins(2);

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// Between two nudges: long enough for a dispatcher's round and a batch.
const NUDGE_EVERY: Duration = Duration::from_secs(3);

/// Times that Redis may not answer.
const MOST_UNANSWERED: u32 = 50;

/// What an operator would do to have all of it done at once: what waits is due now, what was given up is tried again.
const MAKE_DUE: &str = "
update hubferry.portals set paused_until = null, paused_reason = null where paused_until is not null;
update hubferry.outbox_events set next_attempt_at = clock_timestamp()
where status in ('pending', 'retry') and next_attempt_at > clock_timestamp();
update hubferry.outbox_events set queued_at = queued_at - interval '5 minutes'
where status = 'queued' and queued_at < clock_timestamp() - interval '12 seconds';
";

/// Tried as often as allowed is what this much trouble can lead to; every other end is the product's fault.
const REPLAY: &str = "
update hubferry.outbox_events
set status = 'retry', finished_at = null, process_attempts = 0, crashes = 0, next_attempt_at = clock_timestamp()
where status = 'dead' and last_error_code in ('attempts_exhausted', 'worker_crashed')";

/// What the end of a run took.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    pub(crate) replayed: u64,
    /// Why it is not at rest, if it is not.
    pub(crate) offences: Vec<String>,
}

pub(crate) async fn drain(place: &Place, crew: &mut Crew<'_>) -> anyhow::Result<Drained> {
    place.simulator.clear_faults();
    place.queues.clear_faults();
    crew.disarm();
    crew.wake(Duration::ZERO).await?;
    crew.look()?;
    crew.restart_all()?;
    let mut drained = Drained::default();
    let began = Instant::now();
    let mut nudged: Option<Instant> = None;
    while !is_at_rest(place).await? {
        if began.elapsed() > PATIENCE {
            drained.offences.push(unfinished(place).await?);
            break;
        }
        if nudged.is_none_or(|at| at.elapsed() > NUDGE_EVERY) {
            drained.replayed += nudge(place, crew).await?;
            nudged = Some(Instant::now());
        }
        crew.look()?;
        crew.wake(Duration::ZERO).await?;
        crew.restart_all()?;
        tokio::time::sleep(LOOK_EVERY).await;
    }
    drained.offences.extend(tokens(place).await?);
    Ok(drained)
}

/// Makes due what waits, ends a freeze, and has the reconciler run, which does so when it starts.
async fn nudge(place: &Place, crew: &mut Crew<'_>) -> anyhow::Result<u64> {
    // A window that a 429 froze is not waited for either.
    let _ = place.budget.resume(&place.bucket()).await;
    place.db.batch_execute(MAKE_DUE).await?;
    // A message that its receiver took to the grave shows again at once.
    place.queues.advance(VISIBILITY);
    for index in crew.of(Some(Part::Reconciler)) {
        crew.kill(index);
        crew.tally.kills -= 1;
    }
    Ok(place.db.execute(REPLAY, &[]).await?)
}

/// Every event is finished and every message is gone.
async fn is_at_rest(place: &Place) -> anyhow::Result<bool> {
    let sql = "select count(*) from hubferry.outbox_events where finished_at is null or (status = 'dead' and last_error_code in ('attempts_exhausted', 'worker_crashed'))";
    let open: i64 = place.db.query_one(sql, &[]).await?.get(0);
    let messages = QUEUES.iter().map(|queue| place.queues.counts(queue));
    Ok(open == 0 && messages.map(|count| count.visible + count.in_flight + count.delayed).sum::<usize>() == 0)
}

async fn unfinished(place: &Place) -> anyhow::Result<String> {
    let sql = "select coalesce(string_agg(format('%s %s (%s)', n, status, code), ', '), 'none')
               from (select count(*) as n, status, last_error_code as code from hubferry.outbox_events
                     where finished_at is null group by 2, 3) as open";
    let open: String = place.db.query_one(sql, &[]).await?.get(0);
    let counts: Vec<_> = QUEUES.iter().map(|queue| place.queues.counts(queue)).collect();
    Ok(format!("not at rest after {PATIENCE:?}: unfinished events {open}; messages {counts:?}"))
}

/// All tokens come back, those of the dead as well, and then the whole limit can be granted at once.
async fn tokens(place: &Place) -> anyhow::Result<Option<String>> {
    use hubferry::model::budget::{Lane, Reserved};
    let bucket = place.bucket();
    let mut deadline = Instant::now() + place.scenario.tokens_back_after() + Duration::from_secs(2);
    // What is not answered within Redis' time limit says nothing about tokens: a busy machine is asked again.
    let mut unanswered = 0;
    loop {
        let _ = place.budget.resume(&bucket).await;
        let answer = place
            .budget
            .reserve(&bucket, Lane::Interactive, place.scenario.call_limit, Duration::from_secs(1), Duration::ZERO)
            .await;
        match answer {
            Ok(Reserved::Granted(reservation)) => {
                let _ = place.budget.release(&reservation).await;
                return Ok(None);
            }
            Err(BudgetError::Unavailable { .. }) if unanswered < MOST_UNANSWERED => {
                unanswered += 1;
                deadline += LOOK_EVERY;
                tokio::time::sleep(LOOK_EVERY).await;
            }
            _ if Instant::now() < deadline => tokio::time::sleep(LOOK_EVERY).await,
            other => {
                let state = place.budget.inspect(&bucket).await;
                return Ok(Some(format!("the whole limit can't be granted: {other:?}, {state:?}")));
            }
        }
    }
}
