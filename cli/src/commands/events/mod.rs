//! `hubferry events`

pub(super) mod change;
mod list;
pub(super) mod show;

use hubferry::adapters::db::ReplayedMapping;
use hubferry::config::Environment;
use hubferry::model::ids::EventId;
use hubferry::model::subscription::EventLane;

use super::{connection, database};
use crate::arguments::{CancelArgs, DEAD, EventsCommand, FilterArgs, ReplayArgs, UNFINISHED, event_ids};
use crate::end::{End, Misuse};

use change::{Change, Chosen, Job};

pub(crate) async fn run(command: EventsCommand, environment: Environment, json: bool) -> anyhow::Result<End> {
    match command {
        EventsCommand::List(args) => list::run(&connection(environment).await?, &args, json).await,
        EventsCommand::Show { id, personal } => show::run(&connection(environment).await?, id, personal, json).await,
        EventsCommand::Cancel(args) => {
            let (job, yes) = (cancel(&args)?, args.yes);
            change(job, yes, false, environment, json).await
        }
        EventsCommand::Replay(args) => {
            let (job, yes) = (replay(&args)?, args.yes);
            change(job, yes, args.dry_run, environment, json).await
        }
    }
}

/// What changes more than one row is looked at first.
async fn change(job: Job, yes: bool, dry_run: bool, environment: Environment, json: bool) -> anyhow::Result<End> {
    let db = database(environment)?;
    let is_one = matches!(&job.chosen, Chosen::Named(events) if events.len() == 1);
    if (yes || is_one) && !dry_run { job.execute(&db, json).await } else { job.preview(&db, json).await }
}

fn cancel(args: &CancelArgs) -> anyhow::Result<Job> {
    let statuses: Vec<&'static str> = UNFINISHED
        .into_iter()
        .chain([DEAD])
        .filter(|status| args.statuses.is_empty() || args.statuses.iter().any(|wanted| wanted == status))
        .collect();
    let chosen = chosen(event_ids(&args.events), &args.filter, statuses, !args.statuses.is_empty())?;
    Ok(Job { change: Change::Cancel, chosen, pace: None })
}

fn replay(args: &ReplayArgs) -> anyhow::Result<Job> {
    let chosen = chosen(event_ids(&args.events), &args.filter, vec![DEAD], false)?;
    let mapping = if args.mapping == "current" { ReplayedMapping::Current } else { ReplayedMapping::Same };
    let in_bulk = match args.lane.as_deref() {
        Some(lane) => lane == EventLane::Bulk.as_str(),
        None => matches!(chosen, Chosen::Matching { .. }),
    };
    let lane = in_bulk.then_some(EventLane::Bulk);
    Ok(Job { change: Change::Replay { mapping, lane }, chosen, pace: args.pace })
}

/// Either ids or a filter: both would leave open which of them counts, and neither would mean everything.
fn chosen(
    events: Vec<EventId>,
    filter: &FilterArgs,
    statuses: Vec<&'static str>,
    by_status: bool,
) -> anyhow::Result<Chosen> {
    match (events.is_empty(), filter.is_empty() && !by_status) {
        (false, true) => Ok(Chosen::Named(events)),
        (true, false) => Ok(Chosen::Matching { statuses, filter: filter.to_filter(true) }),
        (false, false) => Err(Misuse("name events, or choose them by options, but not both".into()).into()),
        (true, true) => {
            Err(Misuse("name the events, or choose them by options such as --code or --brand".into()).into())
        }
    }
}
