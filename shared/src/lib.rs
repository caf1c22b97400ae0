//! hubferry keeps `HubSpot` in agreement with what an application has decided.
//!
//! `model` decides, `adapters` talk to one outside system each, `flows` tell the story of one function each.

pub mod adapters;
pub mod clock;
pub mod config;
pub mod failpoint;
pub mod flows;
pub mod invocation;
pub mod model;
pub mod startup;
