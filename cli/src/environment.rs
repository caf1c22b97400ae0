//! Variables that are not set come from a file, so that a command works beside a running local stack.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use hubferry::config::Environment;

use crate::end::Misuse;
use crate::output;

/// What the local stack writes, below the folder it was started in.
const STACK_FILE: &str = ".local/stack.env";

/// The variable whose origin is worth a line: it decides which database a command changes.
const DATABASE_VARIABLE: &str = "HUBFERRY_DATABASE_URL";

/// The process's environment; what is not set there is taken from the named file, or from the local stack's.
pub(crate) fn read(named: Option<&Path>) -> anyhow::Result<Environment> {
    let mut environment = Environment::read();
    let (path, text) = match named {
        Some(path) => (path.to_owned(), std::fs::read_to_string(path).with_context(|| unreadable(path))?),
        None => match stack_file()? {
            Some(found) => found,
            None => return Ok(environment),
        },
    };
    let variables = parse(&text)
        .map_err(|line| Misuse(format!("{} line {line} is no variable: write NAME=value", path.display())))?;
    if environment.optional(DATABASE_VARIABLE).is_none() && variables.iter().any(|(name, _)| name == DATABASE_VARIABLE)
    {
        output::note(&format!("using the database of {}", path.display()));
    }
    environment.add_defaults(variables);
    Ok(environment)
}

/// The file of the nearest folder that has one, from the current folder upwards.
fn stack_file() -> anyhow::Result<Option<(PathBuf, String)>> {
    let Ok(current) = std::env::current_dir() else { return Ok(None) };
    for folder in current.ancestors() {
        let path = folder.join(STACK_FILE);
        match std::fs::read_to_string(&path) {
            Ok(text) => return Ok(Some((path, text))),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error).with_context(|| unreadable(&path)),
        }
    }
    Ok(None)
}

fn unreadable(path: &Path) -> String {
    format!("{} can't be read", path.display())
}

/// Reads lines NAME=value, quoted as a shell would. The fault is the number of the line: its text may be a secret.
fn parse(text: &str) -> Result<Vec<(String, String)>, usize> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| {
            let line = line.strip_prefix("export ").unwrap_or(line);
            let (name, value) = line.split_once('=').ok_or(number)?;
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if is_name { Ok((name.to_owned(), unquoted(value))) } else { Err(number) }
        })
        .collect()
}

/// Takes away quotes, and backslashes outside of single ones.
fn unquoted(value: &str) -> String {
    let (mut plain, mut quote, mut chars) = (String::with_capacity(value.len()), None, value.chars());
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => plain.extend(chars.next()),
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, _) => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_a_shell_reads_them() {
        let text = "# a comment\n\nA=1\r\nexport B='x y'\nC=a\\?b\\&c\nD=\"q\\\"r\"\nE=\n";
        let pairs = parse(text).unwrap();
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("A", "1"), ("B", "x y"), ("C", "a?b&c"), ("D", "q\"r"), ("E", "")]);
    }

    #[test]
    fn a_line_that_is_no_variable_is_named_by_its_number_alone() {
        assert_eq!(parse("A=1\nsecret"), Err(2));
        assert_eq!(parse("not a name=1"), Err(1));
    }
}
