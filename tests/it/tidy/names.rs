//! Names that say nothing, and words that have no place in finished code.

use super::rust_text::{code_only, line_of, words};
use super::tree::{File, Offence};

const EMPTY_NAMES: [&str; 8] = ["util", "utils", "common", "helper", "helpers", "misc", "core", "shared_code"];

/// A word of code, and what to do instead.
const FORBIDDEN: [(&str, &str); 7] = [
    ("todo!", "finish it, or leave it out"),
    ("unimplemented!", "finish it, or leave it out"),
    ("dbg!", "log a sentence with fields, or remove it"),
    ("#[allow(", "write #[expect(lint, reason = \"…\")], which complains once it is no longer needed"),
    ("#![allow(", "write #![expect(lint, reason = \"…\")], which complains once it is no longer needed"),
    ("unsafe", "there is a safe way, or a crate that has proven its unsafe one"),
    ("Client::default()", "a default client has no time limit; use the one that the adapter builds"),
];

/// A module's name says what it is for.
pub(super) fn modules(file: &File) -> Vec<Offence> {
    if !file.is_rust() {
        return Vec::new();
    }
    let code = code_only(&file.text);
    let advice = |name: &str| format!("`{name}` says nothing; name the module after what it is for");
    let by_path = file
        .path
        .trim_end_matches(".rs")
        .split('/')
        .filter(|part| EMPTY_NAMES.contains(part))
        .map(|part| file.offence(1, advice(part)));
    let inline = words(&code, "mod").filter_map(|start| {
        let name = code[start + 3..]
            .split(|character: char| !character.is_alphanumeric() && character != '_')
            .find(|part| !part.is_empty())?;
        EMPTY_NAMES.contains(&name).then(|| file.offence(line_of(&code, start), advice(name)))
    });
    by_path.chain(inline).collect()
}

/// What is committed is finished.
pub(super) fn forbidden_words(file: &File) -> Vec<Offence> {
    if !file.is_rust() {
        return Vec::new();
    }
    let code = code_only(&file.text);
    FORBIDDEN
        .iter()
        .flat_map(|(word, advice)| {
            let places: Vec<usize> = if word.ends_with(|last: char| last.is_alphabetic()) {
                words(&code, word).collect()
            } else {
                code.match_indices(word).map(|(at, _)| at).collect()
            };
            places.into_iter().map(move |place| (place, format!("`{word}`: {advice}")))
        })
        .map(|(place, advice)| file.offence(line_of(&code, place), advice))
        .collect()
}

#[test]
fn an_empty_name_is_found() {
    assert_eq!(modules(&File::new("shared/src/model/utils.rs", "")).len(), 1);
    assert_eq!(modules(&File::new("shared/src/common/a.rs", "")).len(), 1);
    assert_eq!(modules(&File::new("shared/src/a.rs", "\npub(crate) mod helpers {}"))[0].line, 2);
    assert_eq!(modules(&File::new("shared/src/a.rs", "mod helpful; use core::fmt;")), []);
}

#[test]
fn every_forbidden_word_is_found() {
    for (word, _) in FORBIDDEN {
        let file = File::new("a.rs", &format!("\n{word} x"));
        assert_eq!(forbidden_words(&file).first().map(|offence| offence.line), Some(2), "{word}");
    }
    assert_eq!(forbidden_words(&File::new("a.rs", "// todo!\nf(\"unsafe\"); let unsafe_code = 1;")), []);
}
