//! Finds in the sources what the pages have to name. By text, line by line: enough for how these things are written here.

use std::collections::BTreeSet;
use std::path::Path;

use super::pages::{between, root};

/// Sources in which every word in quotes is an error code, but for [`NO_CODES`].
const CODE_SOURCES: [&str; 7] = [
    "shared/src/flows/dispatcher.rs",
    "shared/src/flows/worker",
    "shared/src/model/outcome/class.rs",
    "shared/src/model/outcome/code.rs",
    "shared/src/model/outcome/decide.rs",
    "shared/src/model/outcome/decision.rs",
    "shared/src/model/outcome/facts.rs",
];

/// Words in quotes there that are no codes: a property, parts of HubSpot's sentences, names of operations.
const NO_CODES: [&str; 12] = [
    "email",
    "subscription",
    "unsubscribed",
    "upsert_contacts",
    "update_contacts",
    "read_contacts",
    "read_statuses",
    "write_statuses",
    "erase_contact",
    "change_membership",
    "manage_properties",
    "read_account",
];

/// Elsewhere a code stands behind one of these, in this folder.
const CODE_MARKS: [(&str, &str); 9] = [
    ("shared/src/model/property_value.rs", "Self::TooLong"),
    ("shared/src/model/property_value.rs", "Self::NotA"),
    ("shared/src/model/property_value.rs", "Self::DateNeedsZone"),
    ("shared/src/model/plan/flaw.rs", "NOT_APPLIED: &str"),
    ("shared/src/model/outcome/refusal.rs", "Self::build("),
    ("shared/src/adapters/hubspot", "Refusal::unreadable("),
    ("shared/src/adapters/hubspot", "Refusal::unmade("),
    ("shared/src/adapters/db/batch", "Err(\"unknown"),
    ("shared/src/adapters/db/batch", "Err(\"unreadable"),
];

/// The prefix of every variable of ours.
const PREFIX: &str = "HUBFERRY_";

/// Every `HUBFERRY_…` that these folders name in quotes or in a sentence. A portal's token has the portal's id at its end.
pub(super) fn variables(folders: &[&str]) -> BTreeSet<String> {
    let texts =
        folders.iter().flat_map(|folder| files(folder, "rs")).filter(|(path, _)| !path.contains("documentation"));
    texts.flat_map(|(_, text)| variables_in(&text)).collect()
}

fn variables_in(text: &str) -> Vec<String> {
    let ends = text.match_indices(PREFIX).map(|(start, _)| {
        let name = text[start..].split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')).next();
        name.unwrap_or_default().trim_end_matches(|c: char| c.is_ascii_digit()).to_owned()
    });
    ends.filter(|name| name != PREFIX).collect()
}

/// The states that the newest CHECK constraint on them allows.
pub(super) fn states() -> BTreeSet<String> {
    let migrations = files("migrations", "sql");
    let mut constraints = migrations.iter().filter_map(|(_, text)| {
        let start = text.find("('pending', 'publishing'")?;
        text[start..].split_once(')').map(|(words, _)| between(words, '\'').into_iter().collect())
    });
    constraints
        .next_back()
        .unwrap_or_else(|| panic!("no migration has a CHECK constraint on the states of outbox_events"))
}

/// Every code that can stand in `last_error_code`, as far as our own sources spell it.
pub(super) fn error_codes() -> BTreeSet<String> {
    let plain = CODE_SOURCES.iter().flat_map(|place| files(place, "rs")).flat_map(|(_, text)| words(&program(&text)));
    let plain = plain.filter(|word| !NO_CODES.contains(&word.as_str()));
    let marked = CODE_MARKS.iter().flat_map(|(place, mark)| {
        let lines = files(place, "rs").into_iter().flat_map(|(_, text)| behind(&program(&text), mark));
        lines.flat_map(|rest| words(&rest)).collect::<Vec<_>>()
    });
    let statements =
        files("shared/src/adapters/db/sql", "sql").into_iter().flat_map(|(_, text)| codes_of_statement(&text));
    plain.chain(marked).chain(statements).collect()
}

/// The words with which the schema's functions refuse to replay or cancel an event.
pub(super) fn refusals() -> BTreeSet<String> {
    let migrations = files("migrations", "sql").into_iter().filter(|(path, _)| path.ends_with("__replay.sql"));
    let lines = migrations.flat_map(|(_, text)| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let words = lines.filter(|line| line.contains("when ") && line.contains(" then '"));
    words.filter_map(|line| between(line.split_once(" then ")?.1, '\'').into_iter().next()).collect()
}

/// The texts behind a mark, each to the end of its line; the quote that a mark ends in is kept.
fn behind(text: &str, mark: &str) -> Vec<String> {
    let skipped = mark.find('"').unwrap_or(mark.len());
    text.lines().filter_map(|line| Some(line[line.find(mark)? + skipped..].to_owned())).collect()
}

/// `last_error_code = 'a'` and `last_error_code = case … then 'a' … end`.
fn codes_of_statement(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.split_once("last_error_code = "));
    lines
        .flat_map(|(_, value)| {
            let value = format!("then {value}");
            let codes: Vec<String> =
                value.split("then '").skip(1).filter_map(|rest| Some(rest.split_once('\'')?.0.to_owned())).collect();
            codes
        })
        .collect()
}

/// The sentences that these folders log at level error.
pub(super) fn error_sentences(folders: &[&str]) -> BTreeSet<String> {
    let texts = folders.iter().flat_map(|folder| files(folder, "rs")).map(|(_, text)| program(&text));
    texts
        .flat_map(|text| {
            let calls =
                text.split("tracing::error!(").skip(1).filter_map(|rest| Some(rest.split_once(");")?.0.to_owned()));
            calls.filter_map(|call| between(&call, '"').into_iter().next_back()).collect::<Vec<_>>()
        })
        .collect()
}

/// A constant of a file as people write it: `25 s`, `5 min`, `200 ms`.
pub(super) fn duration(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(root().join(path)).ok()?;
    let (_, rest) = text.split_once(&format!("const {name}: Duration = Duration::from_"))?;
    let (unit, rest) = rest.split_once('(')?;
    let (number, _) = rest.split_once(')')?;
    let unit = match unit {
        "millis" => "ms",
        "secs" => "s",
        "mins" => "min",
        "hours" => "h",
        _ => return None,
    };
    Some(format!("{number} {unit}"))
}

/// The source without comments and without the unit tests at its end.
fn program(text: &str) -> String {
    let lines = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
    lines.filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}

/// Words in quotes, such as `no_budget`. Each line by itself.
fn words(text: &str) -> Vec<String> {
    let is_word = |text: &String| {
        text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    text.lines().flat_map(|line| between(line, '"')).filter(is_word).collect()
}

/// Path and text of a file, or of all files with this ending in a folder and below, sorted by path.
fn files(place: &str, ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(&root().join(place), ending, &mut found);
    assert!(!found.is_empty(), "there is no .{ending} file at {place}: tell tests/it/documentation where it went");
    found.sort();
    found
}

fn collect(path: &Path, ending: &str, found: &mut Vec<(String, String)>) {
    if let Ok(entries) = std::fs::read_dir(path) {
        for entry in entries.flatten() {
            collect(&entry.path(), ending, found);
        }
    } else if path.extension().is_some_and(|extension| extension == ending)
        && let Ok(text) = std::fs::read_to_string(path)
    {
        found.push((path.to_string_lossy().into_owned(), text));
    }
}

#[test]
fn codes_and_variables_are_found_the_way_they_are_written() {
    assert_eq!(
        codes_of_statement("set last_error_code = case v.outcome when 'busy' then 'contact_busy' end"),
        ["contact_busy"]
    );
    assert_eq!(
        codes_of_statement("    last_error_code = 'lease_expired', last_error_summary = 'x'"),
        ["lease_expired"]
    );
    assert_eq!(codes_of_statement("last_error_code = v.error_code"), Vec::<String>::new());
    assert_eq!(words("f(\"no_budget\", \"a sentence\")\n// it's\n=> \"gone\","), ["no_budget", "gone"]);
    assert_eq!(behind("x.ok_or(Refusal::unmade(a, \"b\"))", "Refusal::unmade("), ["a, \"b\"))"]);
    assert_eq!(
        variables_in(concat!("HUBFERRY", "_TOKEN_4711 and \"HUBFERRY", "_LOG\"")),
        ["HUBFERRY_TOKEN_", "HUBFERRY_LOG"]
    );
    assert_eq!(program("a\n// b\n#[cfg(test)]\nc\n"), "a\n");
}
