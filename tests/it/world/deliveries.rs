//! What HubSpot reports, stored without the way through its webhooks.

use hubferry::adapters::db::{self, NewDelivery, StoredDelivery};
use hubferry::clock;
use hubferry::model::hubspot_signature::{SecretUsed, SignatureVersion};
use hubferry::model::notification::{Sender, parse};
use serde_json::{Value, json};
use uuid::Uuid;

use super::World;

impl World {
    /// Stores a delivery of these notifications as the webhook function does.
    pub(crate) async fn store_delivery(&self, notes: &[Value]) -> (Uuid, StoredDelivery) {
        let body = serde_json::to_vec(notes).unwrap();
        let notifications = parse(&body, Sender::default(), clock::now().as_millisecond()).unwrap();
        let delivery_id = Uuid::new_v4();
        let delivery = NewDelivery {
            delivery_id,
            headers: &json!({}),
            body: &body,
            app_id: None,
            secret: SecretUsed::Current,
            version: SignatureVersion::V3,
            unreadable: None,
        };
        let connection = self.db.connection().await.unwrap();
        (delivery_id, db::store_webhook_delivery(&*connection, &delivery, &notifications).await.unwrap())
    }
}
