//! Lambda function on a schedule: publishes what is due. Takes no input.

use std::process::ExitCode;

use hubferry::config::Environment;
use hubferry::{invocation, startup};
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use serde::de::IgnoredAny;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    invocation::ended(run().await)
}

async fn run() -> anyhow::Result<()> {
    startup::lambda();
    let dispatcher = &startup::dispatcher(Environment::read()).await?;
    let handler = service_fn(async move |event: LambdaEvent<IgnoredAny>| {
        let run = dispatcher.run(startup::deadline(&event.context)).await;
        let summary = run.map_err(|error| startup::diagnostic("DispatcherFailed", &error))?;
        tracing::info!(summary = ?summary, "A dispatcher run ended.");
        Ok::<_, Diagnostic>(summary)
    });
    invocation::serve(handler).await
}
