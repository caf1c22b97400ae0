//! A world whose HubSpot writes down every change in the order in which it took effect.

use std::path::PathBuf;

use hubferry::adapters::hubspot::{HubSpot, HubSpotConfig, NewProperty};
use hubspot_simulator::{AccountConfig, BurstLimit, Latency, Simulator, SimulatorConfig};
use serde_json::Value;
use tempfile::TempDir;

use crate::world::{World, WorldConfig};

/// A window that is never full: these tests are about order, not about pace.
const CALLS: u32 = 10_000;

/// Drawn for each call, so that who begins first is not always who ends first.
const LATENCY: Latency = Latency { min_ms: 0, max_ms: 20 };

pub(super) struct Recorded {
    pub(super) world: World,
    config: SimulatorConfig,
    _folder: TempDir,
}

impl Recorded {
    pub(super) async fn new() -> Self {
        let limits = WorldConfig { call_limit: CALLS, hubspot_limit: CALLS, ..WorldConfig::default() };
        let mut world = World::with(limits).await;
        let folder = tempfile::tempdir().unwrap();
        let account = AccountConfig {
            burst: Some(BurstLimit { calls: CALLS, window_ms: 10_000 }),
            ..AccountConfig::new(world.portal.0.unsigned_abs(), "simulator-token")
        };
        let state_file = Some(folder.path().join("changes"));
        let latency = Some(LATENCY);
        let mut config = SimulatorConfig { accounts: vec![account], state_file, latency, ..SimulatorConfig::default() };
        world.hubspot = Simulator::start(config.clone()).await.unwrap();
        config.listen = world.hubspot.addr();
        let url = world.hubspot.base_url().parse().unwrap();
        world.worker.hubspot = HubSpot::new(HubSpotConfig::new(url)).unwrap();
        let property = NewProperty {
            name: "hubferry_contact_key".into(),
            label: "Contact key".into(),
            group: "contactinformation".into(),
            description: "The contact's key".into(),
            unique: true,
        };
        let account = world.worker.hubspot.account(world.portal, &world.worker.tokens.default);
        account.create_property(&property).await.result.unwrap();
        Self { world, config, _folder: folder }
    }

    /// HubSpot ends every connection, and is there again at once, at the same address and with all it knew.
    pub(super) async fn reconnect(&mut self) {
        let beside = SimulatorConfig { listen: ([127, 0, 0, 1], 0).into(), state_file: None, ..self.config.clone() };
        let beside = Simulator::start(beside).await.unwrap();
        std::mem::replace(&mut self.world.hubspot, beside).stop().await;
        self.world.hubspot = Simulator::start(self.config.clone()).await.unwrap();
    }

    /// Every change so far, oldest first.
    pub(super) fn changes(&self) -> Vec<Value> {
        let file: &PathBuf = self.config.state_file.as_ref().unwrap();
        let lines = std::fs::read_to_string(file).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
