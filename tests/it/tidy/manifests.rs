//! One place for versions.

use super::tree::{File, Offence};

/// A member takes every dependency from the workspace. The root of another workspace is no member.
pub(super) fn versions(file: &File) -> Vec<Offence> {
    if !file.path.ends_with("/Cargo.toml") || file.text.lines().any(|line| line == "[workspace]") {
        return Vec::new();
    }
    let mut in_dependencies = false;
    let mut offences = Vec::new();
    for (index, line) in file.text.lines().map(str::trim).enumerate() {
        if line.starts_with('[') {
            in_dependencies = line.contains("dependencies");
        } else if in_dependencies && line.contains('=') && !line.starts_with('#') && !takes_from_workspace(line) {
            offences.push(
                file.offence(index + 1, "versions stand in the root Cargo.toml; write `name.workspace = true` here"),
            );
        }
    }
    offences
}

fn takes_from_workspace(line: &str) -> bool {
    line.replace(' ', "").contains("workspace=true")
}

#[test]
fn a_version_in_a_member_is_found() {
    let manifest = "[package]\nversion = \"1\"\n[dependencies]\na.workspace = true\nb = { workspace = true, features = [] }\nc = \"1\"\n[target.x.dev-dependencies]\nd = { version = \"1\" }";
    let lines: Vec<_> =
        versions(&File::new("cli/Cargo.toml", manifest)).into_iter().map(|offence| offence.line).collect();
    assert_eq!(lines, [6, 8]);
    assert_eq!(versions(&File::new("Cargo.toml", "[workspace.dependencies]\na = \"1\"")), []);
    assert_eq!(versions(&File::new("fuzz/Cargo.toml", "[workspace]\n[dependencies]\na = \"1\"")), []);
}
