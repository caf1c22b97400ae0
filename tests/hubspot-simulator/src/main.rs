//! The simulator as a program: `hubspot-simulator --listen 127.0.0.1:8788`.

use std::{io::IsTerminal, net::SocketAddr, path::PathBuf};

use anyhow::Context;
use clap::Parser;
use hubspot_simulator::{AccountConfig, BurstLimit, Latency, Simulator, SimulatorConfig, WebhookConfig};

/// A strict, stateful HubSpot for one laptop.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:8788")]
    listen: SocketAddr,
    /// Bearer token of the account.
    #[arg(long, default_value = "simulator-token")]
    token: String,
    /// Portal id of the account.
    #[arg(long, default_value_t = 4711)]
    portal: u64,
    /// Calls in any rolling window; 0 for none.
    #[arg(long, default_value_t = 190)]
    limit: u32,
    /// The window, in milliseconds.
    #[arg(long, default_value_t = 10_000)]
    window_ms: u64,
    /// Searches in any rolling second; 0 for no limit.
    #[arg(long, default_value_t = 5)]
    search_per_second: u32,
    /// Calls per day; 0 for no limit.
    #[arg(long, default_value_t = 625_000)]
    daily: u64,
    /// How long search stays behind writes, in milliseconds.
    #[arg(long, default_value_t = 3_000)]
    search_lag_ms: u64,
    /// Answer 403 to the subscription batch calls.
    #[arg(long)]
    no_batch_consent: bool,
    /// Refuse to subscribe an address that has opted out.
    #[arg(long)]
    refuse_resubscribe: bool,
    /// Shortest latency of a call, in milliseconds.
    #[arg(long, default_value_t = 0)]
    latency_min_ms: u64,
    /// Longest latency of a call, in milliseconds.
    #[arg(long, default_value_t = 0)]
    latency_max_ms: u64,
    /// Seed of all draws.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Reports changes to this address.
    #[arg(long, requires = "webhook_secret")]
    webhook_target: Option<String>,
    /// Client secret that reports are signed with.
    #[arg(long)]
    webhook_secret: Option<String>,
    /// Journal that keeps the state over restarts; in memory only without it.
    #[arg(long)]
    state_file: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let is_terminal = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(is_terminal).init();
    let config = config(Arguments::parse());
    let simulator = Simulator::start(config).await?;
    tracing::info!(url = %simulator.base_url(), "the HubSpot simulator is up");
    wait_for_end().await?;
    simulator.stop().await;
    Ok(())
}

fn config(arguments: Arguments) -> SimulatorConfig {
    let some = |limit: u32| Some(limit).filter(|limit| *limit > 0);
    let window_ms = arguments.window_ms;
    let account = AccountConfig {
        burst: some(arguments.limit).map(|calls| BurstLimit { calls, window_ms }),
        search_per_second: some(arguments.search_per_second),
        daily: Some(arguments.daily).filter(|daily| *daily > 0),
        search_lag_ms: arguments.search_lag_ms,
        batch_consent: !arguments.no_batch_consent,
        refuse_resubscribe: arguments.refuse_resubscribe,
        ..AccountConfig::new(arguments.portal, arguments.token)
    };
    let (min_ms, max_ms) = (arguments.latency_min_ms, arguments.latency_max_ms);
    SimulatorConfig {
        listen: arguments.listen,
        accounts: vec![account],
        seed: arguments.seed,
        latency: (max_ms > 0).then_some(Latency { min_ms, max_ms }),
        state_file: arguments.state_file,
        webhooks: arguments
            .webhook_target
            .zip(arguments.webhook_secret)
            .map(|(target, secret)| WebhookConfig::new(target, secret)),
    }
}

/// Ctrl-C, or the signal with which a supervisor ends its children.
async fn wait_for_end() -> anyhow::Result<()> {
    let mut terminate =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).context("listening for SIGTERM")?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted.context("listening for Ctrl-C"),
        _ = terminate.recv() => Ok(()),
    }
}
