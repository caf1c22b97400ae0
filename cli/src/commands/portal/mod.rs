//! `hubferry portal`

mod init;
mod pause;

use hubferry::config::Environment;

use crate::arguments::PortalCommand;
use crate::end::End;

pub(crate) use init::{Till, init_account};

pub(crate) async fn run(command: PortalCommand, environment: Environment, json: bool) -> anyhow::Result<End> {
    match command {
        PortalCommand::Init(args) => init::init(args, environment, json).await,
        PortalCommand::Pause(args) => pause::pause(args, environment, json).await,
        PortalCommand::Resume { portal_id } => pause::resume(portal_id, environment, json).await,
    }
}
