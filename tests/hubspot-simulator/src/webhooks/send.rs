//! Sends what is due, ten requests at once, each signed anew.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Client;
use serde_json::{Value, json};
use sha2::Sha256;

use super::{Delivery, WebhookConfig};
use crate::{clock, world::SharedWorld};

/// HubSpot hangs up after this.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// A test may move the clock forward, which nobody tells the sender: it looks this often while something waits.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Sends until the runtime is dropped.
pub(crate) async fn run(world: Arc<SharedWorld>) -> anyhow::Result<()> {
    // Made when it is first needed, since reading the root certificates takes a while.
    let mut made = None;
    let wake = Arc::clone(&world.lock().webhooks.wake);
    loop {
        let (taken, next) = {
            let mut world = world.lock();
            let now = world.clock.now().elapsed;
            (world.webhooks.take(now), world.webhooks.until_next(now))
        };
        match (taken, next) {
            (Some((config, delivery)), _) => {
                let client = match &made {
                    Some(client) => Client::clone(client),
                    None => made.insert(client()?).clone(),
                };
                tokio::spawn(deliver(Arc::clone(&world), client, config, delivery));
            }
            (None, Some(next)) => {
                let _ = tokio::time::timeout(next.clamp(LOOK_AGAIN / 50, LOOK_AGAIN), wake.notified()).await;
            }
            (None, None) => wake.notified().await,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one client of the sender, with its time limits")]
fn client() -> reqwest::Result<Client> {
    Client::builder().connect_timeout(TIME_LIMIT).timeout(TIME_LIMIT).no_proxy().build()
}

async fn deliver(world: Arc<SharedWorld>, client: Client, config: WebhookConfig, delivery: Delivery) {
    let began = Instant::now();
    let status = post(&client, &config, &delivery).await;
    let mut world = world.lock();
    let now = world.clock.now().elapsed;
    world.webhooks.finish(&config, delivery, status, began.elapsed(), now);
}

/// The status of the answer, if there was one in time.
async fn post(client: &Client, config: &WebhookConfig, delivery: &Delivery) -> Option<u16> {
    let body = body(delivery);
    // Signed with the time of this machine, also when a test has moved the simulator's clock forward.
    let timestamp = clock::wall().as_millisecond().to_string();
    let request = client
        .post(&config.target)
        .header("content-type", "application/json")
        .header("user-agent", "HubSpot Connect 2.0 (simulated)")
        .header("x-hubspot-request-timestamp", &timestamp)
        .header("x-hubspot-signature-v3", signature(&config.secret, &config.target, &body, &timestamp));
    let response = request.body(body).send().await.ok()?;
    let status = response.status().as_u16();
    response.bytes().await.ok().map(|_| status)
}

fn body(delivery: &Delivery) -> String {
    let attempt = |notification: &Value| {
        let mut notification = notification.clone();
        notification["attemptNumber"] = json!(delivery.attempt);
        notification
    };
    Value::from(delivery.notifications.iter().map(attempt).collect::<Vec<Value>>()).to_string()
}

/// The target has no escapes that HubSpot would decode, so it is signed as it is.
fn signature(secret: &str, target: &str, body: &str, timestamp: &str) -> String {
    #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length is a key");
    for part in ["POST", target, body, timestamp] {
        mac.update(part.as_bytes());
    }
    STANDARD.encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_hubspot() {
        // The published example of its client library for Python.
        let body = "{'example_field':'example_value'}";
        let found = signature(
            "yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy",
            "https://www.example.com/webhook_uri",
            body,
            "1693657560000",
        );
        assert_eq!(found, "K36dawei4A+QBNolUOqo7s91KQDWQ5MXZ/QufNYuk/Y=");
    }
}
