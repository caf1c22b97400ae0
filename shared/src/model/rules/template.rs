//! Templates of payloads and dedupe keys: Jinja's language, strict about what is missing.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde_json::{Map, Value, json};

use super::{Change, Rule};

/// What a template can name.
pub(super) const VARIABLES: [&str; 10] =
    ["portal_id", "object_type", "object_id", "property", "from", "value", "occurred_at", "date", "week", "properties"];

/// Steps that rendering one text may take: thousands of values, and no endless loop.
const MOST_STEPS: u64 = 50_000;

/// Longest text that a template may make, bytes: HubSpot's longest value and what stands around it.
const LONGEST_TEXT: usize = 300_000;

/// Nested lists and objects of a payload.
const DEEPEST_PAYLOAD: usize = 16;

/// Why a template could not be filled in. What it was given is not repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderFault {
    /// The engine's own word for it.
    #[error("{0}")]
    Failed(String),
    /// It names what is not there.
    #[error("a value is missing: give what stands for it, such as {{{{ from | default(\"nothing\") }}}}")]
    Missing,
    /// It became too long.
    #[error("the text would be longer than {LONGEST_TEXT} bytes")]
    TooLong,
    /// The payload is nested too deep.
    #[error("lists and objects are nested deeper than {DEEPEST_PAYLOAD}")]
    TooDeep,
}

/// What templates are given about a change.
pub(super) fn context(change: &Change, zone: &TimeZone) -> Value {
    let at = change.occurred_at.to_zoned(zone.clone());
    let week = at.date().iso_week_date();
    let mut context = json!({
        "portal_id": change.portal_id,
        "object_type": change.object_type,
        "object_id": change.object_id,
        "property": change.property,
        "value": change.to,
        "occurred_at": change.occurred_at.to_string(),
        "date": at.date().to_string(),
        "week": format!("{:04}-W{:02}", week.year(), week.week()),
        "properties": change.properties,
    });
    // What is not known is not there, and not an empty text.
    if let Some(from) = &change.from {
        context["from"] = json!(from);
    }
    context
}

/// Fills in every text of a payload.
pub(super) fn fill(payload: &Map<String, Value>, context: &Value) -> Result<Map<String, Value>, RenderFault> {
    fill_object(payload, context, 0)
}

fn fill_object(object: &Map<String, Value>, context: &Value, depth: usize) -> Result<Map<String, Value>, RenderFault> {
    object.iter().map(|(name, value)| Ok((name.clone(), fill_value(value, context, depth + 1)?))).collect()
}

fn fill_value(value: &Value, context: &Value, depth: usize) -> Result<Value, RenderFault> {
    if depth > DEEPEST_PAYLOAD {
        return Err(RenderFault::TooDeep);
    }
    match value {
        Value::String(template) => Ok(Value::String(render(template, context)?)),
        Value::Array(items) => {
            let items = items.iter().map(|item| fill_value(item, context, depth + 1));
            items.collect::<Result<Vec<Value>, _>>().map(Value::Array)
        }
        Value::Object(object) => fill_object(object, context, depth).map(Value::Object),
        other => Ok(other.clone()),
    }
}

/// Fills in one text.
pub(super) fn render(template: &str, context: &Value) -> Result<String, RenderFault> {
    let engine = engine();
    let given = minijinja::Value::from(minijinja::value::Serde(context));
    let text = engine.render_str(template, given).map_err(|error| fault(&error))?;
    // PostgreSQL's JSON has no NUL.
    let text = text.replace('\0', "");
    if text.len() > LONGEST_TEXT { Err(RenderFault::TooLong) } else { Ok(text) }
}

/// The names that a text asks for, with their parts: `properties.amount`.
pub(super) fn names(template: &str) -> Result<BTreeSet<String>, RenderFault> {
    let engine = engine();
    let template = engine.template_from_str(template).map_err(|error| fault(&error))?;
    Ok(template.undeclared_variables(true).into_iter().collect())
}

/// Every text of a payload with its path.
pub(super) fn texts(payload: &Map<String, Value>) -> BTreeMap<String, &str> {
    let mut found = BTreeMap::new();
    for (name, value) in payload {
        collect(value, name.clone(), &mut found);
    }
    found
}

fn collect<'a>(value: &'a Value, path: String, found: &mut BTreeMap<String, &'a str>) {
    match value {
        Value::String(text) => drop(found.insert(path, text)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, item)| collect(item, format!("{path}[{place}]"), found));
        }
        Value::Object(object) => {
            object.iter().for_each(|(name, value)| collect(value, format!("{path}.{name}"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The record's properties that a rule's templates name.
pub(super) fn properties_read(rule: &Rule) -> BTreeSet<String> {
    let all = texts(&rule.payload).into_values().chain(rule.dedupe_key.as_deref());
    let names = all.filter_map(|text| names(text).ok()).flatten();
    names.filter_map(|name| name.strip_prefix("properties.").map(str::to_owned)).collect()
}

fn engine() -> Environment<'static> {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    engine.set_fuel(Some(MOST_STEPS));
    engine
}

/// The kind of error, and its detail while no value of a person is in play: see [`check`](super::check).
fn fault(error: &minijinja::Error) -> RenderFault {
    match error.kind() {
        ErrorKind::UndefinedError => RenderFault::Missing,
        ErrorKind::SyntaxError | ErrorKind::UnknownFilter | ErrorKind::UnknownFunction | ErrorKind::UnknownTest => {
            let place = error.line().map(|line| format!(", line {line}")).unwrap_or_default();
            RenderFault::Failed(format!("{}{place}", error.detail().unwrap_or("it is no template")))
        }
        kind => RenderFault::Failed(kind.to_string()),
    }
}
