//! Programs, as they were built for these tests.

use std::path::PathBuf;

/// The program `hubferry`.
pub(crate) fn hubferry() -> PathBuf {
    program("hubferry")
}

/// Where a program is. Cargo builds it for its own package only, so `make test` builds all first.
pub(crate) fn program(name: &str) -> PathBuf {
    let mut folder = std::env::current_exe().unwrap();
    while folder.pop() {
        let program = folder.join(name);
        if program.is_file() {
            return program;
        }
    }
    panic!("the program {name} is not built: run `make test`, or `cargo build --bins` first")
}
