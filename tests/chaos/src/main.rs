//! `hubferry-chaos`: runs the whole stack in processes, kills and stops them at named points and at random, plays faults of
//! HubSpot and SQS, and compares what HubSpot holds in the end with what was accepted. Everything is drawn from a seed.
//!
//! `hubferry-chaos hubferry …` is the program `hubferry` itself, built with failpoints: the harness starts its own file.

mod arguments;
mod audit;
mod check;
mod drain;
mod erasing;
mod expected;
mod history;
mod people;
mod place;
mod processes;
mod report;
mod run;
mod scenario;
mod setting;
mod takeover;
mod trouble;
mod workload;

use std::process::ExitCode;

use clap::Parser as _;

use arguments::Arguments;

/// The first argument that turns this program into the stack's own.
const STACK: &str = "hubferry";

#[tokio::main]
async fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|first| first == STACK) {
        end_with_the_harness();
        return hubferry_cli::main(std::env::args_os().skip(1)).await;
    }
    hubferry::startup::tls();
    let arguments = Arguments::parse();
    // What was started is ended with the run that is dropped here.
    let ended = tokio::select! {
        ended = takeover::measure(&arguments), if arguments.takeover => ended,
        ended = run::all(&arguments), if !arguments.takeover => ended,
        () = hubferry_cli::interrupted() => Err(anyhow::anyhow!("interrupted")),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            report::line(&format!("error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

/// The standard input of a process of the stack is a pipe that ends when the harness does, however that ends.
fn end_with_the_harness() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        std::process::exit(1);
    });
}
