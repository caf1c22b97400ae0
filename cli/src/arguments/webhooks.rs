//! `hubferry webhooks`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hubferry::adapters::db::NotificationFilter;
use hubferry::clock;
use jiff::Timestamp;

use super::events::time_span;
use crate::end::EXIT_CODES;

/// What `hubferry webhooks verify --help` explains.
const VERIFY: &str = "\
Say which part of a webhook's signature differs

Takes a request as it arrived: from --file, or from standard input. Either as HTTP writes it, the request line first, then \
headers, an empty line and the body; or as JSON: {\"method\", \"url\", \"headers\": {…}, \"body\"}, or an event of API \
Gateway. The address it should be signed for and the secrets come from HUBFERRY_WEBHOOK_URL and HUBFERRY_WEBHOOK_SECRETS \
(or HUBFERRY_WEBHOOK_SECRETS_FILE), as the webhook function reads them.

The body has to be there byte by byte: copied from a log, it often has lost an escape or gained a line break. If the \
signature fits after such a change, that is said. Neither secrets nor the right signature are ever shown.";

/// What `hubferry webhooks replay --help` explains.
const REPLAY: &str = "\
Take up notifications once more, as if they had just come

For the day when what became of them was wrong: a portal that was not registered, rules that were pushed too late, a \
projection that was mended. Notifications are chosen by the time at which their delivery came and by their state. What was \
quarantined is read again; what was signed for somebody else stays where it is. The projection comes out the same however often a \
notification is applied, and an effect that was made before is not made again. Our own writes coming back are left alone, unless \
--state echo asks for them: then rules are asked about them too.

Without --yes, the command says what would be taken up.";

#[derive(Debug, Subcommand)]
pub(crate) enum WebhooksCommand {
    /// List notifications, those of the newest delivery first
    List(WebhooksListArgs),
    /// Show what is stored about a delivery or a notification
    Show {
        /// Id of a delivery, or key of a notification
        id: String,
        /// Show values too
        #[arg(long)]
        values: bool,
    },
    /// Take up notifications once more, as if they had just come
    #[command(long_about = REPLAY, after_help = EXIT_CODES)]
    Replay(WebhooksReplayArgs),
    /// Say which part of a webhook's signature differs
    #[command(long_about = VERIFY, after_help = EXIT_CODES)]
    Verify(VerifyArgs),
}

/// What can have become of a notification.
const STATES: [&str; 6] = ["received", "quarantined", "applied", "superseded", "ignored", "echo"];

/// States that a replay takes up when none is named: all in which something was decided, but for echoes.
const REPLAYED: [&str; 4] = ["quarantined", "applied", "superseded", "ignored"];

#[derive(Debug, Args)]
pub(crate) struct WebhooksListArgs {
    /// From then on: an instant (RFC 3339), or how long ago, such as 30m, 12h or 2d
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = instant)]
    pub(crate) since: Timestamp,
    #[command(flatten)]
    pub(crate) filter: NotificationArgs,
    /// Most rows
    #[arg(long, value_name = "ROWS", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) limit: u16,
}

#[derive(Debug, Args)]
pub(crate) struct WebhooksReplayArgs {
    /// From then on: an instant (RFC 3339), or how long ago, such as 30m, 12h or 2d
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub(crate) since: Timestamp,
    #[command(flatten)]
    pub(crate) filter: NotificationArgs,
    /// At most so many deliveries a minute
    #[arg(long, value_name = "DELIVERIES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pace: Option<u32>,
    /// Do it; without this, the command says what would be taken up
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Which notifications are meant.
#[derive(Debug, Args)]
pub(crate) struct NotificationArgs {
    /// Before then [default: now]
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub(crate) until: Option<Timestamp>,
    /// Only in this state; may be given several times
    #[arg(long = "state", value_name = "STATE", value_parser = STATES)]
    pub(crate) states: Vec<String>,
    /// Only of this portal
    #[arg(long, value_name = "PORTAL_ID")]
    pub(crate) portal: Option<i64>,
    /// Only of this type, such as contact.propertyChange
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) subscription_type: Option<String>,
}

impl NotificationArgs {
    /// For a list: of all states when none is named.
    pub(crate) fn to_filter(&self, since: Timestamp) -> NotificationFilter {
        NotificationFilter {
            since,
            until: self.until.unwrap_or_else(clock::now),
            states: (!self.states.is_empty()).then(|| self.states.clone()),
            portal: self.portal,
            subscription_type: self.subscription_type.clone(),
        }
    }

    /// For a replay: it always names states, and what was received and not applied yet is none of them.
    pub(crate) fn to_replay(&self, since: Timestamp) -> NotificationFilter {
        let filter = self.to_filter(since);
        let states = filter.states.unwrap_or_else(|| REPLAYED.map(str::to_owned).to_vec());
        NotificationFilter { states: Some(states), ..filter }
    }
}

fn instant(text: &str) -> Result<Timestamp, String> {
    if let Ok(instant) = text.parse() {
        return Ok(instant);
    }
    let ago = time_span(text)
        .map_err(|fault| format!("must be an instant such as 2026-11-30T08:00:00Z; or how long ago, which {fault}"))?;
    clock::now().checked_sub(ago).map_err(|_| "is too long ago".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The captured request [default: standard input]
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Address that HubSpot was given [default: what the webhook function is told]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// When it arrived, RFC 3339 [default: now]
    #[arg(long, value_name = "INSTANT")]
    pub(crate) at: Option<Timestamp>,
}
