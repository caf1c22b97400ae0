//! The program `hubferry`.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    hubferry_cli::main(std::env::args_os()).await
}
