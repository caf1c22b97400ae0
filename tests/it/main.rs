//! Integration tests: real PostgreSQL, real Redis, the SQS emulator and the HubSpot simulator over HTTP.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod accepting;
mod bootstraps;
mod budget;
mod cases;
mod chaos;
mod cli;
mod dead_letters;
mod dispatcher;
mod documentation;
mod erasing;
mod hubspot_client;
mod identity;
mod intake;
mod main_job;
mod outcomes;
mod poison;
mod postgres_proxy;
mod program;
mod projection;
mod replay;
mod rules;
mod servers;
mod sqs_contract;
mod stack;
mod template;
mod tidy;
mod webhook;
mod webhooks_cli;
mod worker;
mod world;
