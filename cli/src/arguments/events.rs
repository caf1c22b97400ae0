//! What can be said about events.

use std::time::Duration;

use clap::{Args, Subcommand};
use hubferry::adapters::db::EventFilter;
use hubferry::model::ids::{EventId, PortalId};
use uuid::Uuid;

use crate::end::EXIT_CODES;

/// What is not finished.
pub(crate) const UNFINISHED: [&str; 5] = ["pending", "publishing", "queued", "processing", "retry"];

/// What ended, and needs nobody.
pub(crate) const ENDED: [&str; 3] = ["synced", "superseded", "cancelled"];

/// What ended, and needs a person.
pub(crate) const DEAD: &str = "dead";

/// What `hubferry events replay --help` explains.
const REPLAY: &str = "\
Carry out the decisions of dead events once more

A replay is a new event at the head of its stream: the same desired state, the same consent with its own date, the contact's \
values as they are now. The dead event stays, and is shown as replayed. An event is left alone if something newer was \
decided, if it was replayed before, if its contact was erased, or if it is not dead; each is listed with its reason.

More than one event is changed only with --yes; without it, the command says what would happen.";

#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    /// List events: what is not finished or dead, or what --status names
    List(ListArgs),
    /// Show what is stored about one event
    Show {
        /// Id of an event or of a request
        id: Uuid,
        /// Show the contact's address and properties too
        #[arg(long)]
        personal: bool,
    },
    /// Stop events that are not finished or dead, for good
    Cancel(CancelArgs),
    /// Carry out the decisions of dead events once more
    #[command(long_about = REPLAY)]
    Replay(ReplayArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only with this status; may be given several times
    #[arg(long = "status", value_name = "STATUS", value_parser = [
        "pending", "publishing", "queued", "processing", "retry", "dead", "synced", "superseded", "cancelled"])]
    pub(crate) statuses: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Most rows
    #[arg(long, value_name = "ROWS", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) limit: u16,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CancelArgs {
    /// The events; or name them by the options
    #[arg(value_name = "EVENT_ID")]
    pub(crate) events: Vec<Uuid>,
    /// Only with this status; may be given several times
    #[arg(long = "status", value_name = "STATUS", value_parser = [
        "pending", "publishing", "queued", "processing", "retry", "dead"])]
    pub(crate) statuses: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Do it; without this, more than one event is only looked at
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ReplayArgs {
    /// The events; or name them by the options
    #[arg(value_name = "EVENT_ID")]
    pub(crate) events: Vec<Uuid>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Under the mapping that the event carries, or under the one that is active now
    #[arg(long, default_value = "same", value_parser = ["same", "current"])]
    pub(crate) mapping: String,
    /// Each event's own lane, or the bulk lane, where nobody waits [default: same for named events, bulk for a filter]
    #[arg(long, value_parser = ["same", "bulk"])]
    pub(crate) lane: Option<String>,
    /// At most so many events a minute
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pace: Option<u32>,
    /// Say what would happen, and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do it; without this, more than one event is only looked at
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Which events are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct FilterArgs {
    /// Only of this portal
    #[arg(long, value_name = "PORTAL_ID")]
    pub(crate) portal: Option<i64>,
    /// Only of this brand
    #[arg(long)]
    pub(crate) brand: Option<String>,
    /// Only of this product
    #[arg(long)]
    pub(crate) product: Option<String>,
    /// Only with this error code, such as `missing_scopes`
    #[arg(long)]
    pub(crate) code: Option<String>,
    /// Only with an error of this class, such as configuration
    #[arg(long)]
    pub(crate) class: Option<String>,
    /// Only of this kind
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// Only what was accepted longer ago than this, such as 90s, 30m, 1h or 2d
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub(crate) older_than: Option<Duration>,
}

impl FilterArgs {
    /// Names all events.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn to_filter(&self, unreplayed: bool) -> EventFilter {
        EventFilter {
            portal: self.portal.map(PortalId),
            brand: self.brand.clone(),
            product: self.product.clone(),
            code: self.code.clone(),
            class: self.class.clone(),
            kind: self.kind.clone(),
            older_than: self.older_than,
            unreplayed,
        }
    }
}

/// Ids as the database's verbs take them, each once.
pub(crate) fn event_ids(ids: &[Uuid]) -> Vec<EventId> {
    let mut ids: Vec<EventId> = ids.iter().copied().map(EventId).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// A number and a unit.
pub(super) fn time_span(text: &str) -> Result<Duration, String> {
    let fault = || "must be a number and one of s, m, h, d, such as 90s or 2d".to_owned();
    let unit = match text.chars().next_back() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3_600,
        Some('d') => 86_400,
        _ => return Err(fault()),
    };
    let number: u32 = text[..text.len() - 1].parse().map_err(|_| fault())?;
    Ok(Duration::from_secs(u64::from(number) * unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        assert_eq!(time_span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time_span("2d"), Ok(Duration::from_hours(48)));
        for bad in ["", "h", "1", "-1h", "1.5h", "1w", "1 h", "1ü"] {
            assert!(time_span(bad).is_err(), "{bad}");
        }
    }
}
