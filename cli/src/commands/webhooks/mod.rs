//! `hubferry webhooks`

mod capture;
mod list;
mod replay;
mod show;
mod verify;

use hubferry::config::Environment;

use crate::arguments::WebhooksCommand;
use crate::end::End;

pub(crate) async fn run(command: WebhooksCommand, environment: Environment, json: bool) -> anyhow::Result<End> {
    match command {
        WebhooksCommand::List(args) => list::run(&args, environment, json).await,
        WebhooksCommand::Show { id, values } => show::run(&id, values, environment, json).await,
        WebhooksCommand::Replay(args) => replay::run(&args, environment, json).await,
        WebhooksCommand::Verify(args) => verify::run(&args, environment, json),
    }
}
