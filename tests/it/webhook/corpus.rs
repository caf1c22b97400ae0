//! What fuzzing begins with and what it found, through the same checks. See docs/FUZZING.md.

#[path = "../../../fuzz/checks/notifications.rs"]
mod notifications;
#[path = "../../../fuzz/checks/signatures.rs"]
mod signatures;

use std::path::Path;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus");

/// Fewer mean that the folder is not what it was.
const LEAST_INPUTS: usize = 30;

#[test]
fn the_corpus_of_notifications_holds() {
    replay("notifications", notifications::check);
}

#[test]
fn the_corpus_of_signatures_holds() {
    replay("signatures", signatures::check);
}

#[expect(clippy::print_stdout, reason = "the test runner shows it with the failure")]
fn replay(target: &str, check: impl Fn(&[u8])) {
    let entries = std::fs::read_dir(Path::new(CORPUS).join(target)).expect("the corpus");
    let paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    assert!(paths.len() >= LEAST_INPUTS, "{target}: {} inputs", paths.len());
    for path in paths {
        // A failure's own message names no input.
        println!("{}", path.display());
        check(&std::fs::read(&path).expect("an input"));
    }
}
