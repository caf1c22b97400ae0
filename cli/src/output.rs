//! The one place that writes to the terminal: results to standard output, everything else to standard error.
//!
//! A reader that went away (`hubferry status | head -1`) is no failure of ours, so a write that does not arrive is let go.

use std::error::Error;
use std::io::Write as _;

use hubferry::adapters::db::DbFailure;
use serde_json::Value;

/// SQLSTATE of a schema, table, function or column that is not there.
const MISSING: [&str; 4] = ["3F000", "42P01", "42883", "42703"];

/// A line of the result.
pub(crate) fn line(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// The result, in the form that was asked for.
pub(crate) fn result(as_json: bool, value: &Value, text: &str) {
    if as_json { line(&format!("{value:#}")) } else { line(text) }
}

/// One of many results; as JSON each takes one line. Returns whether anybody still reads them.
pub(crate) fn one_of_many(as_json: bool, value: &Value, text: &str) -> bool {
    let text = if as_json { value.to_string() } else { text.to_owned() };
    writeln!(std::io::stdout().lock(), "{text}").is_ok()
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
    if error.chain().any(is_missing_schema) {
        note("the schema is missing, or older than this program: run `hubferry migrate`");
    }
}

fn is_missing_schema(cause: &(dyn Error + 'static)) -> bool {
    matches!(cause.downcast_ref(), Some(DbFailure::Refused { sqlstate, .. }) if MISSING.contains(&sqlstate.as_str()))
}

/// Clears the screen and goes to its upper left corner.
pub(crate) fn clear_screen() {
    let _ = write!(std::io::stdout().lock(), "\x1b[2J\x1b[H");
}
