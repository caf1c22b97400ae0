//! Integration tests: real PostgreSQL, real Redis, the SQS emulator and the HubSpot simulator over HTTP.

mod main_job;
mod servers;
mod world;
