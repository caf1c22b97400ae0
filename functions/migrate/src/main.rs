//! Lambda function that a deployment invokes before the others change: brings the schema up to date. Takes no input.

use std::process::ExitCode;

use hubferry::adapters::db;
use hubferry::config::Environment;
use hubferry::{invocation, startup};
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use serde::de::IgnoredAny;
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    invocation::ended(run().await)
}

async fn run() -> anyhow::Result<()> {
    startup::lambda();
    let mut environment = Environment::read();
    let database = &environment.database_url();
    environment.finish()?;
    let handler = service_fn(async move |_: LambdaEvent<IgnoredAny>| {
        let migrated = db::migrate(database).await;
        let summary = migrated.map_err(|error| startup::diagnostic("MigrateFailed", &error))?;
        tracing::info!(summary = ?summary, "The schema is up to date.");
        Ok::<_, Diagnostic>(json!({ "applied": summary.applied, "version": summary.version }))
    });
    invocation::serve(handler).await
}
