//! An event that kills every worker that holds it, and messages that nobody can work: they end by themselves, and alone.

use std::time::Duration;

use aws_sdk_sqs::types::MessageAttributeValue;
use hubferry::adapters::db::Accepted;
use hubferry::flows::worker::Worker;
use hubspot_simulator::{Action, Fault, SubscriptionState};
use serde_json::Value;
use sqs_emulator::event_source::{self, Invocation};
use uuid::Uuid;

use crate::world::{MOST_RECEIVES, World, request, with};

/// Attempts that an event has.
const ATTEMPTS: i32 = 12;

/// Workers that die with an innocent event in their hands, at most.
const MOST_SHARED_CRASHES: i32 = 3;

/// Rounds after which a world that does not come to rest has failed.
const MOST_ROUNDS: u32 = 300;

/// Longer than this test takes.
const HANG_MS: u64 = 600_000;

/// Longer than any message is hidden.
const HIDDEN: Duration = Duration::from_mins(10);

impl World {
    /// Hands every message that is there to workers of which each dies as soon as it holds the event. Returns how many died.
    async fn work_off_queues_beside(&self, killer: Uuid) -> u32 {
        let mut deaths = 0;
        for mapping in &self.mappings {
            loop {
                let handler = |event, invocation: Invocation| {
                    let worker: Worker = self.worker.clone();
                    async move {
                        tokio::select! {
                            () = self.held(killer) => anyhow::bail!("died"),
                            answer = worker.handle(event, invocation.deadline) => Ok(answer?.0),
                        }
                    }
                };
                let done = event_source::poll_once(&self.queues.client(), mapping, &handler).await.unwrap();
                deaths += u32::from(done.failed > 0);
                if done.received == 0 {
                    break;
                }
            }
        }
        deaths
    }

    /// Returns once a worker holds the event.
    async fn held(&self, event: Uuid) {
        let connection = self.db.connection().await.unwrap();
        let sql = "select count(*) from hubferry.outbox_events
                   where event_id = $1 and status = 'processing' and lease_expires_at > clock_timestamp()";
        while connection.query_one(sql, &[&event]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// The leases of dead workers have ended.
    async fn leases_end(&self) {
        self.sql(
            "update hubferry.outbox_events set lease_expires_at = clock_timestamp() - interval '1 s' where status = 'processing';
             update hubferry.contact_links set lease_expires_at = clock_timestamp() - interval '1 s' where lease_token is not null",
        )
        .await;
    }

    /// Status, reason, attempts and crashes of an event.
    async fn fate_of(&self, accepted: &Accepted) -> (String, Option<String>, i32, i32) {
        let connection = self.db.connection().await.unwrap();
        let sql =
            "select status, last_error_code, process_attempts, crashes from hubferry.outbox_events where event_id = $1";
        let row = connection.query_one(sql, &[&accepted.event_id]).await.unwrap();
        (row.get(0), row.get(1), row.get(2), row.get(3))
    }
}

fn people(tag: &str, count: usize) -> Vec<Value> {
    (0..count).map(|n| request(&format!("{tag}{n}@example.test"), "subscribed")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_kills_its_workers_ends_dead_and_takes_none_of_its_neighbours_along() {
    let world = World::new().await;
    let mut accepted = world.accept(people("neighbour", 120)).await;
    let killer = accepted.remove(57);
    // Whoever writes it hangs, so that it dies with the event in its hands and not just after it.
    world.hubspot.add_fault(Fault::always(Action::DelayMs(HANG_MS)).on_body("neighbour57@example.test"));
    let (mut deaths, mut newcomers, mut rounds) = (0, Vec::new(), 0);
    while world.unfinished().await > 0 {
        rounds += 1;
        assert!(rounds < MOST_ROUNDS, "{:?}", world.statuses().await);
        world.dispatcher.run_once().await.unwrap();
        let died = world.work_off_queues_beside(killer.event_id).await;
        deaths += died;
        world.leases_end().await;
        // Whoever comes when the killer is known shares nothing with it.
        if died > 0 && deaths > 2 {
            newcomers.extend(world.accept(people(&format!("newcomer{deaths}x"), 5)).await);
        }
        world.dispatcher.run_once().await.unwrap();
        world.make_due().await;
    }
    assert_eq!(
        world.fate_of(&killer).await,
        ("dead".into(), Some("worker_crashed".into()), ATTEMPTS, ATTEMPTS),
        "{deaths} deaths"
    );
    assert_eq!(deaths, ATTEMPTS.unsigned_abs(), "each attempt took one worker");
    let mut shared = 0;
    for neighbour in &accepted {
        let (status, _, attempts, crashes) = world.fate_of(neighbour).await;
        assert_eq!((status.as_str(), attempts), ("synced", crashes));
        assert!(crashes <= MOST_SHARED_CRASHES, "{crashes} workers died with a neighbour in their hands");
        shared += i32::from(crashes == MOST_SHARED_CRASHES);
    }
    assert!(shared < 25, "{shared} neighbours shared a third crash");
    for newcomer in &newcomers {
        assert_eq!(world.fate_of(newcomer).await, ("synced".into(), None, 0, 0));
    }
    assert_eq!(world.hubspot.contacts().len(), accepted.len() + newcomers.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_crashed_more_than_twice_waits_longer_each_time() {
    let world = World::new().await;
    let accepted = world.accept(people("crashing", 1)).await;
    for (crashes, wait) in [(0, 0), (1, 0), (2, 15), (3, 45), (4, 135), (9, 3600)] {
        world
            .sql(&format!(
                "update hubferry.outbox_events
                 set status = 'processing', lease_token = gen_random_uuid(), lease_expires_at = clock_timestamp() - interval '1 s',
                     crashes = {crashes}, process_attempts = {crashes}"
            ))
            .await;
        world.reconciler.run(std::time::Instant::now() + Duration::from_mins(1)).await.unwrap();
        let connection = world.db.connection().await.unwrap();
        let sql =
            "select round(extract(epoch from next_attempt_at - clock_timestamp()))::bigint from hubferry.outbox_events";
        let due_in: i64 = connection.query_one(sql, &[]).await.unwrap().get(0);
        assert!((wait - 2..=wait).contains(&due_in), "{due_in} s after {} crashes", crashes + 1);
        assert_eq!(
            world.fate_of(&accepted[0]).await,
            ("retry".into(), Some("lease_expired".into()), crashes + 1, crashes + 1)
        );
    }
}

/// A function that fails as a whole, a batch after the other: SQS gives its messages up, and nothing is lost with them.
#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_wake_ups_that_nobody_needs() {
    let mut world = World::new().await;
    let accepted = world.accept(people("waiting", 30)).await;
    world.dispatcher.run_once().await.unwrap();
    let broken = |_, _: Invocation| async { anyhow::bail!("the function can't start") };
    for _ in 0..=MOST_RECEIVES {
        for mapping in &world.mappings {
            event_source::drain(&world.queues.client(), mapping, &broken).await.unwrap();
        }
        world.queues.advance(HIDDEN);
    }
    let dead_letters = world.queues.messages("bulk-dead-letters");
    assert_eq!((dead_letters.len(), world.queues.messages("bulk").len()), (30, 0));
    assert_eq!(world.fate_of(&accepted[0]).await, ("queued".into(), None, 0, 0), "it costs the event nothing");

    // The rows are still there, and bring messages of their own.
    world.reconciler.queued_too_long = Duration::ZERO;
    world.reconciler.run(std::time::Instant::now() + Duration::from_mins(1)).await.unwrap();
    assert_eq!(world.drain().await.synced, 30);

    // A person sends the dead letters once more: nothing happens.
    let (calls, url) = (world.hubspot.stats().total, world.queues.queue_url("bulk"));
    for letter in &dead_letters {
        let mut message = world.queues.client().send_message().queue_url(&url).message_body(&letter.body);
        for (name, value) in &letter.message_attributes {
            let value = MessageAttributeValue::builder()
                .data_type("String")
                .set_string_value(value.string_value.clone())
                .build()
                .unwrap();
            message = message.message_attributes(name, value);
        }
        message.send().await.unwrap();
    }
    let worked = world.work_off_queues().await;
    assert_eq!((worked.messages, worked.settled, worked.quarantined, worked.calls), (30, 30, 0, 0));
    assert_eq!(world.hubspot.stats().total, calls);
    assert!(world.queues.messages("bulk").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_of_an_event_that_kills_its_workers_does_nothing_when_it_is_sent_again() {
    let world = World::new().await;
    let accepted = world.accept(vec![with(request("killer@example.test", "subscribed"), serde_json::json!({}))]).await;
    world.dispatcher.run_once().await.unwrap();
    world
        .sql(
            "update hubferry.outbox_events set status = 'dead', finished_at = clock_timestamp(), last_error_code = 'worker_crashed',
                    crashes = 12, process_attempts = 12",
        )
        .await;
    let worked = world.work_off_queues().await;
    assert_eq!((worked.settled, worked.claimed), (1, 0));
    assert_eq!(world.hubspot.status_of("killer@example.test", 1001), SubscriptionState::NotSpecified);
    assert_eq!(world.fate_of(&accepted[0]).await.0, "dead");
}
