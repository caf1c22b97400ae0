//! An Amazon SQS in memory, and the event source mapping that Lambda puts between a queue and a function.
//!
//! [`SqsEmulator`] serves the AWS JSON 1.0 protocol of SQS over HTTP, so that any SDK talks to it unchanged. It keeps
//! standard queues with visibility timeouts, delays, retention, redrive to dead-letter queues and long polling, fails
//! on demand ([`Fault`]), and has a clock that a test moves ([`SqsEmulator::advance`]).
//!
//! [`event_source`] plays the event source mapping against any SQS endpoint through a real SDK client.
//!
//! Not here: FIFO queues, signatures, permissions, tags, and the delivery order of fair queues (the message group is
//! carried, and messages are handed out in the order in which they became visible).

mod actions;
mod admin;
mod attributes;
mod clock;
mod emulator;
mod error;
pub mod event_source;
mod faults;
mod message;
mod queue;
mod queue_argument;
mod receipt;
mod server;
mod settings;
mod shelf;
mod store;
mod wire;

#[cfg(test)]
mod tests;

pub use attributes::MessageAttribute;
pub use emulator::{SqsEmulator, client_for};
pub use faults::{Fault, FaultKind, Times};
pub use message::{MessagePlace, MessageView};
pub use queue_argument::parse_queue_argument;
pub use settings::{DeadLetter, QueueSettings};
pub use shelf::QueueCounts;
pub use store::{EmulatorStats, QueueStats};
