//! The program `hubferry`, as it was built for these tests.

use std::path::PathBuf;

/// Where the program is. Cargo builds it for its own package only, so `make test` builds it first.
pub(crate) fn hubferry() -> PathBuf {
    let mut folder = std::env::current_exe().unwrap();
    while folder.pop() {
        let program = folder.join("hubferry");
        if program.is_file() {
            return program;
        }
    }
    panic!("the program hubferry is not built: run `make test`, or `cargo build --bins` first")
}
