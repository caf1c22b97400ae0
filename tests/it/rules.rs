//! Rules: what follows from changes that HubSpot reports, and what does not, because we made them ourselves.

mod commands;
mod documented;
mod echoes;
mod firing;
mod versions;

use hubferry::adapters::db::{self, PushedRules};
use hubferry::clock;
use hubferry::model::rules::RuleSet;
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::world::World;

/// Rounds after which a test that does not come to rest fails.
const MOST_ROUNDS: u32 = 50;

/// A world that HubSpot reports to, with rules.
pub(crate) struct Desk {
    pub(crate) world: World,
}

impl Desk {
    pub(crate) async fn new(rules: Value) -> Self {
        let desk = Self { world: World::new().await };
        desk.push(rules).await;
        desk
    }

    pub(crate) async fn push(&self, rules: Value) -> PushedRules {
        let rules: RuleSet = serde_json::from_value(json!({"rules": rules})).unwrap();
        assert_eq!(rules.check(), Ok(()));
        let connection = self.world.db.connection().await.unwrap();
        db::push_rules(&*connection, self.world.portal, &rules).await.unwrap().unwrap()
    }

    /// A property change of a record of this world's portal, this many seconds from now.
    pub(crate) fn change(&self, object: (&str, i64), property: &str, value: &str, seconds: i64) -> Value {
        json!({
            "eventId": rand::random_range(1..i64::MAX), "portalId": self.world.portal.0, "appId": 9001,
            "occurredAt": clock::now().as_millisecond() + seconds * 1000, "attemptNumber": 0,
            "subscriptionType": format!("{}.propertyChange", object.0), "objectId": object.1,
            "changeSource": "CRM_UI", "propertyName": property, "propertyValue": value,
        })
    }

    /// Stores a delivery and applies it.
    pub(crate) async fn deliver(&self, notes: &[Value]) -> Uuid {
        let (delivery, _) = self.world.store_delivery(notes).await;
        self.settle().await;
        delivery
    }

    /// Steps until only effects are unfinished.
    pub(crate) async fn settle(&self) {
        for _ in 0..MOST_ROUNDS {
            self.world.step().await;
            if self.count("outbox_events where finished_at is null and lane <> 'effects'").await == 0 {
                return;
            }
            self.world.make_due().await;
        }
        panic!("events are left unfinished: {:?}", self.world.statuses().await);
    }

    pub(crate) async fn ask(&self, sql: &str) -> Vec<Row> {
        self.world.db.connection().await.unwrap().query(sql, &[]).await.unwrap()
    }

    pub(crate) async fn count(&self, what: &str) -> i64 {
        self.ask(&format!("select count(*) from hubferry.{what}")).await[0].get(0)
    }

    /// Rule, status and filled-in payload of all effects, by their keys.
    pub(crate) async fn effects(&self) -> Vec<(String, String, Value)> {
        let sql = "select payload ->> 'rule', status, payload -> 'payload' from hubferry.outbox_events
                   where lane = 'effects' order by dedupe_key";
        self.ask(sql).await.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
    }

    /// How many notifications ended in which state, and why.
    pub(crate) async fn states(&self) -> Vec<(String, Option<String>, i64)> {
        let sql = "select state, reason, count(*) from hubferry.webhook_events group by 1, 2 order by 1, 2";
        self.ask(sql).await.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
    }
}

/// A rule about a contact's property that tells its value.
pub(crate) fn telling(name: &str, property: &str) -> Value {
    json!({
        "name": name, "when": {"object": "contact", "property": property}, "effect": "effect.slack",
        "payload": {"text": "{{ property }} is {{ value }}"},
    })
}
