//! `hubferry events show`

use hubferry::adapters::db::{self, Connection};
use serde_json::Value;
use uuid::Uuid;

use crate::end::{End, Misuse};
use crate::output;

/// The document's members in the order in which a person asks for them; what is not named here follows.
const FIRST: [&str; 9] =
    ["event_id", "request_id", "status", "code", "summary", "replayed_as", "replays", "replayed_at", "decision"];

/// Spaces that a nested line is moved to the right by.
const INDENT: usize = 2;

pub(super) async fn run(connection: &Connection, id: Uuid, personal: bool, json: bool) -> anyhow::Result<End> {
    let Some(document) = db::show_event(&**connection, id, personal).await? else {
        return Err(Misuse(format!("there is no event or request {id}; finished events are deleted some day")).into());
    };
    output::result(json, &document, &text(&document));
    Ok(End::Done)
}

/// A document a line a value, as people read it.
pub(in super::super) fn text(document: &Value) -> String {
    let mut lines = Vec::new();
    for name in FIRST {
        member(&mut lines, name, &document[name], 0);
    }
    for (name, value) in document.as_object().into_iter().flatten() {
        if !FIRST.contains(&name.as_str()) {
            member(&mut lines, name, value, 0);
        }
    }
    lines.join("\n")
}

/// A line a value; what is not there is left out.
fn member(lines: &mut Vec<String>, name: &str, value: &Value, depth: usize) {
    let indent = " ".repeat(depth * INDENT);
    match value {
        Value::Null => {}
        Value::Object(members) => {
            lines.push(format!("{indent}{name}:"));
            for (name, value) in members {
                member(lines, name, value, depth + 1);
            }
        }
        Value::Array(items) if items.is_empty() => lines.push(format!("{indent}{name}: none")),
        Value::Array(items) => {
            lines.push(format!("{indent}{name}:"));
            for item in items {
                lines.push(format!("{indent}  - {}", in_one_line(item)));
            }
        }
        Value::String(text) => lines.push(format!("{indent}{name}: {text}")),
        other => lines.push(format!("{indent}{name}: {other}")),
    }
}

fn in_one_line(value: &Value) -> String {
    let Value::Object(members) = value else { return value.to_string() };
    let parts: Vec<String> = members
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| format!("{name} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_is_shown_a_line_a_value_without_what_is_not_there() {
        let document = json!({
            "brand": "acme", "event_id": "e", "status": "dead", "code": null, "stream": {"sequence": 2, "newer_events": []},
            "operations": [{"operation": "contact", "status": "done", "record_id": null}],
        });
        let expected = "event_id: e\nstatus: dead\nbrand: acme\noperations:\n  - operation contact, status done\nstream:\n  newer_events: none\n  sequence: 2";
        assert_eq!(text(&document), expected);
    }
}
