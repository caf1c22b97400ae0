//! Alarms watch what there is, and each is explained.

use std::collections::BTreeSet;

use super::document::{Template, text};
use super::{LANES, main_template};

fn alarms() -> Template {
    Template::of("infra/alarms.yaml")
}

#[test]
fn every_alarm_is_explained_and_no_other() {
    let template = alarms();
    let made: BTreeSet<String> =
        template.resources("AWS::CloudWatch::Alarm").iter().map(|alarm| alarm.name.to_owned()).collect();
    let page = text("docs/OPERATIONS.md");
    let section = page.split_once("\n## Alarms\n").expect("docs/OPERATIONS.md has a section on alarms").1;
    let section = section.split("\n## ").next().unwrap_or_default();
    let cells = section.lines().filter(|line| line.starts_with("| `")).filter_map(|row| row.split('|').nth(1));
    let explained: BTreeSet<String> = cells
        .flat_map(|cell| cell.split(','))
        .map(|name| name.trim().trim_matches('`').to_owned())
        .filter(|name| name.chars().next().is_some_and(char::is_uppercase))
        .collect();
    assert_eq!(made, explained, "infra/alarms.yaml against the table of docs/OPERATIONS.md");
    assert!(made.len() >= 20);
}

#[test]
fn every_alarm_tells_somebody() {
    for alarm in alarms().resources("AWS::CloudWatch::Alarm") {
        for actions in ["/AlarmActions", "/OKActions"] {
            assert!(!alarm.property(actions).is_null(), "{} has no {actions}", alarm.name);
        }
        let metrics = alarm.property("/Metrics").to_string() + &alarm.property("/MetricName").to_string();
        assert!(!metrics.contains("Retried"), "{}: a retry calls nobody", alarm.name);
    }
}

/// Whoever emits metrics finds their names in one table.
#[test]
fn metrics_of_the_functions_are_documented() {
    let page = text("docs/OPERATIONS.md");
    let section = page.split_once("\n## Metrics of the functions\n").expect("a section on metrics").1;
    let section = section.split("\n## ").next().unwrap_or_default();
    let used = alarms().at("/Resources").to_string() + &text("infra/dashboard.yaml");
    let in_alarms =
        used.split("\"MetricName\":\"").skip(1).filter_map(|rest| rest.split_once("\",\"Namespace\":\"Hubferry\""));
    let in_alarms = in_alarms.map(|(name, _)| name).filter(|name| name.chars().all(char::is_alphanumeric));
    let in_graphs = used.split("[\"Hubferry\", \"").skip(1).filter_map(|rest| rest.split('"').next());
    let names: BTreeSet<&str> = in_alarms.chain(in_graphs).collect();
    assert!(names.contains("OldestDueAge") && names.contains("DeadEvents") && names.contains("AcceptedToSynced"));
    for name in names {
        assert!(section.contains(&format!("`{name}`")), "{name} is not in the table of docs/OPERATIONS.md");
    }
}

/// A sentence that changes in the code would leave its alarm silent for ever.
#[test]
fn sentences_that_are_counted_are_logged() {
    let sources = ["shared/src"].map(sources_under).concat();
    let template = alarms();
    let filters = template.resources("AWS::Logs::MetricFilter");
    assert_eq!(filters.len(), 4);
    for filter in filters {
        let pattern = filter.property("/FilterPattern").as_str().expect("a pattern");
        let sentence = pattern.split('"').nth(1).expect("a sentence in quotes");
        assert!(sources.contains(&format!("\"{sentence}\"")), "{} counts what nobody logs: {sentence}", filter.name);
    }
}

#[test]
fn functions_are_slow_from_four_fifths_of_their_time_limit() {
    let (template, alarms) = (main_template(), alarms());
    let limits = alarms.at("/Mappings/NearTheLimit").as_object().expect("limits by function");
    assert_eq!(limits.len(), 4);
    for (name, limit) in limits {
        let function = format!("{name}Function");
        assert_eq!(limit["Ms"].as_u64(), Some(template.resource(&function).number("/Timeout") * 800), "{name}");
    }
}

#[test]
fn every_dead_letter_queue_has_an_alarm_at_the_first_message() {
    let template = alarms();
    for lane in LANES {
        let name = format!("DeadLetters{lane}");
        let alarm = template.resource(&name);
        assert_eq!(alarm.number("/Threshold"), 0);
        let queue = format!("${{Prefix}}-{}-dead", lane.to_lowercase());
        assert!(alarm.property("/Dimensions").to_string().contains(&queue), "{name}");
    }
}

/// All Rust under a folder.
fn sources_under(folder: &str) -> String {
    let root = format!("{}/../{folder}", env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![std::path::PathBuf::from(root)];
    let mut found = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found += &std::fs::read_to_string(path).expect("a source");
            }
        }
    }
    found
}
