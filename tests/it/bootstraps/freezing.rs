//! Functions that were stopped for so long that their connections are gone.

use std::path::Path;
use std::process::Stdio;

use hubspot_simulator::SubscriptionState;
use serde_json::json;
use tokio::process::Command;

use super::{AMPLE, APPLICATION_NAME, Deployed, events};
use crate::servers::database_url;
use crate::world::WorldConfig;

const SERVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/local/servers.sh");

/// A Redis that this test alone uses, and may restart.
struct OwnRedis {
    folder: tempfile::TempDir,
}

impl OwnRedis {
    async fn start() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let redis = Self { folder };
        redis.run("start").await;
        redis
    }

    async fn restart(&self) {
        self.run("stop").await;
        self.run("start").await;
    }

    async fn run(&self, verb: &str) {
        let mut command = Command::new(SERVERS);
        command.arg(verb).arg(self.folder.path()).arg("--test").env_remove("HUBFERRY_TEST_REDIS_URL");
        command.env("HUBFERRY_TEST_DATABASE_URL", database_url()).stdout(Stdio::null());
        assert!(command.status().await.unwrap().success(), "servers.sh {verb}");
    }

    fn url(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("stack.env")).unwrap();
        let url = text.lines().find_map(|line| line.strip_prefix("HUBFERRY_TEST_REDIS_URL=")).unwrap();
        url.replace('\\', "")
    }
}

impl Drop for OwnRedis {
    /// Whatever became of the test, no server outlives it.
    fn drop(&mut self) {
        let folder: &Path = self.folder.path();
        let _ = std::process::Command::new(SERVERS).arg("stop").arg(folder).stdout(Stdio::null()).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_whose_connections_were_cut_while_they_were_stopped_serve_their_next_event() {
    let redis = OwnRedis::start().await;
    let deployed = Deployed::with(WorldConfig::default(), &redis.url()).await;
    let notification = json!({
        "eventId": 1, "portalId": deployed.world.portal.0, "occurredAt": 1_790_000_000_000_i64, "objectId": 90_210,
        "subscriptionType": "contact.propertyChange", "propertyName": "city", "propertyValue": "Utrecht",
    });
    let reconcile = async || deployed.reconciler.invoke(&events::tick(), AMPLE).await.unwrap().answer().unwrap();
    deployed.accept("ada@example.test", "subscribed", "interactive").await;
    deployed.deliver(std::slice::from_ref(&notification)).await;
    deployed.drain().await;
    reconcile().await;

    let connection = deployed.world.db.connection().await.unwrap();
    let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity
               where datname = current_database() and application_name = $1";
    let cut: i64 = connection.query_one(sql, &[&APPLICATION_NAME]).await.unwrap().get(0);
    assert!(cut >= 5, "intake, webhook, dispatcher, worker and reconciler have a session each, not {cut} in all");
    redis.restart().await;

    deployed.accept("ada@example.test", "unsubscribed", "interactive").await;
    let (status, answer) = deployed.deliver(&[notification]).await;
    assert_eq!((status, &answer["repeated"]), (200, &json!(1)), "{answer}");
    deployed.drain().await;
    reconcile().await;
    assert_eq!(deployed.world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::Unsubscribed);
    for function in [&deployed.intake, &deployed.webhook, &deployed.dispatcher, &*deployed.worker, &deployed.reconciler]
    {
        assert_eq!(function.started(), 1, "a process ended");
    }
    deployed.assert_nothing_is_left_open().await;
    deployed.end().await;
}
