//! `hubferry import` when it is stopped, or its database goes away.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr};
use tokio_postgres::NoTls;

use super::{Desk, Run, counts, import_arguments};
use crate::servers::database_url;

/// Enough batches that a run is still at work when it is stopped.
const ROWS: usize = 4_000;

const LIST: &str = "a.rejected.csv";
const PROGRESS: &str = "a.csv.hubferry-progress";

/// Every tenth row is rejected.
fn file(tag: &str) -> String {
    let row = |number| {
        let at = if number % 10 == 0 { "" } else { "@" };
        format!("{tag}{number}{at}example.test,subscribed\n")
    };
    format!("email,desired_state\n{}", (1..=ROWS).map(row).collect::<String>())
}

/// Starts an import by small batches and lets it come to this many rows.
async fn started(desk: &Desk, rows: u64) -> Child {
    let mut child = desk.command(&[&import_arguments("a.csv")[..], &["--batch-size", "20"]].concat()).spawn().unwrap();
    while progress(desk).is_none_or(|progress| progress["rows"].as_u64() < Some(rows)) {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it could be stopped");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    child
}

fn progress(desk: &Desk) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(desk.path(PROGRESS)).ok()?).ok()
}

async fn signal(child: &Child, name: &str) {
    let id = child.id().unwrap().to_string();
    let killed = tokio::process::Command::new("kill").args(["-s", name, &id]).status().await.unwrap();
    assert!(killed.success());
}

/// Every row once, and every rejected line listed once, in order.
async fn assert_complete(desk: &Desk, summary: &Value) {
    let [rows, accepted, replayed, rejected] = counts(summary);
    assert_eq!((rows, accepted + replayed, rejected), (4_000, 3_600, 400));
    assert_eq!(desk.requests().await, 3_600);
    let lines: Vec<usize> =
        desk.read(LIST).lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    assert_eq!(lines, (1..=ROWS / 10).map(|number| number * 10 + 1).collect::<Vec<_>>());
    assert!(!desk.path(PROGRESS).exists());
}

#[tokio::test]
async fn a_killed_import_continues_where_it_was() {
    let desk = Desk::new().await;
    desk.write("a.csv", file("a"));
    let mut child = started(&desk, 200).await;
    child.kill().await.unwrap();
    let at = progress(&desk).unwrap()["line"].clone();

    let run = desk.import("a.csv", &[]).await;
    let summary = run.json(3);
    assert_eq!(summary["resumed_at_line"], at);
    assert!(counts(&summary)[2] <= 20, "at most one batch is repeated");
    assert_complete(&desk, &summary).await;
}

#[tokio::test]
async fn an_import_that_is_asked_to_stop_ends_its_batch_and_continues_later() {
    for name in ["INT", "TERM"] {
        let desk = Desk::new().await;
        desk.write("a.csv", file("a"));
        let child = started(&desk, 20).await;
        signal(&child, name).await;
        let run = Run::of(child.wait_with_output().await.unwrap());
        assert!(run.failure(1).contains("continue by running the same command again"), "{}", run.stderr);

        let summary = desk.import("a.csv", &[]).await.json(3);
        assert_eq!(counts(&summary)[2], 0, "nothing is repeated");
        assert_complete(&desk, &summary).await;
    }
}

#[tokio::test]
async fn another_file_another_value_or_another_database_begins_anew() {
    let (desk, other) = (Desk::new().await, Desk::new().await);
    desk.write("a.csv", file("a"));
    started(&desk, 20).await.kill().await.unwrap();
    let left = std::fs::read(desk.path(PROGRESS)).unwrap();

    other.write("a.csv", file("a"));
    other.write(PROGRESS, &left);
    let summary = other.import("a.csv", &[]).await.json(3);
    assert_eq!(summary["resumed_at_line"], Value::Null);
    assert_complete(&other, &summary).await;

    let summary = desk.import("a.csv", &["--desired-state", "unsubscribed"]).await.json(3);
    assert_eq!(summary["resumed_at_line"], Value::Null);

    desk.write(PROGRESS, &left);
    desk.write("a.csv", "email,desired_state\nz@example.test,subscribed\n");
    let summary = desk.import("a.csv", &[]).await.json(0);
    assert_eq!((counts(&summary), &summary["resumed_at_line"]), ([1, 1, 0, 0], &Value::Null));
    assert!(!desk.path(LIST).exists(), "the list of the earlier file is gone");
}

#[tokio::test]
async fn two_imports_of_one_file_do_not_run_side_by_side() {
    let desk = Desk::new().await;
    desk.write("a.csv", file("a"));
    let mut child = started(&desk, 20).await;
    assert!(desk.import("a.csv", &[]).await.failure(1).contains("another import of a.csv is running"));
    child.kill().await.unwrap();
}

#[tokio::test]
async fn a_database_that_breaks_the_connection_costs_no_row() {
    let desk = Desk::new().await;
    desk.write("a.csv", file("a"));
    let child = started(&desk, 20).await;
    let broken = desk.count(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity
                             where datname = current_database() and application_name = 'hubferry'",
    );
    assert_eq!(broken.await, 1);
    let run = Run::of(child.wait_with_output().await.unwrap());
    assert_complete(&desk, &run.json(3)).await;
}

/// Refuses new connections to this desk's database and ends those of the program; or takes them again.
async fn close_database(desk: &Desk, is_closed: bool) {
    let name: String = desk.sql.query_one("select current_database()::text", &[]).await.unwrap().get(0);
    // A session can't close the database that it is in.
    let (server, connection) = tokio_postgres::connect(&database_url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    server.batch_execute(&format!("alter database {name} with allow_connections {}", !is_closed)).await.unwrap();
    if is_closed {
        let ended = "select pg_terminate_backend(pid) from pg_stat_activity
                     where datname = current_database() and application_name = 'hubferry'";
        desk.sql.batch_execute(ended).await.unwrap();
    }
}

/// Reads what the program says until it says this.
async fn wait_for(said: &mut Lines<BufReader<ChildStderr>>, text: &str) {
    while !said.next_line().await.unwrap().expect("it ended before it said so").contains(text) {}
}

#[tokio::test]
async fn a_database_that_is_away_for_a_while_is_waited_for() {
    let desk = Desk::new().await;
    desk.write("a.csv", file("a"));
    let mut child = started(&desk, 20).await;
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    close_database(&desk, true).await;
    wait_for(&mut said, "trying again in").await;
    close_database(&desk, false).await;
    let run = Run::of(child.wait_with_output().await.unwrap());
    assert_complete(&desk, &run.json(3)).await;
}

#[tokio::test]
async fn waiting_for_a_database_is_ended_by_whoever_asks_and_continued_later() {
    let desk = Desk::new().await;
    desk.write("a.csv", file("a"));
    let mut child = started(&desk, 20).await;
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    close_database(&desk, true).await;
    wait_for(&mut said, "trying again in").await;
    signal(&child, "INT").await;
    wait_for(&mut said, "continue by running the same command again").await;
    assert_eq!(child.wait().await.unwrap().code(), Some(1));

    close_database(&desk, false).await;
    assert_complete(&desk, &desk.import("a.csv", &[]).await.json(3)).await;
}

#[tokio::test]
async fn a_lost_list_of_rejected_rows_is_made_again() {
    let desk = Desk::new().await;
    desk.write("a.csv", file("a"));
    started(&desk, 200).await.kill().await.unwrap();
    std::fs::remove_file(desk.path(LIST)).unwrap();
    let summary = desk.import("a.csv", &[]).await.json(3);
    assert_eq!(summary["resumed_at_line"], Value::Null);
    assert_complete(&desk, &summary).await;
}

#[tokio::test]
async fn a_database_that_is_away_is_told_without_its_password() {
    let desk = Desk::bare().await;
    desk.write("a.csv", "email,desired_state\nz@example.test,subscribed\n");
    let mut command = desk.command(&import_arguments("a.csv"));
    let run =
        Run::of(command.env("HUBFERRY_DATABASE_URL", "postgres://user:secret@127.0.0.1:1/x").output().await.unwrap());
    let fault = run.failure(1);
    assert!(fault.contains("PostgreSQL is not reachable") && !fault.contains("secret"), "{fault}");
}
