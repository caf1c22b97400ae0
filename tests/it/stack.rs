//! The whole stack in processes of its own, as a person runs it: started, killed, restarted, split into parts.

mod poison;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use url::Url;

use crate::program::hubferry;
use crate::servers::{TestDatabase, fresh_database, redis_url};

/// Between two looks at a process that works by itself.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A stack that does not come to rest within this has failed. Three leases of 25 s and the calls of an import fit.
const PATIENCE: Duration = Duration::from_mins(4);

/// A place for the processes of one stack: its folder, database, ports, and a Redis database of its own, since the demo
/// portal has the same id everywhere.
struct Stack {
    folder: TempDir,
    database: TestDatabase,
    redis: String,
    api: u16,
    simulator: u16,
    queues: u16,
    client: reqwest::Client,
}

impl Stack {
    async fn new(redis_database: u8) -> Self {
        let mut redis: Url = redis_url().parse().unwrap();
        redis.set_path(&redis_database.to_string());
        let [api, simulator, queues] = free_ports();
        Self {
            folder: tempfile::tempdir().unwrap(),
            database: fresh_database().await,
            redis: redis.into(),
            api,
            simulator,
            queues,
            client: client(),
        }
    }

    fn command(&self) -> Command {
        self.placed(Command::new(hubferry()))
    }

    /// A command that knows the stack's place.
    fn placed(&self, mut command: Command) -> Command {
        command
            .current_dir(self.folder.path())
            .env("HUBFERRY_DATABASE_URL", &self.database.url)
            .env("HUBFERRY_REDIS_URL", &self.redis)
            .env_remove("HUBFERRY_HUBSPOT_TOKEN")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Starts `hubferry up`, or the named parts of it. What it logs is appended to a file of the stack's folder.
    fn up(&self, only: &[&str]) -> Child {
        self.start(self.command(), only)
    }

    fn start(&self, mut command: Command, only: &[&str]) -> Child {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        // What the simulator reports of its changes is the subject of other tests.
        command.args(["up", "--no-webhooks"]);
        for (name, port) in [("--api", self.api), ("--simulator", self.simulator), ("--queues", self.queues)] {
            command.arg(name).arg(format!("127.0.0.1:{port}"));
        }
        for part in only {
            command.args(["--only", part]);
        }
        command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Waits until the API answers.
    async fn ready(&self) {
        self.wait_for("the API", async || {
            self.client.get(format!("http://127.0.0.1:{}/", self.api)).send().await.is_ok()
        })
        .await;
    }

    async fn wait_for(&self, what: &str, is_there: impl AsyncFn() -> bool) {
        let waiting = async {
            while !is_there().await {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let came = tokio::time::timeout(PATIENCE, waiting).await.is_ok();
        assert!(came, "{what} did not come within {PATIENCE:?}; the log says:\n{}", self.log());
    }

    async fn status(&self) -> Value {
        let output = self.command().args(["--json", "status"]).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        portals(&answer)[0].clone()
    }

    async fn converged(&self) {
        self.wait_for("the end of the work", async || unfinished(&self.status().await) == 0).await;
    }

    async fn finished_at_least(&self, events: i64) {
        self.wait_for("a part of the work", async || {
            let status = self.status().await;
            number(&status, "synced_last_hour") + number(&status, "superseded_last_hour") >= events
        })
        .await;
    }

    fn import(&self, rows: &[(String, &str)]) -> Command {
        let path = self.folder.path().join("contacts.csv");
        if !path.exists() {
            std::fs::write(&path, csv(rows)).unwrap();
        }
        let mut command = self.command();
        command.args(["--json", "import"]).arg(path).args(["--brand", "acme", "--product", "newsletter"]);
        command.args(["--legal-basis", "CONSENT_WITH_NOTICE", "--explanation", "trade fair"]).stdout(Stdio::null());
        command.stderr(Stdio::null());
        command
    }

    async fn simulator(&self, path: &str) -> Value {
        let url = format!("http://127.0.0.1:{}/__simulator/{path}", self.simulator);
        self.client.get(url).send().await.unwrap().json().await.unwrap()
    }

    /// Compares HubSpot with the last row of each contact: status and segment.
    async fn assert_holds(&self, rows: &[(String, &str)]) {
        let wanted: BTreeMap<&str, &str> = rows.iter().map(|(email, state)| (email.as_str(), *state)).collect();
        let state = self.simulator("state").await;
        let members: BTreeSet<&str> = state["lists"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|list| list["listId"] == 101)
            .flat_map(|list| list["members"].as_array().unwrap())
            .map(|member| member.as_str().unwrap())
            .collect();
        let mut seen = BTreeMap::new();
        for contact in state["contacts"].as_array().unwrap() {
            let email = contact["properties"]["email"].as_str().unwrap();
            let status = contact["statuses"]["1001"].as_str().unwrap().to_lowercase();
            assert_eq!(
                members.contains(contact["id"].as_str().unwrap()),
                status == "subscribed",
                "segment of a contact"
            );
            assert!(seen.insert(email.to_owned(), status).is_none(), "a contact twice");
        }
        let wanted: BTreeMap<String, String> =
            wanted.into_iter().map(|(email, state)| (email.into(), state.into())).collect();
        assert_eq!(seen.len(), wanted.len());
        assert!(seen == wanted, "HubSpot holds another state than the last row of some contact");
    }
}

/// Contacts that subscribe, and a tenth of them that leave later in the file.
fn rows(contacts: usize) -> Vec<(String, &'static str)> {
    let email = |n: usize| format!("person{n}@example.test");
    let joining = (0..contacts).map(|n| (email(n), "subscribed"));
    joining.chain((0..contacts).step_by(10).map(|n| (email(n), "unsubscribed"))).collect()
}

fn csv(rows: &[(String, &str)]) -> String {
    let mut text = String::from("email,desired_state,properties.firstname\n");
    for (email, state) in rows {
        writeln!(text, "{email},{state},Zephyrine").unwrap();
    }
    text
}

fn portals(status: &Value) -> &Vec<Value> {
    status.as_array().or_else(|| status["portals"].as_array()).unwrap()
}

fn number(status: &Value, name: &str) -> i64 {
    status[name].as_i64().unwrap_or_else(|| panic!("no {name} in {status}"))
}

fn unfinished(status: &Value) -> i64 {
    ["pending", "publishing", "queued", "processing", "retry"].iter().map(|name| number(status, name)).sum()
}

/// Ports that were free a moment ago, all different.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners: [TcpListener; N] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

#[expect(clippy::disallowed_methods, reason = "a client of the test, with time limits of its own")]
fn client() -> reqwest::Client {
    hubferry::startup::tls();
    reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30)).build().unwrap()
}

/// Stops a process as a service manager does, and waits for it.
async fn terminate(mut child: Child) -> std::process::ExitStatus {
    let id = child.id().unwrap().to_string();
    Command::new("kill").args(["-TERM", &id]).status().await.unwrap();
    child.wait().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_request_of_a_newcomer_ends_synced() {
    let stack = Stack::new(1).await;
    let up = stack.up(&[]);
    stack.ready().await;
    let request = json!({
        "brand": "acme", "product": "newsletter", "contact": {"email": "ada@example.test", "properties": {"firstname": "Ada"}},
        "desired_state": "subscribed", "consent": {"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "sign-up form"},
    });
    let url = format!("http://127.0.0.1:{}/v1/subscriptions", stack.api);
    let send = || {
        stack
            .client
            .post(&url)
            .bearer_auth("local-dev-token")
            .header("Idempotency-Key", "first-1")
            .json(&request)
            .send()
    };
    let answer = send().await.unwrap();
    assert_eq!(answer.status(), 202);
    let receipt: Value = answer.json().await.unwrap();
    assert_eq!((&receipt["status"], &receipt["replayed"]), (&json!("accepted"), &json!(false)));
    let replay: Value = send().await.unwrap().json().await.unwrap();
    assert_eq!((&replay["request_id"], &replay["replayed"]), (&receipt["request_id"], &json!(true)));

    let url = format!("http://127.0.0.1:{}/v1/requests/{}", stack.api, receipt["request_id"].as_str().unwrap());
    stack
        .wait_for("the request", async || {
            let answer = stack.client.get(&url).bearer_auth("local-dev-token").send().await.unwrap();
            answer.json::<Value>().await.unwrap()["status"] == "synced"
        })
        .await;
    stack.assert_holds(&[("ada@example.test".into(), "subscribed")]).await;
    assert!(terminate(up).await.success(), "it ends well when it is told to\n{}", stack.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_killed_three_times_with_its_stack_loses_nothing() {
    let stack = Stack::new(2).await;
    let rows = rows(3000);
    let mut up = stack.up(&[]);
    stack.ready().await;
    let mut import = stack.import(&rows).spawn().unwrap();
    for events in [1, 800, 1600] {
        stack.finished_at_least(events).await;
        up.kill().await.unwrap();
        // It may have ended by itself.
        let _ = import.kill().await;
        up = stack.up(&[]);
        import = stack.import(&rows).spawn().unwrap();
    }
    assert!(import.wait().await.unwrap().success());
    stack.converged().await;
    stack.assert_holds(&rows).await;
    assert_eq!(number(&stack.status().await, "dead"), 0);
    // The greeting shows a first request to try.
    let log = stack.log().replace("ada@example.test", "");
    assert!(!log.contains('@') && !log.contains("Zephyrine"), "a log holds personal data");
    assert!(terminate(up).await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_and_two_dispatchers_side_by_side_stay_within_the_window() {
    let stack = Stack::new(3).await;
    let rows = rows(3000);
    let base = stack.up(&["intake", "reconciler", "simulator", "queues"]);
    stack.ready().await;
    let parts: Vec<Child> =
        ["worker", "worker", "dispatcher", "dispatcher"].into_iter().map(|part| stack.up(&[part])).collect();
    assert!(stack.import(&rows).status().await.unwrap().success());
    stack.converged().await;
    stack.assert_holds(&rows).await;
    let stats = stack.simulator("stats").await;
    assert_eq!(stats["answered_429"], 0);
    assert!(stats["highest_window"].as_u64().unwrap() <= 150, "{}", stats["highest_window"]);
    for child in parts.into_iter().chain([base]) {
        assert!(terminate(child).await.success(), "{}", stack.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_away_at_the_start_are_named() {
    let stack = Stack::new(4).await;
    for (variable, url, named) in [
        (
            "HUBFERRY_DATABASE_URL",
            "postgres://hubferry:secret@127.0.0.1:1/hubferry",
            ["PostgreSQL", "HUBFERRY_DATABASE_URL"],
        ),
        ("HUBFERRY_REDIS_URL", "redis://:secret@127.0.0.1:1/0", ["Redis", "127.0.0.1:1"]),
    ] {
        let output = stack.command().arg("up").env(variable, url).output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(named.iter().all(|name| text.contains(name)) && !text.contains("secret"), "{text}");
    }
}
