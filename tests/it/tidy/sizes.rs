//! How long files and functions may become.

use super::rust_text::{code_only, functions, test_lines};
use super::tree::{File, Offence};

const FILE_LINES: usize = 300;
const MAIN_LINES: usize = 60;
const FUNCTION_LINES: usize = 70;

/// Integration tests are tests throughout, and so is a file that is called `tests.rs`.
const ALL_TESTS: [&str; 1] = ["tests/it/"];

/// A file fits into a head. Its unit tests are not counted.
pub(super) fn files(file: &File) -> Vec<Offence> {
    let is_main = file.is_under(&["functions/"]) && file.path.ends_with("/src/main.rs");
    if !(file.is_rust() || file.has_extension("sh")) || file.is_under(&ALL_TESTS) || file.path.ends_with("/tests.rs") {
        return Vec::new();
    }
    let (limit, advice) = if is_main {
        (MAIN_LINES, "move what it does into a flow")
    } else {
        (FILE_LINES, "split it by what its parts are about")
    };
    let tests: usize = test_lines(&code_only(&file.text)).into_iter().map(|lines| lines.len()).sum();
    let lines = file.text.lines().count().saturating_sub(tests);
    if lines > limit {
        vec![file.offence(limit, format!("{lines} lines without tests, of at most {limit}; {advice}"))]
    } else {
        Vec::new()
    }
}

/// A function does one thing.
pub(super) fn functions_of(file: &File) -> Vec<Offence> {
    if !file.is_rust() {
        return Vec::new();
    }
    functions(&code_only(&file.text))
        .into_iter()
        .filter(|function| function.lines > FUNCTION_LINES)
        .map(|function| {
            let (name, lines) = (function.name, function.lines);
            file.offence(
                function.line,
                format!(
                    "`{name}` has {lines} lines, of at most {FUNCTION_LINES}; give its steps functions of their own"
                ),
            )
        })
        .collect()
}

#[test]
fn a_long_file_is_found_and_its_tests_are_not_counted() {
    let long = "fn a() {}\n".repeat(301);
    assert_eq!(files(&File::new("shared/src/a.rs", &long)).len(), 1);
    assert_eq!(files(&File::new("infra/local/a.sh", &long)).len(), 1);
    let tested = format!("fn b() {{}}\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
    assert_eq!(files(&File::new("shared/src/a.rs", &tested)), []);
}

#[test]
fn a_long_main_is_found() {
    let long = "fn a() {}\n".repeat(61);
    assert_eq!(files(&File::new("functions/worker/src/main.rs", &long)).len(), 1);
    assert_eq!(files(&File::new("cli/src/main.rs", &long)), []);
}

#[test]
fn a_long_function_is_found() {
    let function = |lines: usize| format!("\nfn a() {{\n{}}}\n", "b();\n".repeat(lines - 2));
    assert_eq!(functions_of(&File::new("a.rs", &function(71)))[0].line, 2);
    assert_eq!(functions_of(&File::new("a.rs", &function(70))), []);
}
