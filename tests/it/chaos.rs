//! Crash windows: a few seeds of the harness, and that nothing of it is in what is deployed.

use std::process::Stdio;

use tokio::process::Command;

use crate::program::program;
use crate::servers::{database_url, redis_url};

/// What an ordinary build must not hold: the points of the harness, and the variables that arm them.
fn names() -> Vec<String> {
    let source = include_str!("../../shared/src/failpoint/armed.rs");
    let (_, list) = source.split_once("NAMES: [").unwrap();
    let points = list.split_once("];").unwrap().0.split('"').skip(1).step_by(2).map(str::to_owned);
    points.chain(["FAILPOINT", "GUARD_OFF", "LEASE_MS"].map(|name| format!("HUBFERRY_{name}"))).collect()
}

/// Whether a program holds one of the names. `grep` reads binaries of hundreds of megabytes in a moment.
async fn holds_a_name(name: &str) -> bool {
    let mut grep = Command::new("grep");
    grep.args(["-q", "-a", "-F"]).args(names().iter().flat_map(|name| ["-e", name]));
    let status = grep.arg(program(name)).stdin(Stdio::null()).status().await.unwrap();
    assert!(status.code().is_some_and(|code| code < 2), "grep can't read {name}");
    status.success()
}

/// Runs one small seed; panics with what the harness said unless it held.
async fn held(seed: u64) {
    let output = Command::new(program("hubferry-chaos"))
        .args(["--seed", &seed.to_string(), "--rows", "80"])
        .env("HUBFERRY_TEST_DATABASE_URL", database_url())
        .env("HUBFERRY_TEST_REDIS_URL", redis_url())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_that_is_killed_and_stopped_at_random_converges() {
    held(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_stack_that_is_killed_and_stopped_at_random_converges() {
    held(2).await;
}

#[tokio::test]
async fn nothing_of_the_crash_tests_is_in_ordinary_programs() {
    assert!(names().len() > 10);
    assert!(holds_a_name("hubferry-chaos").await, "the search finds what is there");
    for name in ["hubferry", "intake", "dispatcher", "worker", "reconciler"] {
        assert!(!holds_a_name(name).await, "{name} was built with failpoints");
    }
}
