//! What Lambda sees of a function: its invocations, and how its process ends. A panic costs its invocation, and nothing else.

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use anyhow::Context as _;
use futures::FutureExt as _;
use lambda_runtime::{Diagnostic, LambdaEvent, Service, service_fn};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What Lambda is told of an invocation that panicked, for metric filters. The panic's own words may hold what a contact
/// typed, so they go nowhere; where it happened is logged.
const PANICKED: &str = "FunctionPanicked";

/// Serves events, one after the other, for as long as Lambda keeps the process.
pub async fn serve<F, Event, Answer>(mut function: F) -> anyhow::Result<()>
where
    F: Service<LambdaEvent<Event>, Response = Answer, Error = Diagnostic>,
    Event: DeserializeOwned,
    Answer: Serialize,
{
    // On the heap: what a worker keeps in hand is too large to be moved about.
    let handler = service_fn(|event| Box::pin(caught(function.call(event))));
    lambda_runtime::run(handler).await.map_err(anyhow::Error::from_boxed).context("the runtime ended")
}

/// Says how a function's process ends. What kept it from starting is logged in one line, where filters see it.
pub fn ended(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "The process of a function ended.");
            ExitCode::FAILURE
        }
    }
}

/// From now on a panic is logged by its place. What it says is left out: it may hold anything that was at hand.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "The function panicked.");
    }));
}

async fn caught<Answer>(answer: impl Future<Output = Result<Answer, Diagnostic>>) -> Result<Answer, Diagnostic> {
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| {
        let error_message = "the function panicked; its log says where".to_owned();
        Err(Diagnostic { error_type: PANICKED.to_owned(), error_message })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_of_its_invocation_and_its_words_stay_inside() {
        let error = caught::<()>(async { panic!("ada@example.test") }).await.unwrap_err();
        assert_eq!(error.error_type, "FunctionPanicked");
        assert!(!error.error_message.contains('@'), "{}", error.error_message);
        assert_eq!(caught(async { Ok(1) }).await.unwrap(), 1);
    }
}
