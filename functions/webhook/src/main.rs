//! Lambda function behind API Gateway: receives HubSpot's webhooks.

use anyhow::Context as _;
use hubferry::config::Environment;
use hubferry::{clock, startup};
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    startup::lambda();
    let webhook = &startup::webhook(Environment::read())?;
    let handler = service_fn(async move |event: LambdaEvent<Value>| {
        Ok::<_, Diagnostic>(webhook.handle(&event.payload, clock::now()).await)
    });
    lambda_runtime::run(handler).await.map_err(anyhow::Error::from_boxed).context("the runtime ended")
}
