//! Lambda's event source mapping for SQS: it collects messages into batches, invokes the function, and deletes what
//! succeeded.
//!
//! The rules, from "Using Lambda with Amazon SQS" in the developer guide of Lambda:
//!
//! - A batch is complete at `batch_size` messages, at 6 MB, or when the window since its first message has passed.
//! - No message is received while no invocation slot is free, so that waiting messages stay visible to others.
//! - A success deletes the batch. With `report_batch_item_failures`, the messages that the answer names stay; an
//!   answer that names an unknown message, an error, a panic or a timeout leaves the whole batch.
//! - What is not deleted shows again when its visibility timeout ends.
//!
//! Not played: the scaling of pollers, the slower polling after errors, and event filters.

mod answer;
mod collect;
mod invoke;
mod mapping;
mod record;
mod run;

pub use answer::{Verdict, judge};
pub use invoke::Invocation;
pub use mapping::{EventSourceMapping, MappingError};
pub use run::{PollSummary, drain, poll_once, run};
