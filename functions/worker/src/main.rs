//! Lambda function on the queues: carries decisions to HubSpot.

use anyhow::Context as _;
use aws_lambda_events::sqs::SqsEvent;
use hubferry::config::Environment;
use hubferry::startup;
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    startup::lambda();
    let worker = &startup::worker(Environment::read())?;
    let handler = service_fn(async move |event: LambdaEvent<SqsEvent>| {
        let batch = worker.handle(event.payload, startup::deadline(&event.context)).await;
        let (response, summary) = batch.map_err(|error| startup::diagnostic("WorkerFailed", &error))?;
        tracing::info!(summary = ?summary, "A batch ended.");
        Ok::<_, Diagnostic>(response)
    });
    lambda_runtime::run(handler).await.map_err(anyhow::Error::from_boxed).context("the runtime ended")
}
