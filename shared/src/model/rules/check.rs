//! Refuses rules that could not work.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::effect::effect;
use super::template::{VARIABLES, names, texts};
use super::{Change, Condition, Rule, RuleSet, ValueKind, Wanted, WantedKind};

/// Rules of a portal: each is asked about every change.
const MOST_RULES: usize = 200;

/// Values that a rule can list.
const MOST_LISTED: usize = 200;

/// Longest payload of a rule, bytes of JSON.
const LONGEST_PAYLOAD: usize = 64 * 1024;

/// HubSpot's names of properties and object types are shorter.
const LONGEST_NAME: usize = 100;

/// What is wrong with a set of rules, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct RulesFault {
    /// The field, as a path.
    pub field: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl RuleSet {
    /// Refuses a set that could not work: names that come twice, conditions that never hold, templates that can't be filled in.
    pub fn check(&self) -> Result<(), RulesFault> {
        if self.rules.len() > MOST_RULES {
            return Err(fault("rules", &format!("there are {}; a portal has at most {MOST_RULES}", self.rules.len())));
        }
        let mut known = BTreeSet::new();
        for (place, rule) in self.rules.iter().enumerate() {
            let at = |field: RulesFault| RulesFault { field: format!("rules[{place}].{}", field.field), ..field };
            check_rule(rule).map_err(at)?;
            if !known.insert(&rule.name) {
                return Err(at(fault("name", "another rule has this name: effects are known by it")));
            }
        }
        Ok(())
    }
}

fn check_rule(rule: &Rule) -> Result<(), RulesFault> {
    let is_first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = (1..=63).contains(&rule.name.len())
        && rule.name.starts_with(is_first)
        && rule.name.chars().all(|c| is_first(c) || c == '_' || c == '-');
    if !is_name {
        return Err(fault("name", "must be 1 to 63 of a-z 0-9 _ - and begin with a letter or digit"));
    }
    check_condition(&rule.when)?;
    if rule.time_zone.as_deref().is_some_and(|name| TimeZone::get(name).is_err()) {
        return Err(fault("time_zone", "is no time zone: give an IANA name such as Europe/Amsterdam"));
    }
    let length = serde_json::to_string(&rule.payload).map_or(usize::MAX, |text| text.len());
    if length > LONGEST_PAYLOAD {
        return Err(fault("payload", &format!("is longer than {LONGEST_PAYLOAD} bytes")));
    }
    check_templates(rule)
}

fn check_condition(when: &Condition) -> Result<(), RulesFault> {
    let is_word = |text: &str| {
        (1..=LONGEST_NAME).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    if !is_word(&when.object) {
        return Err(fault(
            "when.object",
            "must be an object type such as contact or deal, or a type id such as 2-1234",
        ));
    }
    if !is_word(&when.property) {
        return Err(fault("when.property", "must be HubSpot's name of a property, such as dealstage"));
    }
    for (field, wanted) in [("when.from", &when.from), ("when.to", &when.to), ("when.pipeline", &when.pipeline)] {
        match wanted {
            Some(Wanted::OneOf(values)) if values.is_empty() => {
                return Err(fault(field, "is an empty list, and would never hold"));
            }
            Some(Wanted::OneOf(values)) if values.len() > MOST_LISTED => {
                return Err(fault(field, &format!("lists more than {MOST_LISTED} values")));
            }
            Some(Wanted::Kind(WantedKind { is: ValueKind::Changed })) if field != "when.to" => {
                return Err(fault(field, "can't be \"changed\": only the value that it is now can"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Every template is read, and the rule is tried on a change of which little is known and on one of which all is.
fn check_templates(rule: &Rule) -> Result<(), RulesFault> {
    let payload = texts(&rule.payload).into_iter().map(|(path, text)| (format!("payload.{path}"), text));
    let key = rule.dedupe_key.iter().map(|text| ("dedupe_key".to_owned(), text.as_str()));
    let templates: BTreeMap<String, &str> = payload.chain(key).collect();
    for (field, template) in &templates {
        let names = names(template).map_err(|cause| fault(field, &cause.to_string()))?;
        let unknown = names.iter().find(|name| !VARIABLES.contains(&name.split('.').next().unwrap_or_default()));
        if let Some(name) = unknown {
            return Err(fault(field, &format!("there is no `{name}`: a template can name {}", VARIABLES.join(", "))));
        }
        let alone = Rule {
            payload: [("text".to_owned(), (*template).into())].into_iter().collect(),
            dedupe_key: None,
            ..rule.clone()
        };
        for sample in samples(rule, &names) {
            effect(&alone, 1, &sample).map_err(|cause| fault(field, &cause.to_string()))?;
        }
    }
    if rule.dedupe_key.as_deref().is_some_and(|template| template.trim().is_empty()) {
        return Err(fault(
            "dedupe_key",
            "is empty: all effects of the rule would be the same one; leave it out for the default",
        ));
    }
    Ok(())
}

fn samples(rule: &Rule, names: &BTreeSet<String>) -> [Change; 2] {
    let bare = Change {
        portal_id: 1,
        object_type: rule.when.object.clone(),
        object_id: 1,
        property: rule.when.property.clone(),
        from: None,
        to: String::new(),
        notification: String::new(),
        occurred_at: Timestamp::UNIX_EPOCH,
        properties: BTreeMap::new(),
    };
    let read = names.iter().filter_map(|name| name.strip_prefix("properties."));
    let full = Change {
        from: Some("1".to_owned()),
        to: "2".to_owned(),
        properties: read.map(|name| (name.to_owned(), "3".to_owned())).collect(),
        ..bare.clone()
    };
    [bare, full]
}

fn fault(field: &str, problem: &str) -> RulesFault {
    RulesFault { field: field.to_owned(), problem: problem.to_owned() }
}
