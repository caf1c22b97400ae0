//! A row that kills every worker process that holds it.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use tokio::process::{Child, Command};
use uuid::Uuid;

use super::{Stack, number, rows, terminate};
use crate::program::program;

/// How a process ends that aborts.
const SIGABRT: i32 = 6;

/// Attempts that an event has.
const ATTEMPTS: i32 = 12;

/// Workers that die with an innocent event in their hands, at most.
const MOST_SHARED_CRASHES: i32 = 3;

/// Deaths after which the killer is as far as it would be after ten: the rest is more of the same, and each takes seconds.
const ENOUGH_DEATHS: u32 = 6;

impl Stack {
    /// A worker that aborts whenever it has claimed this event; with leases of two seconds, so that its heirs need not wait.
    fn worker_that_dies_of(&self, event: Uuid) -> Child {
        let mut command = self.placed(Command::new(program("hubferry-chaos")));
        command.arg("hubferry").env("HUBFERRY_FAILPOINT", format!("worker.after_claim@{event}"));
        // It ends when its standard input does.
        command.env("HUBFERRY_LEASE_MS", "2000").stdin(Stdio::piped());
        self.start(command, &["worker"])
    }

    /// Returns when nothing is left to do. Whatever waits for its time is made due; so is what a worker had received and not
    /// claimed when another of its batches ended it: the reconciler would publish that again after some minutes.
    async fn hurried(&self, sql: &tokio_postgres::Client) {
        let make_due = "
            update hubferry.outbox_events set next_attempt_at = clock_timestamp() where status = 'retry';
            update hubferry.outbox_events set status = 'retry', next_attempt_at = clock_timestamp()
            where status = 'queued' and queued_at < clock_timestamp() - interval '15 seconds'";
        self.wait_for("the end of the work", async || {
            sql.batch_execute(make_due).await.unwrap();
            super::unfinished(&self.status().await) == 0
        })
        .await;
    }

    async fn sql(&self) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.database.url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_kills_every_worker_process_ends_dead_and_all_others_synced() {
    let stack = Stack::new(5).await;
    let base = stack.up(&["intake", "dispatcher", "reconciler", "simulator", "queues"]);
    stack.ready().await;
    assert!(stack.import(&rows(60)).status().await.unwrap().success());
    let sql = stack.sql().await;
    // Of those that nothing supersedes.
    let choice = "select event_id from hubferry.outbox_events join hubferry.subscription_streams s using (stream_id)
                  where sequence = s.last_sequence order by event_id limit 1";
    let killer: Uuid = sql.query_one(choice, &[]).await.unwrap().get(0);

    let mut deaths = 0;
    while super::unfinished(&stack.status().await) > 0 {
        let mut worker = stack.worker_that_dies_of(killer);
        // To wait would close it.
        let _input = worker.stdin.take();
        tokio::select! {
            ended = worker.wait() => {
                assert_eq!(ended.unwrap().signal(), Some(SIGABRT), "it dies of the event and of nothing else\n{}", stack.log());
                deaths += 1;
            }
            () = stack.hurried(&sql) => drop(terminate(worker).await),
        }
        if deaths == ENOUGH_DEATHS {
            let most = "update hubferry.outbox_events set process_attempts = 10 where event_id = $1";
            sql.execute(most, &[&killer]).await.unwrap();
        }
        sql.execute(
            "update hubferry.outbox_events set next_attempt_at = clock_timestamp() where status = 'retry'",
            &[],
        )
        .await
        .unwrap();
    }
    let fate = "select status, last_error_code, process_attempts from hubferry.outbox_events where event_id = $1";
    let row = sql.query_one(fate, &[&killer]).await.unwrap();
    let fate: (String, String, i32) = (row.get(0), row.get(1), row.get(2));
    assert_eq!(fate, ("dead".into(), "worker_crashed".into(), ATTEMPTS), "after {deaths} deaths\n{}", stack.log());
    let others = "select count(*) filter (where status in ('synced', 'superseded')), count(*), max(crashes)
                  from hubferry.outbox_events where event_id <> $1";
    let row = sql.query_one(others, &[&killer]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), row.get::<_, i64>(1), "all others ended well");
    assert!(row.get::<_, i32>(2) <= MOST_SHARED_CRASHES, "{} crashes of one event", row.get::<_, i32>(2));

    // Seen by whoever looks, in the log too.
    assert_eq!(number(&stack.status().await, "dead"), 1);
    let list = ["--json", "events", "list", "--status", "dead", "--code", "worker_crashed"];
    let listed = stack.command().args(list).output().await.unwrap();
    assert!(String::from_utf8(listed.stdout).unwrap().contains(&killer.to_string()));
    assert!(stack.log().contains("its workers did not come back"), "{}", stack.log());
    assert!(terminate(base).await.success());
}
