//! What can be said about portals.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use hubferry::adapters::hubspot::ApiVersions;
use jiff::Timestamp;

use super::events::time_span;

/// Characters of a reason; the table of portals has the same limit.
const LONGEST_REASON: usize = 200;

#[derive(Debug, Subcommand)]
pub(crate) enum PortalCommand {
    /// Register a portal here, and create the property at HubSpot by which contacts are found
    Init(PortalInitArgs),
    /// Send nothing to a portal for a time; requests are accepted and wait
    Pause(PortalPauseArgs),
    /// End a portal's pause, and make due at once what waits for its time
    Resume {
        /// HubSpot's id of the portal
        #[arg(value_parser = clap::value_parser!(i64).range(1..))]
        portal_id: i64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PortalInitArgs {
    /// HubSpot's id of the portal (Hub ID)
    #[arg(value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) portal_id: i64,
    /// For people; when not given, the word portal and its id
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Calls allowed in any ten seconds; keep it below HubSpot's own limit
    #[arg(long, value_name = "CALLS", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) call_limit: u32,
    /// Read and write consent one contact a call: for portals without Marketing Hub Enterprise
    #[arg(long)]
    pub(crate) single: bool,
    /// Internal name of the contact property with unique values
    #[arg(long, value_name = "NAME", default_value = "hubferry_contact_key", value_parser = property_name)]
    pub(crate) unique_property: String,
    /// The dated version of HubSpot's API to call this portal in, such as 2026-09 [default: the deployment's]
    #[arg(long, value_name = "VERSION", value_parser = api_version)]
    pub(crate) api_version: Option<String>,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("end").required(true).args(["pause_for", "until"]))]
pub(crate) struct PortalPauseArgs {
    /// HubSpot's id of the portal
    #[arg(value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) portal_id: i64,
    /// For how long, such as 90s, 30m, 1h or 2d
    #[arg(long = "for", value_name = "TIME", value_parser = time_span)]
    pub(crate) pause_for: Option<Duration>,
    /// Until when, such as 2026-09-23T06:00:00Z
    #[arg(long, value_name = "INSTANT")]
    pub(crate) until: Option<Timestamp>,
    /// Why; shown to people, so it names nobody
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub(crate) reason: String,
}

/// A dated version: no numbered one exists in all families of the API.
fn api_version(text: &str) -> Result<String, String> {
    ApiVersions::all(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// HubSpot's rule for internal names; the table of portals has the same.
fn property_name(text: &str) -> Result<String, String> {
    let is_name = text.len() <= 100
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("must be lower-case letters, digits and underscores, a letter first".into())
    }
}

fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    if (1..=LONGEST_REASON).contains(&text.chars().count()) {
        Ok(text.to_owned())
    } else {
        Err(format!("must have 1 to {LONGEST_REASON} characters"))
    }
}
