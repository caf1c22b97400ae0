//! `hubferry webhooks`

mod capture;
mod verify;

use hubferry::config::Environment;

use crate::arguments::WebhooksCommand;
use crate::end::End;

pub(crate) fn run(command: WebhooksCommand, environment: Environment, json: bool) -> anyhow::Result<End> {
    match command {
        WebhooksCommand::Verify(args) => verify::run(&args, environment, json),
    }
}
