//! Functions are given the variables that they read, as docs/CONFIGURATION.md lists them, and no other.

use std::collections::BTreeMap;

use super::document::{Resource, text};
use super::main_template;

/// Variables that may be left out, and why they are.
const LEFT_OUT: [(&str, &str); 7] = [
    ("HUBFERRY_HUBSPOT_TOKEN_<portal id>", "its name is not known here; DEPLOY.md says how to add one"),
    ("HUBFERRY_HUBSPOT_VERSION_OBJECTS", "a version of hubferry comes with the one that it was tested with"),
    ("HUBFERRY_HUBSPOT_VERSION_COMMUNICATION_PREFERENCES", "as above"),
    ("HUBFERRY_HUBSPOT_VERSION_LISTS", "as above"),
    ("HUBFERRY_HUBSPOT_VERSION_PROPERTIES", "as above"),
    ("HUBFERRY_HUBSPOT_VERSION_ACCOUNT_INFO", "as above"),
    ("HUBFERRY_WEBHOOK_SECRETS_FILE", "a function has no files but its own"),
];

#[test]
fn functions_are_given_what_they_read_and_nothing_else() {
    let (template, documented) = (main_template(), documented());
    for function in template.functions() {
        let name = function.function();
        let read: Vec<&String> =
            documented.iter().filter(|(_, readers)| readers.contains(&name)).map(|(variable, _)| variable).collect();
        let given = function.variables();
        let unknown: Vec<_> = given.keys().filter(|variable| !read.contains(variable)).collect();
        assert!(unknown.is_empty(), "{name} is given what it does not read: {unknown:?}");
        let left_out = |variable: &&&String| LEFT_OUT.iter().any(|(known, _)| known == **variable);
        let missing: Vec<_> =
            read.iter().filter(|variable| !given.contains_key(**variable)).filter(|v| !left_out(v)).collect();
        assert!(missing.is_empty(), "{name} reads what it is not given: {missing:?}");
    }
}

/// The functions that read each variable, from the table.
fn documented() -> BTreeMap<String, Vec<String>> {
    let functions: Vec<String> = main_template().functions().into_iter().map(Resource::function).collect();
    let page = text("docs/CONFIGURATION.md");
    let rows = page.lines().filter(|line| line.starts_with("| `HUBFERRY_"));
    let rows = rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let all = cells[2].contains("all functions");
        let words: Vec<&str> = cells[2].split(|c: char| !c.is_alphanumeric()).collect();
        let readers = functions.iter().filter(|function| all || words.contains(&function.as_str()));
        (cells[1].trim_matches('`').to_owned(), readers.cloned().collect())
    });
    let found: BTreeMap<_, _> = rows.collect();
    assert!(found.len() > 15, "the table of variables in docs/CONFIGURATION.md is not found");
    found
}
