//! Lambda function behind API Gateway: accepts subscription requests.

use std::process::ExitCode;

use anyhow::Context as _;
use hubferry::config::Environment;
use hubferry::{invocation, startup};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    invocation::ended(run().await)
}

async fn run() -> anyhow::Result<()> {
    startup::lambda();
    let intake = startup::intake(Environment::read())?;
    lambda_http::run(intake.router()).await.map_err(anyhow::Error::from_boxed).context("the runtime ended")
}
