//! How much lies in the dead-letter queues, as a person and the reconciler see it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use hubferry::adapters::sqs::DeadLetterQueue;
use hubferry::flows::dispatcher::Dispatcher;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::program::program;
use crate::world::World;

/// Puts messages into a queue.
async fn put(world: &World, queue: &str, messages: usize) {
    for _ in 0..messages {
        let client = world.queues.client();
        client.send_message().queue_url(world.queues.queue_url(queue)).message_body("{}").send().await.unwrap();
    }
}

fn found(source: &str, messages: u64) -> DeadLetterQueue {
    DeadLetterQueue { source: source.into(), queue: Some(format!("{source}-dead-letters")), messages: Some(messages) }
}

/// `hubferry status` beside these queues; without them where nobody said where they are.
async fn status(world: &World, options: &[&str], is_told: bool) -> String {
    let mut command = Command::new(program("hubferry"));
    let folder = tempfile::tempdir().unwrap();
    command.arg("status").args(options).current_dir(folder.path()).env_clear().stdin(Stdio::null());
    command.env("HUBFERRY_DATABASE_URL", &world.database.url);
    if is_told {
        let queues = [
            ("HUBFERRY_QUEUE_INTERACTIVE_URL", "interactive"),
            ("HUBFERRY_QUEUE_BULK_URL", "bulk"),
            ("HUBFERRY_QUEUE_INBOUND_URL", "inbound"),
        ];
        command.envs(queues.map(|(variable, queue)| (variable, world.queues.queue_url(queue))));
        let place = [("AWS_REGION", "eu-central-1"), ("AWS_ACCESS_KEY_ID", "any"), ("AWS_SECRET_ACCESS_KEY", "any")];
        command.envs(place).env("AWS_ENDPOINT_URL", world.queues.endpoint_url());
    }
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reconciler_counts_what_lies_in_the_dead_letter_queues() {
    let world = World::new().await;
    let run = async || world.reconciler.run(Instant::now() + Duration::from_mins(1)).await.unwrap();
    assert_eq!(run().await.dead_letters, 0);
    put(&world, "bulk-dead-letters", 2).await;
    put(&world, "inbound-dead-letters", 1).await;
    put(&world, "interactive", 4).await;
    assert_eq!(run().await.dead_letters, 3);
    let Dispatcher { sqs, .. } = &world.dispatcher;
    assert_eq!(sqs.dead_letters().await, [found("interactive", 0), found("bulk", 2), found("inbound", 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn status_shows_dead_letters_where_it_is_told_of_the_queues_and_says_so_where_it_is_not() {
    let world = World::new().await;
    put(&world, "bulk-dead-letters", 2).await;
    let shown: Value = serde_json::from_str(&status(&world, &["--json"], true).await).unwrap();
    assert_eq!(shown["dead_letters"][1], json!({"source": "bulk", "queue": "bulk-dead-letters", "messages": 2}));
    let table = status(&world, &[], true).await;
    assert!(table.contains("2 in bulk-dead-letters"), "{table}");

    let shown: Value = serde_json::from_str(&status(&world, &["--json"], false).await).unwrap();
    assert_eq!((&shown["dead_letters"], shown["portals"].as_array().unwrap().len()), (&Value::Null, 1));
    let table = status(&world, &[], false).await;
    assert!(table.contains("not looked at") && table.contains("HUBFERRY_QUEUE_BULK_URL"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn status_works_while_sqs_is_away() {
    let world = World::new().await;
    let fault = sqs_emulator::Fault::new(sqs_emulator::FaultKind::Unavailable);
    world.queues.add_fault(fault);
    let shown: Value = serde_json::from_str(&status(&world, &["--json"], true).await).unwrap();
    assert_eq!(shown["portals"].as_array().unwrap().len(), 1);
    world.reconciler.run(Instant::now() + Duration::from_mins(1)).await.unwrap();
}
