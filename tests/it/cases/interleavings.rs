//! Two decisions about one contact, and everybody who carries them at once.

use std::sync::Arc;

use hubferry::adapters::db::AcceptAnswer;
use hubferry::model::ids::EventId;
use hubspot_simulator::SubscriptionState;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::recorded::Recorded;
use super::{FAR_TOO_LONG, soon};
use crate::world::{World, request, with};

/// Contacts, each with an interleaving of its own.
const INTERLEAVINGS: u64 = 120;

/// Most turns that somebody lets others have before the own one.
const MOST_TURNS: u32 = 300;

/// A decision about contact `n`, to be seen in a property and in the status.
fn decision(n: u64, name: &str, state: &str, product: &str) -> Value {
    let contact =
        json!({"key": format!("c{n}"), "email": format!("c{n}@example.test"), "properties": {"firstname": name}});
    with(request("unused@example.test", state), json!({"contact": contact, "product": product}))
}

async fn accept_published(world: &World, decision: &Value) -> EventId {
    let connection = world.db.connection().await.unwrap();
    let answers = hubferry::adapters::db::accept_subscriptions(&*connection, &json!([decision]), None).await.unwrap();
    let accepted = answers.into_iter().map(AcceptAnswer::unwrap).next().unwrap();
    let publish = "update hubferry.outbox_events set status = 'queued', queued_at = clock_timestamp()
                   where event_id = $1 and status = 'pending'";
    connection.execute(publish, &[&accepted.event_id]).await.unwrap();
    EventId(accepted.event_id)
}

async fn let_others_go_first(turns: u32) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// The older decision is under way while the newer one is made; a worker for each, and a second copy of the older message.
async fn interleave(recorded: &Arc<Recorded>, n: u64) {
    let mut random = StdRng::seed_from_u64(n);
    // The newer decision is about the same product, or about another one of the same contact.
    let product = if random.random_bool(0.5) { "newsletter" } else { "events" };
    let older = accept_published(&recorded.world, &decision(n, "older", "subscribed", "newsletter")).await;
    let turns: [u32; 3] = std::array::from_fn(|_| random.random_range(0..MOST_TURNS));
    let start = Arc::new(Barrier::new(turns.len()));
    let mut running = JoinSet::new();
    for turns in &turns[..2] {
        let (recorded, start, turns) = (recorded.clone(), start.clone(), *turns);
        running.spawn(async move {
            start.wait().await;
            let_others_go_first(turns).await;
            recorded.world.worker.work(&[older], soon()).await.unwrap();
        });
    }
    let (recorded, turns) = (recorded.clone(), turns[2]);
    running.spawn(async move {
        start.wait().await;
        let_others_go_first(turns).await;
        let newer = accept_published(&recorded.world, &decision(n, "newer", "unsubscribed", product)).await;
        recorded.world.worker.work(&[newer], soon()).await.unwrap();
    });
    tokio::time::timeout(FAR_TOO_LONG, running.join_all()).await.expect("nobody waits for ever");
}

/// Two senders hold two states of one contact, and the one with the older state is the slower one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_no_interleaving_of_two_workers_does_an_older_state_follow_a_newer_one() {
    let recorded = Arc::new(Recorded::new().await);
    for n in 0..INTERLEAVINGS {
        interleave(&recorded, n).await;
    }
    let world = &recorded.world;
    world.drain().await;

    let changes = recorded.changes();
    let mut overtaken = 0;
    for n in 0..INTERLEAVINGS {
        let email = format!("c{n}@example.test");
        let names: Vec<&str> = changes
            .iter()
            .filter(|change| change["record"]["properties"]["email"] == email.as_str())
            .filter_map(|change| change["record"]["properties"]["firstname"].as_str())
            .collect();
        assert!(names.is_sorted_by_key(|name| *name == "newer"), "{n}: {names:?}");
        assert_eq!(names.last(), Some(&"newer"), "{n}");
        overtaken += u64::from(!names.contains(&"older"));
        let contact = world.hubspot.contact_by_email(&email).unwrap();
        assert_eq!(contact.get("firstname"), Some("newer"), "{n}");
    }
    assert!(
        (1..INTERLEAVINGS).contains(&overtaken),
        "{overtaken}: both ways of being first are among the interleavings"
    );
    expect_last_word(world, &changes).await;
}

/// After an opt-out nothing of the same subscription type is ever written again, and each stream holds its newest state.
async fn expect_last_word(world: &World, changes: &[Value]) {
    let sql = "select c.email, s.product, a.applied_state, a.applied_sequence = s.last_sequence
               from hubferry.subscription_streams s join hubferry.contacts c using (contact_key)
               left join hubferry.applied_states a using (stream_id)";
    let connection = world.db.connection().await.unwrap();
    for row in connection.query(sql, &[]).await.unwrap() {
        let (email, product): (String, &str) = (row.get(0), row.get(1));
        let subscription_type = if product == "newsletter" { 1001 } else { 1003 };
        assert_eq!(row.get::<_, Option<bool>>(3), Some(true), "{email} {product}");
        let state: &str = row.get(2);
        let expected =
            if state == "subscribed" { SubscriptionState::Subscribed } else { SubscriptionState::Unsubscribed };
        assert_eq!(world.hubspot.status_of(&email, subscription_type), expected, "{email} {product}");
        let written: Vec<&Value> = changes
            .iter()
            .filter(|change| change["email"] == email.as_str() && change["subscription_id"] == subscription_type)
            .map(|change| &change["status"]["state"])
            .collect();
        assert!(
            written.len() <= 2 && written.is_sorted_by_key(|state| state.as_str() == Some("UNSUBSCRIBED")),
            "{email}: {written:?}"
        );
    }
}
