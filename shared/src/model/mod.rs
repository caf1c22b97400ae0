//! Pure decisions: time, randomness and ids are arguments, and nothing here does I/O.

pub mod budget;
pub mod crm_change;
pub mod echo;
pub mod email;
pub mod envelope;
pub mod event;
pub mod hubspot_signature;
pub mod ids;
pub mod mapping;
pub mod notification;
pub mod outcome;
pub mod pacing;
pub mod plan;
pub mod property_value;
pub mod rules;
pub mod subscription;
pub mod suspects;
