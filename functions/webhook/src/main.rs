//! Lambda function behind API Gateway: receives HubSpot's webhooks.

use std::process::ExitCode;

use hubferry::config::Environment;
use hubferry::{clock, invocation, startup};
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    invocation::ended(run().await)
}

async fn run() -> anyhow::Result<()> {
    startup::lambda();
    let webhook = &startup::webhook(Environment::read())?;
    let handler = service_fn(async move |event: LambdaEvent<Value>| {
        Ok::<_, Diagnostic>(webhook.handle(&event.payload, clock::now()).await)
    });
    invocation::serve(handler).await
}
