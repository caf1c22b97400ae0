//! `hubferry portal pause` and `hubferry portal resume`

use std::time::Duration;

use anyhow::Context as _;
use hubferry::adapters::budget::Budget;
use hubferry::adapters::db::{self, Resumed};
use hubferry::clock;
use hubferry::config::Environment;
use hubferry::model::budget::Bucket;
use hubferry::model::ids::PortalId;
use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::super::connection;
use crate::arguments::PortalPauseArgs;
use crate::end::{End, Misuse};
use crate::output;

/// Nothing is published for the portal until then. Requests are accepted all the same, and wait.
pub(super) async fn pause(args: PortalPauseArgs, environment: Environment, json: bool) -> anyhow::Result<End> {
    let portal = PortalId(args.portal_id);
    let until = end_of(args.pause_for, args.until)?;
    if !db::pause_portal_until(&*connection(environment).await?, portal, until, &args.reason).await? {
        return Err(unknown(portal));
    }
    let text = format!("portal {portal} is paused until {until:.0}: {}", args.reason);
    output::result(json, &json!({"portal": portal, "paused_until": until, "reason": args.reason}), &text);
    Ok(End::Done)
}

/// Ends the pause and, where Redis is, a freeze of the portal's calls; what waits for its time is due now.
pub(super) async fn resume(portal_id: i64, environment: Environment, json: bool) -> anyhow::Result<End> {
    let portal = PortalId(portal_id);
    let redis_url = environment.clone().redis_url();
    let connection = connection(environment).await?;
    let Some(resumed) = db::resume_portal(&*connection, portal).await? else { return Err(unknown(portal)) };
    if !redis_url.expose_secret().is_empty() {
        let bucket = Bucket::calls(portal, resumed.call_limit, resumed.call_window);
        let budget = Budget::connect(redis_url.expose_secret())?;
        budget.resume(&bucket).await.context("the pause has ended, but not a freeze of the portal's calls")?;
    }
    let Resumed { was_paused, events, .. } = resumed;
    let state = if was_paused { "goes on" } else { "was not paused" };
    let text = format!("portal {portal} {state}; {events} events that waited for their time are due now");
    output::result(json, &json!({"portal": portal, "was_paused": was_paused, "events_due": events}), &text);
    Ok(End::Done)
}

/// Exactly one of the two is given; the command line sees to it.
fn end_of(pause_for: Option<Duration>, until: Option<Timestamp>) -> anyhow::Result<Timestamp> {
    let now = clock::now();
    let until = match pause_for {
        Some(time) => Some(now.checked_add(time).context("the pause would end after the end of time")?),
        None => until,
    };
    match until {
        Some(until) if until > now => Ok(until),
        _ => Err(Misuse("a pause has to end in the future".to_owned()).into()),
    }
}

fn unknown(portal: PortalId) -> anyhow::Error {
    Misuse(format!("there is no portal {portal} here: `hubferry status` lists those that are registered")).into()
}
