//! A function that is made as ours are, and panics when its event says so.

use std::process::ExitCode;

use hubferry::{invocation, startup};
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    startup::lambda();
    let handler = service_fn(async |event: LambdaEvent<Value>| match event.payload["panic"].as_str() {
        Some(words) => panic!("{words}"),
        None => Ok::<_, Diagnostic>(event.payload),
    });
    invocation::ended(invocation::serve(handler).await)
}
