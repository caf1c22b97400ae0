//! The one place that writes to the terminal: results to standard output, everything else to standard error.
//!
//! A reader that went away (`hubferry status | head -1`) is no failure of ours, so a write that does not arrive is let go.

use std::io::Write as _;

use serde_json::Value;

/// A line of the result.
pub(crate) fn line(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// The result as JSON, for programs.
pub(crate) fn json(value: &Value) {
    line(&format!("{value:#}"));
}

/// The result, in the form that was asked for.
pub(crate) fn result(as_json: bool, value: &Value, text: &str) {
    if as_json { json(value) } else { line(text) }
}

/// A line about how it is going.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Why a command failed: one line a cause, the outermost first.
pub(crate) fn failure(error: &anyhow::Error) {
    note(&format!("error: {error}"));
    for cause in error.chain().skip(1) {
        note(&format!("  because {cause}"));
    }
}

/// Clears the screen and goes to its upper left corner.
pub(crate) fn clear_screen() {
    let _ = write!(std::io::stdout().lock(), "\x1b[2J\x1b[H");
}
