//! Lambda's side of a function that runs as a process: its environment, its Runtime API, and its freezing.
//!
//! [`Sandbox`] starts a bootstrap as Lambda does: with the variables that Lambda sets and no others, and the Runtime API on
//! 127.0.0.1. Whenever the process asks for its next event it is stopped (SIGSTOP), and continued with the event: between
//! two invocations nothing runs. A process that has no answer by its deadline is killed.
//!
//! [`Instances`] are the sandboxes of one function, as many as there are invocations at once.
//!
//! Not here: limits on memory and processor, extensions, streamed answers, restored snapshots.
//!
//! Source: "Using the Lambda runtime API for custom runtimes" and "Understanding the Lambda execution environment lifecycle"
//! in the developer guide of Lambda.

mod api;
mod clock;
mod function;
mod instances;
mod log;
mod sandbox;

pub use api::FunctionError;
pub use function::Function;
pub use instances::Instances;
pub use sandbox::{Outcome, Sandbox};
