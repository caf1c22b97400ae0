//! Who is who: contacts of ours and records of HubSpot, when it is not one of each.

mod aliases;
mod linking;
mod moving;

use serde_json::{Value, json};

use crate::world::{World, request, with};

/// The unique property.
const KEY: &str = "hubferry_contact_key";

/// A request of a contact with a key.
fn keyed(key: &str, email: &str, state: &str) -> Value {
    with(request(email, state), json!({"contact": {"key": key, "email": email, "properties": {"firstname": key}}}))
}

/// The record that a contact is linked to.
async fn link_of(world: &World, key: &str) -> Option<u64> {
    let connection = world.db.connection().await.unwrap();
    let sql = "select record_id from hubferry.contact_links where contact_key = $1";
    let row = connection.query_opt(sql, &[&key]).await.unwrap()?;
    row.get::<_, Option<i64>>(0).map(i64::unsigned_abs)
}

/// The key that the record with this address holds.
fn key_at(world: &World, email: &str) -> Option<String> {
    world.hubspot.contact_by_email(email)?.get(KEY).map(str::to_owned)
}

/// Nobody holds a lease when nothing is under way.
async fn nothing_is_leased(world: &World) {
    let connection = world.db.connection().await.unwrap();
    let sql = "select count(*) from hubferry.contact_links where lease_token is not null";
    assert_eq!(connection.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0, "leases are left");
}
