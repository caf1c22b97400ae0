//! functions → flows → adapters → model; an outside crate in its adapter; SQL in the database adapter.

use super::rust_text::{code_only, is_name, line_of, literals, test_lines, words};
use super::tree::{File, Offence};

const MODEL: &str = "shared/src/model";
const ADAPTERS: &str = "shared/src/adapters";
const DATABASE: &str = "shared/src/adapters/db";

/// What the model must not name: the layers above it, and everything that reaches outside of the process or differs from
/// one run to the next.
const CLOSED_TO_MODEL: [&str; 21] = [
    "adapters",
    "flows",
    "config",
    "clock",
    "tokio",
    "reqwest",
    "redis",
    "tokio_postgres",
    "deadpool_postgres",
    "refinery",
    "axum",
    "aws_config",
    "aws_sdk_sqs",
    "lambda_runtime",
    "lambda_http",
    "rand",
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "Uuid::new_v4",
];

/// A crate, where it may be used, and where that holds.
struct Home {
    crates: &'static [&'static str],
    folders: &'static [&'static str],
    kept_in: &'static [&'static str],
}

const PROGRAM: &[&str] = &["shared/src/", "functions/", "cli/src/"];
const WITHOUT_CLI: &[&str] = &["shared/src/", "functions/"];

const HOMES: [Home; 4] = [
    Home {
        crates: &["tokio_postgres", "deadpool_postgres", "tokio_postgres_rustls", "refinery"],
        folders: &[DATABASE],
        kept_in: PROGRAM,
    },
    Home { crates: &["redis"], folders: &["shared/src/adapters/budget"], kept_in: PROGRAM },
    Home { crates: &["aws_sdk_sqs"], folders: &["shared/src/adapters/sqs"], kept_in: WITHOUT_CLI },
    Home {
        crates: &["reqwest"],
        folders: &["shared/src/adapters/hubspot", "shared/src/adapters/effects", "shared/src/adapters/credentials"],
        kept_in: WITHOUT_CLI,
    },
];

/// A lower layer names no higher one.
pub(super) fn imports(file: &File) -> Vec<Offence> {
    let closed: &[&str] = if file.is_under(&[MODEL]) {
        &CLOSED_TO_MODEL
    } else if file.is_under(&[ADAPTERS]) {
        &["flows"]
    } else {
        return Vec::new();
    };
    let code = program_code(file);
    let mentions = |name: &&str| {
        path_mentions(&code, name, true).into_iter().map(|place| (place, (*name).to_owned())).collect::<Vec<_>>()
    };
    closed
        .iter()
        .flat_map(mentions)
        .map(|(place, name)| {
            file.offence(
                line_of(&code, place),
                format!("`{name}` is above this layer; pass the value in as an argument, or move this code up"),
            )
        })
        .collect()
}

/// One outside system has one adapter.
pub(super) fn outside_crates(file: &File) -> Vec<Offence> {
    if !file.is_rust() {
        return Vec::new();
    }
    let code = program_code(file);
    let mut offences = Vec::new();
    for home in HOMES.iter().filter(|home| file.is_under(home.kept_in) && !file.is_under(home.folders)) {
        for name in home.crates {
            offences.extend(path_mentions(&code, name, false).into_iter().map(|place| {
                file.offence(
                    line_of(&code, place),
                    format!("`{name}` is used under {} only; call a function of that adapter", home.folders.join(", ")),
                )
            }));
        }
    }
    offences
}

/// Statements stand where their siblings stand.
pub(super) fn sql(file: &File) -> Vec<Offence> {
    if !file.is_rust() || !file.is_under(PROGRAM) || file.is_under(&[DATABASE]) {
        return Vec::new();
    }
    let tests = test_lines(&code_only(&file.text));
    literals(&file.text)
        .into_iter()
        .filter(|literal| is_sql(&literal.text) && !tests.iter().any(|lines| lines.contains(&literal.line)))
        .map(|literal| {
            file.offence(literal.line, format!("SQL outside of {DATABASE}; give the statement a function there"))
        })
        .collect()
}

/// A sandbox freezes between two invocations, and with it whatever still runs. A database connection has a task that
/// drives it and ends with its client; that is the database adapter's own matter.
pub(super) fn detached_tasks(file: &File) -> Vec<Offence> {
    if !file.is_rust() || !file.is_under(WITHOUT_CLI) || file.is_under(&[DATABASE]) {
        return Vec::new();
    }
    let code = program_code(file);
    ["tokio::spawn", "task::spawn", "thread::spawn"]
        .iter()
        .flat_map(|name| words(&code, name).collect::<Vec<_>>())
        .map(|place| {
            file.offence(
                line_of(&code, place),
                "a detached task outlives its invocation; join it, or own it by a JoinSet",
            )
        })
        .collect()
}

/// The code without unit tests; empty for what is no Rust.
fn program_code(file: &File) -> String {
    if !file.is_rust() {
        return String::new();
    }
    let code = code_only(&file.text);
    let tests = test_lines(&code);
    let kept = code
        .split_inclusive('\n')
        .enumerate()
        .map(|(index, line)| if tests.iter().any(|lines| lines.contains(&(index + 1))) { "\n" } else { line });
    kept.collect()
}

/// Places where a name begins a path (`redis::…`, `use redis;`) or, if `anywhere`, stands within one (`crate::flows::…`).
fn path_mentions(code: &str, name: &str, anywhere: bool) -> Vec<usize> {
    words(code, name)
        .filter(|start| {
            let (before, after) = (code[..*start].trim_end(), code[start + name.len()..].trim_start());
            let begins =
                !before.ends_with("::") || before.strip_suffix("::").is_some_and(|outer| !outer.ends_with(is_name));
            let imported = before.ends_with("use") || before.ends_with("::") && (anywhere || begins);
            let within = anywhere && (name.contains("::") || before.ends_with("::{") || before.ends_with("::"));
            (begins || anywhere) && (after.starts_with("::") || imported || within) && !before.ends_with("mod")
        })
        .collect()
}

fn is_sql(text: &str) -> bool {
    let statement = text.trim_start_matches(['\\', '\n', ' ']).to_ascii_lowercase();
    let begins = |word: &str, then: &str| {
        statement.strip_prefix(word).is_some_and(|rest| rest.starts_with(char::is_whitespace) && rest.contains(then))
    };
    begins("insert", "into ")
        || begins("update", " set ")
        || begins("delete", "from ")
        || begins("select", " from ")
        || begins("select", "hubferry.")
        || begins("with", " as (")
}

#[test]
fn a_model_that_reaches_out_is_found() {
    for code in [
        "use tokio::time;",
        "use crate::adapters::db;",
        "use crate::{flows, model};",
        "use super::super::flows::x;",
        "fn f() { redis::cmd() }",
        "fn f() { std::fs::read() }",
        "fn f() { Uuid::new_v4() }",
        "use rand;",
        "fn f() { ::tokio::x() }",
        "use crate::clock::Clock;",
    ] {
        assert_eq!(imports(&File::new("shared/src/model/a.rs", code)).len(), 1, "{code}");
    }
    for code in [
        "use crate::model::a;",
        "// tokio::spawn\n",
        "let clock = 1;",
        "struct Flows;",
        "let flows = x.flows;",
        "#[cfg(test)]\nmod tests { use rand::x; }",
    ] {
        assert_eq!(imports(&File::new("shared/src/model/a.rs", code)), [], "{code}");
    }
}

#[test]
fn an_adapter_that_knows_a_flow_is_found() {
    assert_eq!(imports(&File::new("shared/src/adapters/a.rs", "\nuse crate::flows::b;"))[0].line, 2);
    assert_eq!(imports(&File::new("shared/src/flows/a.rs", "use crate::flows::b;")), []);
}

#[test]
fn a_crate_outside_of_its_adapter_is_found() {
    let flow = |code: &str| outside_crates(&File::new("shared/src/flows/a.rs", code)).len();
    assert_eq!(flow("use redis::Script;"), 1);
    assert_eq!(flow("use reqwest;"), 1);
    assert_eq!(flow("fn f(x: tokio_postgres::Client, y: aws_sdk_sqs::Client) {}"), 2);
    assert_eq!(flow("use crate::adapters::redis::x; let redis = redis_url();"), 0);
    assert_eq!(outside_crates(&File::new("shared/src/adapters/budget/mod.rs", "use redis::Script;")), []);
    assert_eq!(outside_crates(&File::new("tests/it/a.rs", "use redis::Script;")), []);
}

#[test]
fn sql_outside_of_its_adapter_is_found() {
    for text in [
        "insert into a values (1)",
        "UPDATE a SET b = 1",
        "\\\n  select a from b",
        "with x as (select 1) select 2",
        "select hubferry.f($1)",
        "delete from a",
    ] {
        let file = File::new("shared/src/flows/a.rs", &format!("f(\"{text}\")"));
        assert_eq!(sql(&file).len(), 1, "{text}");
    }
    assert_eq!(sql(&File::new("cli/src/a.rs", "f(\"select a portal\"); // select a from b")), []);
    assert_eq!(sql(&File::new("shared/src/adapters/db/a.rs", "f(\"select a from b\")")), []);
}

#[test]
fn a_detached_task_is_found() {
    assert_eq!(detached_tasks(&File::new("shared/src/flows/a.rs", "tokio::spawn(f())")).len(), 1);
    assert_eq!(
        detached_tasks(&File::new("shared/src/flows/a.rs", "set.spawn(f()); tokio::task::spawn_blocking(g)")),
        []
    );
    assert_eq!(detached_tasks(&File::new("cli/src/a.rs", "tokio::spawn(f())")), []);
}
