//! Lambda function on the queues: carries decisions to HubSpot.

use std::process::ExitCode;

use aws_lambda_events::sqs::SqsEvent;
use hubferry::config::Environment;
use hubferry::{invocation, startup};
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    invocation::ended(run().await)
}

async fn run() -> anyhow::Result<()> {
    startup::lambda();
    let worker = &startup::worker(Environment::read())?;
    let handler = service_fn(async move |event: LambdaEvent<SqsEvent>| {
        let batch = worker.handle(event.payload, startup::deadline(&event.context)).await;
        let (response, summary) = batch.map_err(|error| startup::diagnostic("WorkerFailed", &error))?;
        tracing::info!(summary = ?summary, "A batch ended.");
        Ok::<_, Diagnostic>(response)
    });
    invocation::serve(handler).await
}
