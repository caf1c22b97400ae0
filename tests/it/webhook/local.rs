//! `hubferry up`: the simulator's changes reach the API's webhook, and what is not signed does not.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use hubferry::adapters::db::Db;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::accepting::setting::FAR_TOO_LONG;
use crate::program::hubferry;
use crate::servers::{TestDatabase, fresh_database, redis_url};

/// Between two looks at a process that works by itself.
const LOOK_EVERY: Duration = Duration::from_millis(50);

struct Local {
    database: TestDatabase,
    _folder: tempfile::TempDir,
    _up: Child,
    ports: [u16; 3],
    client: reqwest::Client,
}

impl Local {
    /// API and simulator, and nothing that works on what they store.
    async fn up(variables: &[(&str, &str)], more: &[&str]) -> Self {
        let (database, folder) = (fresh_database().await, tempfile::tempdir().expect("a folder"));
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let ports = listeners.map(|listener| listener.local_addr().expect("an address").port());
        let mut command = Command::new(hubferry());
        command.current_dir(folder.path()).env_clear().envs(variables.iter().copied());
        command.env("HUBFERRY_DATABASE_URL", &database.url).env("HUBFERRY_REDIS_URL", redis_url());
        command.args(["up", "--only", "intake,simulator"]).args(more);
        for (name, port) in ["--api", "--simulator", "--queues"].iter().zip(ports) {
            command.arg(name).arg(format!("127.0.0.1:{port}"));
        }
        let up = command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().expect("a process");
        hubferry::startup::tls();
        #[expect(clippy::disallowed_methods, reason = "the client of a test, with a time limit")]
        let client = reqwest::Client::builder().timeout(FAR_TOO_LONG).build().expect("a client");
        let local = Self { database, _folder: folder, _up: up, ports, client };
        local.until("the API", async || local.post(local.ports[0], "/nowhere", &json!({})).await == Some(404)).await;
        local
    }

    async fn post(&self, port: u16, path: &str, body: &Value) -> Option<u16> {
        let sent = self.client.post(format!("http://127.0.0.1:{port}{path}")).json(body).send().await;
        sent.ok().map(|response| response.status().as_u16())
    }

    async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let waited = async {
            while !is_so().await {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(FAR_TOO_LONG, waited).await.unwrap_or_else(|_| panic!("{what} does not come"));
    }

    async fn notifications(&self) -> i64 {
        let db = Db::new(&self.database.url.clone().into(), 1).expect("a URL");
        let connection = db.connection().await.expect("a connection");
        let sql = "select count(*) from hubferry.webhook_events where state = 'received'";
        connection.query_one(sql, &[]).await.expect("a count").get(0)
    }

    /// Somebody adds a contact in HubSpot.
    async fn add_contact(&self) {
        let contact = json!({"properties": {"email": "ada@example.test"}});
        assert_eq!(self.post(self.ports[1], "/__simulator/contacts", &contact).await, Some(200));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_in_the_simulator_is_received_and_what_is_not_signed_is_refused() {
    let local = Local::up(&[], &[]).await;
    local.add_contact().await;
    local.until("the report of the contact", async || local.notifications().await == 2).await;
    assert_eq!(local.post(local.ports[0], "/webhooks/hubspot", &json!([])).await, Some(401));
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_real_hubspot_nobody_is_believed_until_a_secret_is_set() {
    let token = [("HUBFERRY_HUBSPOT_TOKEN", "a-token"), ("HUBFERRY_HUBSPOT_URL", "http://127.0.0.1:1")];
    let local = Local::up(&token, &[]).await;
    assert_eq!(local.post(local.ports[0], "/webhooks/hubspot", &json!([])).await, Some(404));
    let secrets = [("HUBFERRY_WEBHOOK_SECRETS", r#"[{"current": "the-secret-of-a-real-app"}]"#)];
    let local = Local::up(&[token.as_slice(), secrets.as_slice()].concat(), &[]).await;
    assert_eq!(local.post(local.ports[0], "/webhooks/hubspot", &json!([])).await, Some(401));
}
