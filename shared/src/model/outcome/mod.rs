//! What an answer of HubSpot means, and what happens to the event because of it.
//!
//! [`classify()`] turns an answer into a [`Class`]; [`decide()`] turns a class, the attempts so far and the time into a
//! [`Decision`]. Both are pure, and there is no retry policy anywhere else. `docs/OUTCOMES.md` holds the table for people on
//! call; a test builds that table from these two functions and compares.

mod class;
mod classify;
mod code;
mod decide;
mod decision;
mod error_body;
mod facts;
mod named;
mod refusal;
pub mod retry_after;
mod row;
#[cfg(test)]
mod table;

pub use class::{Class, CredentialProblem, LimitPolicy};
pub use classify::{classify, classify_row};
pub use decide::decide;
pub use decision::{
    Answer, Attempt, DEFAULT_MAX_ATTEMPTS, Decision, PauseReason, ResolveReason, SnoozeReason, SupersededReason,
};
pub use error_body::{ErrorBody, PropertyFault};
pub use facts::{AnswerFacts, Content, Intent, Operation, TransportFailure};
pub use named::Named;
pub use refusal::Refusal;
pub use row::Row;
