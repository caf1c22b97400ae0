//! A function that does what its event says, for the tests of the emulator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lambda_runtime::{Diagnostic, Error, LambdaEvent, service_fn};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let ticks = Arc::new(AtomicU64::new(0));
    let ticking = Arc::clone(&ticks);
    // Work that goes on beside the invocations, as no function should have it.
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            ticking.fetch_add(1, Ordering::Relaxed);
        }
    });
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
                "ticks": ticks.load(Ordering::Relaxed),
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
