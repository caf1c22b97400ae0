//! `hubferry webhooks`

use std::path::PathBuf;

use clap::{Args, Subcommand};

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

#[derive(Debug, Subcommand)]
pub(crate) enum WebhooksCommand {
    /// Say which part of a webhook's signature differs
    #[command(long_about = VERIFY, after_help = EXIT_CODES)]
    Verify(VerifyArgs),
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
    pub(crate) at: Option<jiff::Timestamp>,
}
