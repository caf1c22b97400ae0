//! Integration tests: real PostgreSQL, real Redis, the SQS emulator and the HubSpot simulator over HTTP.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod accepting;
mod budget;
mod cases;
mod cli;
mod dispatcher;
mod documentation;
mod hubspot_client;
mod intake;
mod main_job;
mod postgres_proxy;
mod program;
mod servers;
mod sqs_contract;
mod stack;
mod tidy;
mod worker;
mod world;
