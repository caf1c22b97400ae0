//! The HubSpot client over HTTP, against the simulator.
//!
//! Every answer that HubSpot's simulator does not give by itself is given by one of its faults. Each test counts the
//! calls, since the client must never make one that nobody paid for.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod consents;
mod contacts;
mod portal;

use std::collections::BTreeMap;
use std::time::Duration;

use hubferry::adapters::hubspot::{Account, ContactUpsert, HubSpot, HubSpotConfig};
use hubferry::model::ids::PortalId;
use hubspot_simulator::{AccountConfig, Action, Fault, Simulator, SimulatorConfig};
use secrecy::SecretString;

const UPSERT: &str = "contacts.batch_upsert";

/// A simulator, and a client that calls it.
struct World {
    simulator: Simulator,
    hubspot: HubSpot,
    token: SecretString,
}

impl World {
    async fn new() -> Self {
        Self::with(AccountConfig::default()).await
    }

    async fn with(account: AccountConfig) -> Self {
        let config = SimulatorConfig { accounts: vec![account], ..SimulatorConfig::default() };
        let simulator = Simulator::start(config).await.unwrap();
        let hubspot = HubSpot::new(HubSpotConfig::new(simulator.base_url().parse().unwrap())).unwrap();
        Self { simulator, hubspot, token: SecretString::from("simulator-token") }
    }

    /// The same simulator behind a client with a shorter time limit.
    fn impatient(mut self, limit: Duration) -> Self {
        let base = HubSpotConfig::new(self.simulator.base_url().parse().unwrap());
        self.hubspot = HubSpot::new(HubSpotConfig { call_time_limit: limit, ..base }).unwrap();
        self
    }

    fn account(&self) -> Account<'_> {
        self.hubspot.account(PortalId(4711), &self.token)
    }

    fn strike(&self, action: Action) {
        self.simulator.add_fault(Fault::next(1, action));
    }

    fn calls(&self) -> u64 {
        self.simulator.stats().total
    }
}

fn properties(values: &[(&str, &str)]) -> BTreeMap<String, String> {
    values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Contacts found by their address, with trace ids `e1`, `e2` and so on.
fn by_email(emails: &[&str]) -> Vec<ContactUpsert> {
    let rows = emails.iter().enumerate();
    rows.map(|(index, email)| ContactUpsert {
        trace_id: format!("e{}", index + 1),
        id: (*email).to_owned(),
        properties: properties(&[("email", email), ("firstname", "Ann")]),
    })
    .collect()
}
