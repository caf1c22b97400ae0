//! A function that does what its event says, for the tests of the emulator.

use lambda_runtime::{Diagnostic, Error, LambdaEvent, service_fn};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let handler = async |event: LambdaEvent<Value>| match event.payload["do"].as_str() {
        Some("fail") => {
            let (error_type, error_message) = ("Odd.Failed".to_owned(), "as it was told".to_owned());
            Err(Diagnostic { error_type, error_message })
        }
        Some("hang") => std::future::pending().await,
        Some("exit") => std::process::exit(7),
        _ => {
            let context = event.context;
            Ok(json!({
                "event": event.payload,
                "pid": std::process::id(),
                "arn": context.invoked_function_arn,
                "trace": context.xray_trace_id,
                "environment": environment(),
            }))
        }
    };
    lambda_runtime::run(service_fn(handler)).await
}

#[expect(clippy::disallowed_methods, reason = "the test asks what a function is given")]
fn environment() -> Vec<String> {
    std::env::vars().map(|(name, _)| name).collect()
}
