//! One module an outside system: the only place for its crate.

pub mod budget;
pub mod db;
pub mod hubspot;
pub mod sqs;
