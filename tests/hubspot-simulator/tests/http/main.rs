//! The simulator's rules, seen over HTTP: one binary, a file for each subject.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contacts;
mod faults;
mod hub;
mod journal;
mod limits;
mod lists;
mod merges;
mod preferences;
mod program;
mod properties;
mod rows;
mod search;
mod surroundings;
mod webhooks;
