//! `hubferry rules`

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::end::EXIT_CODES;

/// What `hubferry rules push --help` explains.
const PUSH: &str = "\
Load a portal's rules in place of those before

The file is JSON: {\"portal\": 4711, \"rules\": [{\"name\", \"when\": {\"object\", \"property\", \"from\", \"to\", \"pipeline\"}, \
\"effect\", \"payload\", \"dedupe_key\", \"time_zone\"}]}. All of it is checked first, and a fault names its field; then it counts as a \
whole, from the next change on. A file with an empty list switches the portal's rules off.";

/// What `hubferry rules test --help` explains.
const TEST: &str = "\
Say which rules a notification would meet, and change nothing

Takes a notification of HubSpot, or a list of them, from --notification or from standard input; and the rules from FILE, or \
those that are active for the notification's portal. Shows what each rule that waits for the change would do: the effect, its \
dedupe key and its payload.";

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// Load a portal's rules in place of those before
    #[command(long_about = PUSH, after_help = EXIT_CODES)]
    Push {
        /// JSON: {"portal": 4711, "rules": […]}
        file: PathBuf,
    },
    /// List the rules of all portals
    List {
        /// Only of this portal
        #[arg(long, value_name = "PORTAL_ID")]
        portal: Option<i64>,
        /// Those of retired versions too
        #[arg(long)]
        retired: bool,
    },
    /// Say which rules a notification would meet, and change nothing
    #[command(long_about = TEST, after_help = EXIT_CODES)]
    Test(RulesTestArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RulesTestArgs {
    /// The rules, as they would be pushed [default: the active ones]
    pub(crate) file: Option<PathBuf>,
    /// The notification [default: standard input]
    #[arg(long, value_name = "FILE")]
    pub(crate) notification: Option<PathBuf>,
    /// Value of the property before
    #[arg(long, value_name = "VALUE")]
    pub(crate) from: Option<String>,
    /// Another property of the record, as NAME=VALUE; may be given several times
    #[arg(long = "property", value_name = "NAME=VALUE", value_parser = property)]
    pub(crate) properties: Vec<(String, String)>,
}

fn property(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
