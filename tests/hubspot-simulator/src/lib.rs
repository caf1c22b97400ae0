//! A strict, stateful HubSpot over real HTTP, for tests and for the local stack.
//!
//! It keeps contacts, subscription statuses and lists per account, counts every call in true rolling windows, and
//! misbehaves on demand: answers that get lost after the write, cut connections, HTML for JSON, locks, delays.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use hubspot_simulator::{Action, Fault, Simulator, SimulatorConfig};
//!
//! let simulator = Simulator::start(SimulatorConfig::default()).await?;
//! simulator.add_fault(Fault::next(1, Action::LoseAnswer).on_endpoint("contacts.batch_upsert"));
//! println!("{}", simulator.base_url());
//! simulator.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! A call takes four steps: `server` reads it and plays the faults, `routes` finds its handler, `world` admits it to
//! the account's limits, and the handler (`objects`, `properties`, `preferences`, `lists`, `usage`) answers from the
//! account's state. Every change of state is one `Change`, which is also a line of the journal.

#![expect(
    clippy::unnecessary_wraps,
    reason = "handlers that cannot fail have the type that the route table wants, too"
)]

mod account;
mod admin;
mod answer;
mod call;
mod change;
mod clock;
mod config;
mod connection;
mod faults;
mod handle;
mod ids;
mod journal;
mod limits;
mod lists;
mod objects;
mod page;
mod preferences;
mod properties;
mod routes;
mod server;
mod simulator;
mod stats;
mod usage;
mod webhooks;
mod world;

pub use config::{AccessToken, AccountConfig, BurstLimit, DefinitionConfig, Latency, ListConfig, SimulatorConfig};
pub use faults::{Action, Fault, FaultId, Response};
pub use handle::{AccountHandle, ContactView};
pub use ids::{ListId, PortalId, RecordId, SubscriptionId};
pub use lists::ProcessingType;
pub use preferences::SubscriptionState;
pub use simulator::Simulator;
pub use stats::{AccountStats, Stats, TimelineBucket};
pub use webhooks::{WebhookConfig, WebhookStats};
