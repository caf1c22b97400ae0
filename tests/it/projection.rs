//! The projection: what HubSpot reports comes to the same whatever order it comes in, however it is split, and whoever applies it.

mod lifecycle;
mod merging;
mod migrating;
mod opting_out;
mod orders;
mod other_types;
mod privacy;
mod reading;
mod values;
mod volume;

use std::time::{Duration, Instant};

use hubferry::flows::worker::{Worker, WorkerSummary};
use hubferry::model::ids::EventId;
use serde_json::{Value, json};
use tokio_postgres::Row;

use crate::world::{World, WorldConfig};

/// An instant long past, ms since 1970.
const T: i64 = 1_790_000_000_000;

/// The record that most tests are about.
const RECORD: i64 = 90_210;

/// A world that HubSpot reports to.
struct Crm {
    world: World,
}

impl Crm {
    async fn new() -> Self {
        Self::with(WorldConfig::default()).await
    }

    async fn with(config: WorldConfig) -> Self {
        Self { world: World::with(config).await }
    }

    /// A notification of this world's portal about [`RECORD`]; `fields` are added or replaced.
    fn note(&self, kind: &str, at: i64, fields: Value) -> Value {
        let mut note = json!({
            "eventId": rand::random_range(1..i64::MAX), "portalId": self.world.portal.0, "appId": 9001,
            "occurredAt": at, "subscriptionType": format!("contact.{kind}"), "attemptNumber": 0, "objectId": RECORD,
            "changeSource": "CRM_UI",
        });
        let (Value::Object(members), Value::Object(fields)) = (&mut note, fields) else { panic!("not objects") };
        members.extend(fields);
        note
    }

    fn change(&self, property: &str, value: &str, at: i64) -> Value {
        self.note("propertyChange", at, json!({"propertyName": property, "propertyValue": value}))
    }

    fn change_of(&self, record: i64, property: &str, value: &str, at: i64) -> Value {
        let fields = json!({"objectId": record, "propertyName": property, "propertyValue": value});
        self.note("propertyChange", at, fields)
    }

    /// A merge into a record with an id of its own.
    fn merge(&self, merged: &[i64], survivor: i64, at: i64) -> Value {
        let fields = json!({"objectId": merged[0], "primaryObjectId": merged[0], "mergedObjectIds": merged,
                            "newObjectId": survivor});
        self.note("merge", at, fields)
    }

    /// Stores a delivery as the webhook function does, and publishes its event. `None`: it said nothing new.
    async fn receive(&self, notes: &[Value]) -> Option<EventId> {
        let (delivery_id, stored) = self.world.store_delivery(notes).await;
        if stored.events == 0 {
            return None;
        }
        let row = self
            .ask(&format!(
                "update hubferry.outbox_events set status = 'queued', queued_at = clock_timestamp()
                                     where payload ->> 'delivery_id' = '{delivery_id}' returning event_id"
            ))
            .await;
        Some(EventId(row[0].get(0)))
    }

    /// Receives a delivery and applies it; it has to be done with then.
    async fn deliver(&self, notes: &[Value]) {
        if let Some(event) = self.receive(notes).await {
            let summary = self.work(&[event]).await;
            assert_eq!(summary.synced, 1, "{summary:?} {:?}", self.world.statuses().await);
        }
    }

    async fn work(&self, events: &[EventId]) -> WorkerSummary {
        work(&self.world.worker, events).await
    }

    /// Whatever waits is published again.
    async fn publish(&self) {
        self.world
            .sql(
                "update hubferry.outbox_events set status = 'queued', queued_at = clock_timestamp()
                        where status in ('pending', 'retry')",
            )
            .await;
    }

    async fn ask(&self, sql: &str) -> Vec<Row> {
        self.world.db.connection().await.unwrap().query(sql, &[]).await.unwrap()
    }

    async fn count(&self, what: &str) -> i64 {
        self.ask(&format!("select count(*) from hubferry.{what}")).await[0].get(0)
    }

    /// A contact's value of a property, and whether it is uncertain.
    async fn value_of(&self, record: i64, property: &str) -> Option<(Option<String>, bool)> {
        let rows = self.ask(&format!("select value, tied from hubferry.crm_values
                                      where object_type = 'contact' and object_id = {record} and property = '{property}'")).await;
        rows.first().map(|row| (row.get(0), row.get(1)))
    }

    async fn value(&self, property: &str) -> Option<String> {
        self.value_of(RECORD, property).await.and_then(|(value, _)| value)
    }

    /// States of all notifications, with their reasons, in the order of their instants.
    async fn settled(&self) -> Vec<String> {
        let sql =
            "select state || coalesce(':' || reason, '') from hubferry.webhook_events order by occurred_at, position";
        self.ask(sql).await.iter().map(|row| row.get(0)).collect()
    }

    /// Which record a contact is linked to.
    async fn link(&self, key: &str) -> Option<i64> {
        self.ask(&format!("select record_id from hubferry.contact_links where contact_key = '{key}'")).await[0].get(0)
    }

    /// A contact of ours, linked to this record.
    async fn linked(&self, key: &str, record: i64) {
        let request = crate::world::with(
            crate::world::request(&format!("{key}@example.test"), "subscribed"),
            json!({"contact": {"key": key, "email": format!("{key}@example.test")}}),
        );
        self.world.accept(vec![request]).await;
        self.world
            .sql(&format!(
                "insert into hubferry.contact_links (portal_id, contact_key, record_id, linked_at)
             values ({}, '{key}', {record}, clock_timestamp())",
                self.world.portal.0
            ))
            .await;
    }
}

async fn work(worker: &Worker, events: &[EventId]) -> WorkerSummary {
    worker.work(events, Instant::now() + Duration::from_mins(2)).await.unwrap().0
}
