//! `hubferry`: what an operator does by hand, and the whole stack on one laptop.

mod arguments;
mod commands;
mod end;
mod environment;
mod output;
mod up;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use arguments::{Arguments, Command};
use end::End;

/// Runs the program with these arguments, its own name first. Ends the process when they are not understood.
pub async fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = Arguments::parse_from(arguments);
    match run(arguments).await {
        Ok(end) => end.into(),
        Err(error) => {
            output::failure(&error);
            End::of_failure(&error).into()
        }
    }
}

/// Returns at Ctrl-C, or at SIGTERM as service managers and `timeout` send it.
pub async fn interrupted() {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok();
    let terminated = async {
        match &mut terminate {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<End> {
    hubferry::startup::tls();
    let environment = environment::read(arguments.env_file.as_deref())?;
    #[cfg(feature = "failpoints")]
    hubferry::failpoint::arm(&environment)?;
    let json = arguments.json;
    match arguments.command {
        Command::Up(args) => up::run(args, environment).await.map(|()| End::Done),
        Command::Migrate => commands::migrate::run(environment, json).await,
        Command::Import(args) => commands::import::run(args, environment, json).await,
        Command::Status(args) => commands::status::run(args, environment, json).await,
        Command::Events(command) => commands::events::run(command, environment, json).await,
        Command::Contacts(command) => commands::contacts::run(command, environment, json).await,
        Command::Portal(command) => commands::portal::run(command, environment, json).await,
        Command::Mapping(command) => commands::mapping::run(command, environment, json).await,
        Command::Rules(command) => commands::rules::run(command, environment, json).await,
        Command::Webhooks(command) => commands::webhooks::run(command, environment, json).await,
        Command::Token(command) => commands::token::run(command, environment, json).await,
    }
}
