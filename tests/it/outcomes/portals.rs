//! What stops one portal stops no other.

use std::time::Duration;

use hubferry::adapters::db::{self, Accepted, NewPortal};
use hubferry::model::ids::PortalId;
use hubferry::model::plan::WriteMode;
use hubspot_simulator::{AccountConfig, Action, Fault, SubscriptionState};
use serde_json::json;
use sqs_emulator::event_source::{self, EventSourceMapping, Invocation};
use tokio::task::JoinSet;

use super::{CALLS, Scene, people, respond, subscription};
use crate::world::{newsletter_targets, with};

/// Visitors of a measurement, and the time between two of them.
const VISITORS: usize = 200;
const BETWEEN_VISITORS: Duration = Duration::from_millis(100);

/// As the dispatcher polls in production.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// A scene with a second portal, in which the brand `other` lives.
struct Neighbours {
    scene: Scene,
    other: PortalId,
}

impl Neighbours {
    async fn new() -> Self {
        let other = PortalId(rand::random_range(i64::MAX / 2..i64::MAX));
        let account = AccountConfig { burst: None, ..AccountConfig::new(other.0.unsigned_abs(), "other-token") };
        let mut scene = Scene::in_account(|_| (), vec![account]).await;
        scene.world.worker.tokens.by_portal.insert(other, "other-token".into());
        let connection = scene.world.db.connection().await.unwrap();
        let portal = NewPortal {
            portal_id: other,
            name: "other".into(),
            call_limit: CALLS,
            call_window: Duration::from_secs(10),
            write_mode: WriteMode::Batch,
            unique_property: "hubferry_contact_key".into(),
            api_version: None,
        };
        db::ensure_portal(&*connection, &portal).await.unwrap();
        let targets = serde_json::from_value(newsletter_targets()).unwrap();
        db::ensure_product(&*connection, other, "other", "newsletter").await.unwrap();
        db::push_mapping(&*connection, "other", "newsletter", &targets).await.unwrap();
        db::activate_mapping(&*connection, "other", "newsletter", None).await.unwrap();
        drop(connection);
        scene.create_unique_property(other).await;
        Self { scene, other }
    }

    async fn subscribe_next_door(&self, emails: &[String]) -> Vec<Accepted> {
        let requests = emails.iter().map(|email| with(subscription(email), json!({"brand": "other"})));
        self.scene.world.accept(requests.collect()).await
    }

    /// The neighbours' contacts are written, and marked as such.
    async fn assert_served(&self, emails: &[String], accepted: &[Accepted]) {
        let account = self.scene.world.hubspot.account(self.other.0.unsigned_abs());
        for (email, accepted) in emails.iter().zip(accepted) {
            let seen = self.scene.seen(accepted).await;
            assert_eq!((seen.status.as_str(), seen.attempts), ("synced", 0), "{seen:?}");
            assert_eq!(account.status_of(email, 1001), SubscriptionState::Subscribed);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_that_is_throttled_moved_locked_out_or_broken_delays_no_other() {
    let neighbours = Neighbours::new().await;
    let scene = &neighbours.scene;
    let stops = [
        respond(429, &[], json!({"policyName": "DAILY"})),
        respond(429, &[("Retry-After", "60")], json!({"policyName": "TEN_SECONDLY_ROLLING"})),
        Action::migrating(7200),
        respond(401, &[], json!({"category": "EXPIRED_AUTHENTICATION"})),
        respond(403, &[], json!({"category": "MISSING_SCOPES"})),
        Action::locked(),
        Action::Html(502),
        Action::Cut,
    ];
    for (number, action) in stops.into_iter().enumerate() {
        let (here, there) = (people(&format!("here{number}x"), 2), people(&format!("there{number}x"), 2));
        scene.world.hubspot.add_fault(Fault::always(action).on_portal(scene.world.portal.0.unsigned_abs()));
        let stopped = scene.subscribe(&here).await;
        let served = neighbours.subscribe_next_door(&there).await;
        scene.world.step().await;
        neighbours.assert_served(&there, &served).await;
        assert!(scene.all_seen(&stopped).await.iter().all(|seen| seen.status != "synced"), "{number}");

        // And again while the stop is in force: what is new next door is published and done in one round.
        let there = people(&format!("again{number}x"), 2);
        let served = neighbours.subscribe_next_door(&there).await;
        scene.world.step().await;
        neighbours.assert_served(&there, &served).await;
        scene.heal().await;
        scene.world.drain().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_whose_answers_are_slow_holds_up_no_other() {
    let neighbours = Neighbours::new().await;
    let scene = &neighbours.scene;
    let slow = Fault::next(1, Action::DelayMs(3_000)).on_portal(scene.world.portal.0.unsigned_abs());
    scene.world.hubspot.add_fault(slow.on_endpoint("contacts.batch_upsert"));
    let here = people("slow", 1);
    let waiting = scene.subscribe(&here).await;
    let there = people("quick", 1);
    let quick = neighbours.subscribe_next_door(&there).await;
    tokio::join!(scene.world.step(), async {
        while scene.seen(&quick[0]).await.status != "synced" {
            tokio::task::yield_now().await;
        }
        assert_eq!(scene.seen(&waiting[0]).await.status, "processing", "the slow one is still being worked at");
    });
    neighbours.assert_served(&there, &quick).await;
    scene.converges(&here, &waiting).await;
}

/// Visitors next door, one after the other, and how long each waited until HubSpot agreed, in milliseconds and in order.
async fn waits_next_door(neighbours: &Neighbours, tag: &str) -> Vec<i64> {
    let mut accepted = Vec::new();
    for n in 0..VISITORS {
        let visitor =
            with(subscription(&format!("{tag}{n}@example.test")), json!({"brand": "other", "lane": "interactive"}));
        accepted.extend(neighbours.scene.world.accept(vec![visitor]).await);
        tokio::time::sleep(BETWEEN_VISITORS).await;
    }
    let mut waits = Vec::new();
    let connection = neighbours.scene.world.db.connection().await.unwrap();
    let sql = "select (extract(epoch from finished_at - created_at) * 1000)::bigint from hubferry.outbox_events
               where event_id = $1 and status = 'synced'";
    for visitor in &accepted {
        let row = loop {
            match connection.query_opt(sql, &[&visitor.event_id]).await.unwrap() {
                Some(row) => break row,
                None => tokio::time::sleep(BETWEEN_VISITORS).await,
            }
        };
        waits.push(row.get(0));
    }
    waits.sort_unstable();
    waits
}

/// Dispatcher and worker as they run in production, until dropped.
fn start_functions(scene: &Scene) -> JoinSet<()> {
    let mut functions = JoinSet::new();
    let dispatcher = scene.world.dispatcher.clone();
    functions.spawn(async move {
        loop {
            dispatcher.run_once().await.unwrap();
            tokio::time::sleep(POLL_EVERY).await;
        }
    });
    for mapping in scene.world.mappings.clone() {
        let (client, worker) = (scene.world.queues.client(), scene.world.worker.clone());
        let mapping =
            EventSourceMapping { function_timeout: Duration::from_secs(25), maximum_concurrency: 4, ..mapping };
        let handler = move |event, invocation: Invocation| {
            let worker = worker.clone();
            async move { Ok(worker.handle(event, invocation.deadline).await?.0) }
        };
        functions.spawn(async move {
            event_source::run(client, mapping, handler, std::future::pending()).await.unwrap();
        });
    }
    functions
}

/// Prints how long a portal's visitors wait when it is alone, and beside one to which HubSpot says 429 whatever it asks.
#[ignore = "a measurement of a minute or two: make test-one NAME=latencies_side_by_side ARGS=--ignored"]
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "a measurement is read by a person")]
async fn latencies_side_by_side() {
    let neighbours = Neighbours::new().await;
    let _functions = start_functions(&neighbours.scene);
    let alone = waits_next_door(&neighbours, "alone").await;
    let throttled = respond(429, &[], json!({"policyName": "TEN_SECONDLY_ROLLING"}));
    let scene = &neighbours.scene;
    scene.world.hubspot.add_fault(Fault::always(throttled).on_portal(scene.world.portal.0.unsigned_abs()));
    let waiting = scene.subscribe(&people("throttled", 500)).await;
    let beside = waits_next_door(&neighbours, "beside").await;
    assert!(scene.all_seen(&waiting).await.iter().all(|seen| seen.status != "synced" && seen.attempts == 0));
    println!("| portal B | visitors | p50 ms | p99 ms | longest ms |\n|---|---|---|---|---|");
    for (name, waits) in [("alone", alone), ("beside a throttled portal with 500 waiting", beside)] {
        let at = |share: usize| waits[(waits.len() * share / 100).min(waits.len() - 1)];
        println!("| {name} | {} | {} | {} | {} |", waits.len(), at(50), at(99), waits[waits.len() - 1]);
    }
    println!("429 answers to portal A: {}", scene.world.hubspot.stats().answered_429);
}
