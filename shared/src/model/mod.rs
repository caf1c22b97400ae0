//! Pure decisions: time, randomness and ids are arguments, and nothing here does I/O.

pub mod outcome;
pub mod property_value;
pub mod envelope;
pub mod ids;
pub mod mapping;
pub mod plan;
pub mod subscription;
pub mod budget;
pub mod pacing;
