//! Lambda function on a schedule: rescues what expired, republishes what was orphaned. Takes no input.

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
    let reconciler = &startup::reconciler(Environment::read()).await?;
    let handler = service_fn(async move |event: LambdaEvent<IgnoredAny>| {
        let run = reconciler.run(startup::deadline(&event.context)).await;
        let summary = run.map_err(|error| startup::diagnostic("ReconcilerFailed", &error))?;
        tracing::info!(summary = ?summary, "A reconciler run ended.");
        Ok::<_, Diagnostic>(summary)
    });
    invocation::serve(handler).await
}
