//! Runs the SQS emulator as a process of its own.

use std::net::SocketAddr;

use anyhow::Context as _;
use clap::Parser;
use sqs_emulator::{QueueSettings, SqsEmulator, parse_queue_argument};
use tracing_subscriber::EnvFilter;

/// An Amazon SQS in memory: standard queues over the AWS JSON protocol.
#[derive(Debug, Parser)]
struct Arguments {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:8789")]
    listen: SocketAddr,

    /// A queue, for example `bulk:visibility=60,dead-letter=bulk-dead,max-receives=5`. May be given several times.
    #[arg(long = "queue", value_name = "NAME[:KEY=VALUE,…]", value_parser = parse_queue_argument)]
    queues: Vec<QueueSettings>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_env_filter(EnvFilter::new("info")).with_writer(std::io::stderr).init();
    let arguments = Arguments::parse();
    let listen = arguments.listen;
    let emulator = SqsEmulator::start(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    for settings in arguments.queues {
        let url = emulator.create_queue(settings)?;
        tracing::info!(queue.url = %url, "queue ready");
    }
    tracing::info!(endpoint.url = %emulator.endpoint_url(), "listening");
    tokio::signal::ctrl_c().await.context("cannot wait for the signal to stop")
}
