//! The simulator as a program, killed without warning.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::hub::{UPSERT, by_email, client};

struct Program {
    child: Child,
    url: String,
}

impl Program {
    fn start(state_file: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hubspot-simulator"))
            .args(["--listen", "127.0.0.1:0", "--token", "t", "--portal", "7", "--limit", "50", "--state-file"])
            .arg(state_file)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("http://"))).unwrap().unwrap();
        let url = line[line.find("http://").unwrap()..].to_owned();
        Self { child, url }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[tokio::test]
async fn program_killed_without_warning_continues_with_the_same_contacts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state").join("hubspot.jsonl");
    let mut ids = Vec::new();
    for _ in 0..2 {
        let program = Program::start(&path);
        let request = client().post(format!("{}{UPSERT}", program.url));
        let body = json!({ "inputs": [by_email("ann@example.test", json!({}))] });
        let answer = request.bearer_auth("t").json(&body).send().await.unwrap();
        assert_eq!(answer.headers()["x-hubspot-ratelimit-max"], "50");
        let answer: Value = answer.json().await.unwrap();
        ids.push(answer["results"][0]["id"].clone());
    }
    assert_eq!(ids[0], ids[1]);
}
