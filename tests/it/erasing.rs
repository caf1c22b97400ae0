//! Contacts that are erased: what is left of them here, what HubSpot is told, and who else is on their records.

mod asking;
mod deleting;
mod migrating;
mod quarantined;
mod reported;
mod stored;
mod under_way;

use hubferry::adapters::db::{self, ErasedContact};
use hubferry::model::ids::ContactKey;
use serde_json::{Value, json};

use crate::world::{World, request, with};

/// The unique property.
const KEY: &str = "hubferry_contact_key";

/// Name of the endpoint in the simulator's counts.
const GDPR_DELETE: &str = "contacts.gdpr_delete";

/// A request of a contact with a key.
fn keyed(key: &str, email: &str, state: &str) -> Value {
    with(request(email, state), json!({"contact": {"key": key, "email": email, "properties": {"firstname": key}}}))
}

/// A contact that HubSpot holds.
async fn subscribed(world: &World, key: &str, email: &str) {
    world.accept(vec![keyed(key, email, "subscribed")]).await;
    world.drain().await;
}

async fn erase(world: &World, key: &str) -> ErasedContact {
    let connection = world.db.connection().await.unwrap();
    db::erase_contact(&*connection, &ContactKey(key.to_owned()), None, None).await.unwrap()
}

/// Status and code of the newest erasures of a contact.
async fn erasures(world: &World, key: &str) -> Vec<(String, Option<String>)> {
    let connection = world.db.connection().await.unwrap();
    let sql = "select e.status, e.last_error_code from hubferry.outbox_events e
               where e.contact_key = $1 and not exists (select from hubferry.outbox_events r where r.replays = e.event_id)
               order by e.portal_id";
    let rows = connection.query(sql, &[&key]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn synced() -> Vec<(String, Option<String>)> {
    vec![("synced".into(), None)]
}

fn kept() -> Vec<(String, Option<String>)> {
    vec![("synced".into(), Some("record_kept".into()))]
}

/// How often this text occurs in the rows of all tables.
async fn occurrences(world: &World, text: &str) -> Vec<(String, i64)> {
    let connection = world.db.connection().await.unwrap();
    let sql = "select table_name::text from information_schema.tables
               where table_schema = 'hubferry' and table_type = 'BASE TABLE' order by 1";
    let mut found = Vec::new();
    for row in connection.query(sql, &[]).await.unwrap() {
        let table: String = row.get(0);
        let sql = format!("select count(*) from hubferry.{table} as t where strpos(lower(t::text), $1) > 0");
        let rows: i64 = connection.query_one(&sql, &[&text]).await.unwrap().get(0);
        if rows > 0 {
            found.push((table, rows));
        }
    }
    found
}

/// Nobody holds a lease when nothing is under way.
async fn nothing_is_leased(world: &World) {
    let connection = world.db.connection().await.unwrap();
    let sql = "select count(*) from hubferry.contact_links where lease_token is not null";
    assert_eq!(connection.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0, "leases are left");
}
