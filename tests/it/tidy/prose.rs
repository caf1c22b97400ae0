//! What texts must not hold: people, tokens, dead links, and the place where somebody happened to work.

use std::path::Path;

use super::rust_text::line_of;
use super::tree::{self, File, Offence};

/// Reserved by RFC 2606, so that nobody can own an address there. People are made up at example.test; an address that is
/// malformed on purpose may be elsewhere under these.
const NOBODYS_TOPS: [&str; 2] = ["test", "invalid"];

/// How a secret begins, and how many characters follow in a real one.
const TOKEN_STARTS: [(&str, usize); 8] = [
    (concat!("pat-", "na"), 20),
    (concat!("pat-", "eu"), 20),
    (concat!("AK", "IA"), 16),
    (concat!("xo", "xb-"), 20),
    (concat!("gh", "p_"), 30),
    (concat!("sk_", "live_"), 16),
    (concat!("hooks.slack.com/", "services/"), 20),
    (concat!("-----BEGIN ", "PRIVATE"), 0),
];

/// Letters and digits that differ in a real secret; a made-up one repeats itself.
const REAL_TOKEN_VARIETY: usize = 9;

/// Texts that speak of a workplace or of a package registry instead of the project. Split, so that this file passes.
const FOREIGN_PLACES: [&str; 12] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("DESIGN", ".md"),
    concat!("STYLE", ".md"),
    concat!("CASES", ".md"),
    concat!("crates", ".io"),
    concat!("py", "pi.org"),
    concat!("pythonhosted", ".org"),
    concat!("npmjs", ".org"),
    concat!("proxy.golang", ".org"),
];

/// Addresses of people belong into no repository.
pub(super) fn addresses(file: &File) -> Vec<Offence> {
    let advice = "write an address of example.test, which nobody can own";
    let places =
        file.text.match_indices('@').filter(|(at, _)| is_foreign_address(&file.text[..*at], &file.text[at + 1..]));
    places.map(|(at, _)| file.offence(line_of(&file.text, at), advice)).collect()
}

/// A token that looks real may be.
pub(super) fn tokens(file: &File) -> Vec<Offence> {
    let found = TOKEN_STARTS.iter().flat_map(|(start, length)| {
        file.text
            .match_indices(start)
            .filter(|(at, start)| looks_real(&file.text[at + start.len()..], *length))
            .map(|(at, _)| at)
    });
    found
        .map(|at| {
            file.offence(line_of(&file.text, at), "this looks like a real secret; make one up that repeats a letter")
        })
        .collect()
}

/// A link to a file of the repository leads to one.
pub(super) fn links(files: &[File]) -> Vec<Offence> {
    let root = tree::root();
    let mut offences = Vec::new();
    for file in files.iter().filter(|file| file.has_extension("md")) {
        for (at, _) in file.text.match_indices("](") {
            let target = file.text[at + 2..].split([')', '#', ' ']).next().unwrap_or_default();
            let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
            if !target.is_empty() && !target.contains(':') && !root.join(folder).join(target).exists() {
                offences.push(file.offence(line_of(&file.text, at), format!("there is no {target}; correct the link")));
            }
        }
    }
    offences
}

/// A path or document of one machine means nothing on another.
pub(super) fn places(file: &File) -> Vec<Offence> {
    let found = FOREIGN_PLACES.iter().flat_map(|place| file.text.match_indices(place).map(|(at, _)| at));
    found
        .map(|at| {
            file.offence(line_of(&file.text, at), "this names a place outside of the project; state the fact itself")
        })
        .collect()
}

fn is_foreign_address(before: &str, after: &str) -> bool {
    let has_name = before.ends_with(|last: char| last.is_alphanumeric() || "._+-".contains(last));
    let domain: String =
        after.chars().take_while(|next| next.is_ascii_alphanumeric() || ".-".contains(*next)).collect();
    let domain = domain.trim_end_matches(['.', '-']).to_ascii_lowercase();
    let top = domain.rsplit_once('.').map_or("", |(_, top)| top);
    let is_public = top.len() >= 2 && top.bytes().all(|byte| byte.is_ascii_alphabetic());
    has_name && is_public && !NOBODYS_TOPS.contains(&top)
}

fn looks_real(rest: &str, length: usize) -> bool {
    let token: String = rest.chars().take_while(|next| next.is_ascii_alphanumeric() || "-_/".contains(*next)).collect();
    let mut letters: Vec<char> = token.chars().filter(char::is_ascii_alphanumeric).collect();
    letters.sort_unstable();
    letters.dedup();
    length == 0
        || token.len() >= length
            && letters.len() >= REAL_TOKEN_VARIETY
            && !token.to_ascii_lowercase().contains("example")
}

#[test]
fn an_address_of_a_person_is_found() {
    let offences = |domain: &str| addresses(&File::new("a.md", &format!("\nJan <jan.smit@{domain}>."))).len();
    for domain in ["gmail.com", "example.com", "example.testing", "mail.example.org."] {
        assert_eq!(offences(domain), 1, "{domain}");
    }
    for domain in [
        "example.test",
        "a.example.test",
        "Example.Test.",
        "127.0.0.1:5432/x",
        "localhost",
        "example.invalid",
        "v1.2",
        "{domain}",
    ] {
        assert_eq!(offences(domain), 0, "{domain}");
    }
}

#[test]
fn a_token_that_looks_real_is_found() {
    let real = format!("{}1-0f3a9c77-51de-4b82-a6e0-91c4d2b8f735", TOKEN_STARTS[0].0);
    assert_eq!(tokens(&File::new("a.rs", &real)).len(), 1);
    let made_up = format!("{}1-00000000-0000-0000-0000-000000000001", TOKEN_STARTS[0].0);
    assert_eq!(tokens(&File::new("a.rs", &made_up)), []);
    assert_eq!(tokens(&File::new("a.pem", TOKEN_STARTS[7].0)).len(), 1);
}

#[test]
fn a_dead_link_is_found() {
    let offences = |target: &str| links(&[File::new("docs/a.md", &format!("[x]({target})"))]).len();
    assert_eq!(offences("nowhere.md"), 1);
    for target in ["../Cargo.toml", "../Cargo.toml#x", "#here", "https://hubspot.example.test/x"] {
        assert_eq!(offences(target), 0, "{target}");
    }
}

#[test]
fn a_place_outside_of_the_project_is_found() {
    for place in FOREIGN_PLACES {
        assert_eq!(places(&File::new("a.md", &format!("see {place}x"))).len(), 1, "{place}");
    }
    assert_eq!(places(&File::new("a.md", "see docs/a.md and network/x")), []);
}
