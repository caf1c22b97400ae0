//! `sam build` and `make package` build the same functions, and find them where they look.

use std::collections::BTreeSet;

use super::document::text;
use super::main_template;

const FUNCTIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../functions");

/// SAM builds the package in `CodeUri` and takes the binary that is called like it; infra/package.sh builds the binary that is
/// called like each folder.
#[test]
fn folder_package_and_binary_of_a_function_have_one_name() {
    let template = main_template();
    let mut deployed = BTreeSet::new();
    for function in template.functions() {
        let name = function.function();
        assert_eq!(function.attribute("Metadata")["BuildMethod"], "rust-cargolambda", "{name}");
        assert_eq!(function.property("/CodeUri"), &format!("functions/{name}"));
        let manifest = text(&format!("functions/{name}/Cargo.toml"));
        assert!(manifest.contains(&format!("[package]\nname = \"{name}\"\n")), "the package of {name}");
        assert!(!manifest.contains("[[bin]]"), "{name} has a binary with a name of its own");
        deployed.insert(name);
    }
    let folders =
        std::fs::read_dir(FUNCTIONS).expect("the functions").map(|entry| entry.expect("a folder").file_name());
    assert_eq!(folders.map(|name| name.into_string().expect("a name")).collect::<BTreeSet<_>>(), deployed);
}

/// cargo-lambda builds with `panic = "abort"` unless the profile says otherwise, and then a panic ends the process.
#[test]
fn a_panic_unwinds_in_what_is_deployed() {
    let manifest = text("Cargo.toml");
    let (_, release) = manifest.split_once("[profile.release]\n").expect("a profile");
    let release: Vec<&str> = release.lines().take_while(|line| !line.starts_with('[')).collect();
    assert!(release.contains(&"panic = \"unwind\""), "{release:?}");
}
