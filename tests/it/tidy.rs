//! Rules of this repository that no compiler knows, kept by a machine.
//!
//! Each rule is a function over the files; each says what is wrong, where, and what to do instead.

mod layers;
mod manifests;
mod migrations;
mod names;
mod prose;
mod rust_text;
mod sizes;
mod tree;

use tree::{File, Offence};

#[test]
fn layers_point_downwards() {
    check_each(layers::imports);
}

#[test]
fn an_outside_crate_is_used_in_its_adapter_only() {
    check_each(layers::outside_crates);
}

#[test]
fn sql_stands_in_the_database_adapter_only() {
    check_each(layers::sql);
}

#[test]
fn nothing_is_left_running_by_a_function() {
    check_each(layers::detached_tasks);
}

#[test]
fn files_and_functions_stay_short() {
    check_each(sizes::files);
    check_each(sizes::functions_of);
}

#[test]
fn names_say_what_a_module_is_for() {
    check_each(names::modules);
}

#[test]
fn no_code_is_unfinished_unsafe_or_silenced() {
    check_each(names::forbidden_words);
}

#[test]
fn versions_stand_in_the_root_manifest_only() {
    check_each(manifests::versions);
}

#[test]
fn migrations_are_numbered_without_gaps() {
    report(&migrations::numbers(tree::files()));
}

#[test]
fn every_index_names_its_reader() {
    check_each(migrations::index_readers);
}

#[test]
fn no_real_person_or_token_appears() {
    check_each(prose::addresses);
    check_each(prose::tokens);
}

#[test]
fn links_in_documents_lead_somewhere() {
    report(&prose::links(tree::files()));
}

#[test]
fn the_project_speaks_of_itself_alone() {
    check_each(prose::places);
}

fn check_each(rule: fn(&File) -> Vec<Offence>) {
    report(&tree::files().iter().flat_map(rule).collect::<Vec<_>>());
}

fn report(offences: &[Offence]) {
    let lines: Vec<String> = offences.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} offence(s):\n{}", lines.len(), lines.join("\n"));
}
