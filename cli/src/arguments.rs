//! What can be said on the command line.

mod contacts;
mod events;
mod portal;
mod rules;
mod webhooks;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use serde::Serialize;

use crate::end::EXIT_CODES;

pub(crate) use contacts::ContactsCommand;
pub(crate) use events::{
    CancelArgs, DEAD, ENDED, EventsCommand, FilterArgs, ListArgs, ReplayArgs, UNFINISHED, event_ids,
};
pub(crate) use portal::{PortalCommand, PortalInitArgs, PortalPauseArgs};
pub(crate) use rules::{RulesCommand, RulesTestArgs};
pub(crate) use webhooks::{VerifyArgs, WebhooksCommand, WebhooksListArgs, WebhooksReplayArgs};

/// Rows in a call of the database's door, which takes no more.
const MOST_ROWS: i64 = 500;

const LEGAL_BASES: [&str; 7] = [
    "CONSENT_WITH_NOTICE",
    "LEGITIMATE_INTEREST_CLIENT",
    "LEGITIMATE_INTEREST_OTHER",
    "LEGITIMATE_INTEREST_PQL",
    "NON_GDPR",
    "PERFORMANCE_OF_CONTRACT",
    "PROCESS_AND_STORE",
];

/// What `hubferry import --help` explains.
const IMPORT: &str = "\
Accept the rows of a CSV file

The first line names the columns, in any order: email (required), brand, product, desired_state, key, legal_basis, \
explanation, given_at, lane, idempotency_key, and properties.NAME for each property of the contact. An empty cell counts \
as missing; the options give the value where a column or a cell is missing. Consent is never made up: a row that \
subscribes needs a legal basis and an explanation, from its cells or from the options. Those two options are for rows that \
subscribe only.

Rows are accepted in the file's order, so of two rows about one contact and product the later one wins. A row that is \
rejected does not stop the others: it is listed by line, without its values. A run that was stopped continues where it was \
when the same command is run again, and a file that was imported before changes nothing.";

/// Keeps HubSpot in agreement with what your application has decided.
#[derive(Debug, Parser)]
#[command(name = "hubferry", version, after_help = EXIT_CODES, max_term_width = 120)]
pub(crate) struct Arguments {
    /// Print the result as JSON on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Take variables that are not set from this file of NAME=value lines [default: .local/stack.env, here or in a
    /// folder above]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) env_file: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the whole stack on this machine, or a part of it
    Up(crate::up::UpArgs),
    /// Bring the database's schema up to date
    Migrate,
    /// Accept the rows of a CSV file
    #[command(long_about = IMPORT)]
    Import(ImportArgs),
    /// Show what waits, what is under way and what failed
    Status(StatusArgs),
    /// List, show, cancel and replay events
    #[command(subcommand)]
    Events(EventsCommand),
    /// Contacts
    #[command(subcommand)]
    Contacts(ContactsCommand),
    /// HubSpot accounts
    #[command(subcommand)]
    Portal(PortalCommand),
    /// What a product means in HubSpot
    #[command(subcommand)]
    Mapping(MappingCommand),
    /// What follows from changes in HubSpot
    #[command(subcommand)]
    Rules(RulesCommand),
    /// HubSpot's webhooks
    #[command(subcommand)]
    Webhooks(WebhooksCommand),
    /// Bearer tokens of the HTTP interface
    #[command(subcommand)]
    Token(TokenCommand),
}

/// Accept the rows of a CSV file
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ImportArgs {
    /// The file: CSV in UTF-8
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) defaults: RowDefaults,
    /// What separates the columns: one character, or `tab`
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    pub(crate) delimiter: u8,
    /// Where rejected rows are listed [default: NAME.rejected.csv beside NAME.csv]
    #[arg(long, value_name = "LIST")]
    pub(crate) rejected: Option<PathBuf>,
    /// Rows accepted by one statement
    #[arg(long, value_name = "ROWS", default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..=MOST_ROWS))]
    pub(crate) batch_size: u16,
}

/// Values of missing columns and empty cells.
#[derive(Debug, Clone, Default, Args, Serialize)]
pub(crate) struct RowDefaults {
    /// Brand of rows that name none
    #[arg(long)]
    pub(crate) brand: Option<String>,
    /// Product of rows that name none
    #[arg(long)]
    pub(crate) product: Option<String>,
    /// Desired state of rows that name none
    #[arg(long, value_name = "STATE", value_parser = ["subscribed", "unsubscribed"])]
    pub(crate) desired_state: Option<String>,
    /// Legal basis of rows that subscribe and name none
    #[arg(long, value_name = "BASIS", value_parser = LEGAL_BASES)]
    pub(crate) legal_basis: Option<String>,
    /// How consent was given, for rows that subscribe and say nothing
    #[arg(long, value_name = "TEXT")]
    pub(crate) explanation: Option<String>,
    /// Lane of rows that name none
    #[arg(long, default_value = "bulk", value_parser = ["bulk", "interactive"])]
    pub(crate) lane: String,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Show it again every two seconds, until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MappingCommand {
    /// Store a mapping as a new draft version
    Push {
        /// JSON: {"portal": 4711, "brand": "acme", "product": "newsletter", "targets": {…}}
        file: PathBuf,
    },
    /// Make a version the active one, under which requests are accepted from now on
    Activate {
        /// The brand
        brand: String,
        /// The product
        product: String,
        /// Number of the version [default: the newest]
        version: Option<i32>,
        /// Replay, under this version, the product's dead events that portal or mapping were to blame for
        #[arg(long)]
        release_dead: bool,
        /// Do it; without this, --release-dead only says what would happen
        #[arg(long, requires = "release_dead")]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and show it, once
    Create {
        /// Who will use it
        name: String,
        /// A brand that it may act for; may be given several times
        #[arg(long = "brand", value_name = "BRAND", required = true)]
        brands: Vec<String>,
    },
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if text == "tab" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && !b"\"\r\n".contains(byte) => Ok(*byte),
        _ => Err("must be one character such as , or ; and no letter, digit or quote; or `tab`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_delimiter_is_one_character_or_tab() {
        assert_eq!(delimiter(";"), Ok(b';'));
        assert_eq!(delimiter("tab"), Ok(b'\t'));
        for bad in ["", ";;", "\"", "a", "€"] {
            assert!(delimiter(bad).is_err(), "{bad}");
        }
    }
}
