//! Measures how long functions take from the start of their process until they ask for their first event.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use comfy_table::{Cell, CellAlignment, Table};
use lambda_runtime_emulator::{Function, Sandbox};

/// The functions, and beside them one that does nothing.
const FUNCTIONS: [&str; 7] = ["empty-function", "intake", "webhook", "dispatcher", "worker", "reconciler", "migrate"];

/// What any of them reads. No server has to be there: nothing connects before the first event.
const VARIABLES: [(&str, &str); 9] = [
    ("HUBFERRY_DATABASE_URL", "postgres://hubferry:secret@127.0.0.1:1/hubferry?sslmode=require"),
    ("HUBFERRY_REDIS_URL", "rediss://:secret@127.0.0.1:1/0"),
    ("HUBFERRY_SIGNING_KEY", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
    ("HUBFERRY_HUBSPOT_TOKEN", "a-token"),
    ("HUBFERRY_QUEUE_INTERACTIVE_URL", "https://sqs.eu-west-1.amazonaws.com/123456789012/interactive"),
    ("HUBFERRY_QUEUE_BULK_URL", "https://sqs.eu-west-1.amazonaws.com/123456789012/bulk"),
    ("HUBFERRY_QUEUE_INBOUND_URL", "https://sqs.eu-west-1.amazonaws.com/123456789012/inbound"),
    ("HUBFERRY_WEBHOOK_URL", "https://hooks.example.test/webhooks/hubspot"),
    ("HUBFERRY_WEBHOOK_SECRETS", r#"[{"current": "a-client-secret-that-is-long"}]"#),
];

/// How long functions take from the start of their process until they ask for their first event.
#[derive(Parser)]
struct Arguments {
    /// Folder of the packaged functions: `<function>/bootstrap` each
    folder: PathBuf,
    /// Starts of each function
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    starts: u32,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let folder = arguments.folder.canonicalize().context("the folder of the functions is not there")?;
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["function", "median ms", "fastest ms", "slowest ms"]);
    for name in FUNCTIONS {
        let program = folder.join(name).join("bootstrap");
        let function = VARIABLES
            .iter()
            .fold(Function::new(name, program), |function, (variable, value)| function.with(variable, *value));
        let times = measure(&function, arguments.starts).await?;
        let figures = [times[times.len() / 2], times[0], times[times.len() - 1]];
        let cells = figures.map(|time| Cell::new(milliseconds(time)).set_alignment(CellAlignment::Right));
        table.add_row([Cell::new(name)].into_iter().chain(cells));
    }
    print(&table);
    Ok(())
}

/// Times of so many starts, the shortest first; one at a time, after a first one that brings the file into memory.
async fn measure(function: &Function, starts: u32) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for start in 0..=starts {
        let sandbox = Sandbox::start(function).await?;
        let ready = sandbox.ready().await;
        let lines = sandbox.end().await;
        let time = ready.with_context(|| format!("{} does not start: {}", function.name(), lines.join("\n")))?;
        if start > 0 {
            times.push(time);
        }
    }
    times.sort_unstable();
    Ok(times)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}

#[expect(clippy::print_stdout, reason = "the table is what the program is for")]
fn print(table: &Table) {
    println!("{table}");
}
