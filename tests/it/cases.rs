//! Failures that other systems had in production, played against this one with data of its own.

mod database;
mod interleavings;
mod limiter;
mod outbox;
mod pooler;
mod queues;
mod recorded;
mod standstill;

use std::time::{Duration, Instant};

use aws_lambda_events::sqs::SqsEvent;
use hubferry::adapters::db::Accepted;
use hubferry::model::envelope::{Sealed, SigningKey, seal};
use hubferry::model::ids::{EventId, LeaseToken};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::World;

/// The key that the worlds of these tests seal with: 32 bytes of zero.
const SIGNING_KEY: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// How long a busy contact's event waits in claims that tests make by hand.
const BUSY: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(4));

/// A wait that is longer than this has no end.
const FAR_TOO_LONG: Duration = Duration::from_mins(1);

fn events(accepted: &[Accepted]) -> Vec<EventId> {
    accepted.iter().map(|accepted| EventId(accepted.event_id)).collect()
}

fn token() -> LeaseToken {
    LeaseToken(Uuid::new_v4())
}

fn soon() -> Instant {
    Instant::now() + FAR_TOO_LONG
}

fn sealed(event: EventId) -> Sealed {
    seal(event, &SigningKey::parse(SIGNING_KEY).unwrap(), 1_790_000_000)
}

/// A message as Lambda hands it over.
fn record(message_id: &str, sealed: &Sealed, deliveries: u32) -> Value {
    let text = |value: &str| json!({"stringValue": value, "dataType": "String"});
    json!({
        "messageId": message_id, "body": sealed.body, "attributes": {"ApproximateReceiveCount": deliveries.to_string()},
        "messageAttributes": {
            "webhook-id": text(&sealed.id), "webhook-timestamp": text(&sealed.timestamp), "webhook-signature": text(&sealed.signature),
        },
    })
}

fn batch(records: &[Value]) -> SqsEvent {
    serde_json::from_value(json!({"Records": records})).unwrap()
}

/// Every event that waits counts as published, without a message.
async fn publish_silently(world: &World) {
    world
        .sql(
            "update hubferry.outbox_events set status = 'queued', queued_at = clock_timestamp()
             where status in ('pending', 'retry')",
        )
        .await;
}

/// The one answer to a question.
async fn ask<T: for<'a> tokio_postgres::types::FromSql<'a>>(world: &World, sql: &str) -> T {
    let connection = world.db.connection().await.unwrap();
    connection.query_one(sql, &[]).await.unwrap().get(0)
}

/// Every row that dispatcher, worker and reconciler may write, as text.
async fn rows(world: &World) -> String {
    let sql = "select jsonb_build_array(
                   (select jsonb_agg(e order by event_id) from hubferry.outbox_events e),
                   (select jsonb_agg(l order by contact_key) from hubferry.contact_links l),
                   (select jsonb_agg(a order by stream_id) from hubferry.applied_states a),
                   (select jsonb_agg(r order by event_id, operation_key) from hubferry.operation_receipts r))::text";
    ask(world, sql).await
}

/// Returns once this many sessions of the world's database wait for a lock.
async fn until_blocked(url: &str, sessions: i64) {
    let watcher = session(url).await;
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    let watch = async {
        while watcher.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) < sessions {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(FAR_TOO_LONG, watch).await.expect("sessions that wait for a lock");
}

/// A session of somebody who is none of our functions.
async fn session(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
