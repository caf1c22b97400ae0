//! Migrations: their names, and the notes on their indexes.

use super::tree::{File, Offence};

const FOLDER: &str = "migrations/";

/// Files are called `V<number>__<words>.sql` and numbered from 1 without a gap.
pub(super) fn numbers(files: &[File]) -> Vec<Offence> {
    let mut offences = Vec::new();
    let mut found: Vec<(u32, &File)> = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with(FOLDER) && file.has_extension("sql")) {
        match number(&file.path[FOLDER.len()..]) {
            Some(number) => found.push((number, file)),
            None => offences.push(file.offence(1, "a migration is called V<number>__<words_in_lower_case>.sql")),
        }
    }
    found.sort_by_key(|(number, _)| *number);
    for ((number, file), expected) in found.into_iter().zip(1_u32..) {
        if number != expected {
            offences.push(file.offence(
                1,
                format!("number {number} where {expected} is due; number migrations without gaps or repeats"),
            ));
        }
    }
    offences
}

/// An index without a reader costs every write and serves nobody.
pub(super) fn index_readers(file: &File) -> Vec<Offence> {
    if !file.path.starts_with(FOLDER) {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    (0..lines.len())
        .filter(|index| creates_index(lines[*index]) && !names_reader(&lines, *index))
        .map(|index| {
            file.offence(index + 1, "which statement reads this index? Say it in a comment above: `-- Reader: …`")
        })
        .collect()
}

fn number(name: &str) -> Option<u32> {
    let (number, words) = name.strip_prefix('V')?.strip_suffix(".sql")?.split_once("__")?;
    let plain = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
    (!words.is_empty() && words.chars().all(plain)).then(|| number.parse().ok())?
}

fn creates_index(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    line.starts_with("create index") || line.starts_with("create unique index")
}

/// A comment directly above, or on a line of the statement, that begins with the word.
fn names_reader(lines: &[&str], index: usize) -> bool {
    let above = lines[..index].iter().rev().take_while(|line| line.starts_with("--"));
    let length = lines[index..].iter().position(|line| line.contains(';')).unwrap_or(0);
    let within = lines[index..=index + length].iter().filter_map(|line| line.split_once("--").map(|(_, note)| note));
    above.copied().chain(within).any(|note| note.to_ascii_lowercase().contains("reader"))
}

#[test]
fn a_misnamed_missing_or_repeated_migration_is_found() {
    let offences = |names: &[&str]| {
        numbers(&names.iter().map(|name| File::new(&format!("migrations/{name}"), "")).collect::<Vec<_>>()).len()
    };
    assert_eq!(offences(&["V1__first.sql", "V2__second_one.sql", "V10__x.sql", "V3__y.sql"]), 1);
    assert_eq!(offences(&["V2__second.sql"]), 1);
    assert_eq!(offences(&["V1__a.sql", "V1__b.sql"]), 1);
    assert_eq!(offences(&["first.sql"]), 1);
    assert_eq!(offences(&["V1__Big Words.sql"]), 1);
    assert_eq!(offences(&["V1__a.sql", "V2__b.sql"]), 0);
}

#[test]
fn an_index_without_a_reader_is_found() {
    let offences = |text: &str| index_readers(&File::new("migrations/V1__a.sql", text)).len();
    assert_eq!(offences("create table a ();\nCREATE UNIQUE INDEX b ON a (c);"), 1);
    assert_eq!(offences("-- Reader: the claim,\n-- by lane.\ncreate index b on a (c);"), 0);
    assert_eq!(offences("-- Fast.\ncreate index b on a (c);"), 1);
    assert_eq!(offences("create index b on a (c)\n  where d; -- reader: the claim"), 0);
}
