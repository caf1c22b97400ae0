//! `hubferry rules`, as a person runs it.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::{Desk, telling};
use crate::program::hubferry;

/// What a run of the program left.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Desk {
    /// Runs `hubferry` with these words over a file of rules and an input.
    pub(crate) async fn run(&self, words: &[&str], rules: &Value, input: &Value) -> Run {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rules.json"), rules.to_string()).unwrap();
        let mut command = Command::new(hubferry());
        command.current_dir(folder.path()).env_clear().args(words);
        command.env("HUBFERRY_DATABASE_URL", &self.world.database.url);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut standard_input = child.stdin.take().unwrap();
        // A command that reads nothing may be gone by now.
        let _ = standard_input.write_all(input.to_string().as_bytes()).await;
        drop(standard_input);
        let output = child.wait_with_output().await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    fn file(&self, rules: &Value) -> Value {
        json!({"portal": self.world.portal, "rules": rules})
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_checked_pushed_and_listed() {
    let desk = Desk::new(json!([])).await;
    let file = desk.file(&json!([telling("city-told", "city")]));
    let run = desk.run(&["rules", "push", "rules.json"], &file, &json!(null)).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("has 1 rule(s) from now on: version 2"), "{}", run.stdout);
    let run = desk.run(&["rules", "push", "rules.json"], &file, &json!(null)).await;
    assert!(run.stdout.contains("are unchanged: version 2"), "{}", run.stdout);
    let run = desk.run(&["rules", "list"], &file, &json!(null)).await;
    assert!(run.stdout.contains("city-told") && run.stdout.contains("effect.slack"), "{}", run.stdout);
    let run = desk.run(&["--json", "rules", "list", "--retired"], &file, &json!(null)).await;
    let listed: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(listed["rules"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_a_fault_changes_nothing_and_names_the_field() {
    let desk = Desk::new(json!([telling("kept", "city")])).await;
    let mut bad = telling("bad", "city");
    bad["payload"] = json!({"text": "{{ valeu }}"});
    let file = desk.file(&json!([telling("good", "city"), bad]));
    let run = desk.run(&["rules", "push", "rules.json"], &file, &json!(null)).await;
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("rules.json: rules[1].payload.text: there is no `valeu`"), "{}", run.stderr);
    assert_eq!(desk.count("rule_sets").await, 1);
    let stranger = json!({"portal": 1, "rules": []});
    let run = desk.run(&["rules", "push", "rules.json"], &stranger, &json!(null)).await;
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("portal 1 is not known here"), "{}", run.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pasted_notification_is_tried_against_a_file_and_against_the_active_rules() {
    let desk = Desk::new(json!([telling("active", "city")])).await;
    let note = desk.change(("contact", 42), "city", "Utrecht", -5);
    let file = desk.file(&json!([telling("tried", "city"), telling("other", "jobtitle")]));
    let run = desk.run(&["--json", "rules", "test", "rules.json"], &file, &note).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let tried: Value = serde_json::from_str(&run.stdout).unwrap();
    let rules = tried["notifications"][0]["rules"].as_array().unwrap();
    assert_eq!((rules.len(), &rules[0]["rule"]), (1, &json!("tried")));
    assert_eq!(rules[0]["payload"], json!({"text": "city is Utrecht"}));
    let key = rules[0]["dedupe_key"].as_str().unwrap();
    assert!(key.starts_with(&format!("{}:tried:contact:42:city:Utrecht:20", desk.world.portal)), "{key}");

    let run = desk.run(&["rules", "test"], &file, &json!([note])).await;
    assert!(run.stdout.contains("active: effect.slack"), "{}{}", run.stdout, run.stderr);
    let creation = json!({"portalId": desk.world.portal, "subscriptionType": "contact.creation", "objectId": 1,
                          "occurredAt": 1_790_000_000_000_i64});
    let run = desk.run(&["rules", "test"], &file, &creation).await;
    assert!(run.stdout.contains("no rule is about it"), "{}", run.stdout);
    assert_eq!((desk.effects().await, desk.count("webhook_events").await), (vec![], 0));
    let run = desk.run(&["rules", "test"], &file, &json!("nonsense")).await;
    assert_eq!(run.code, Some(2), "{}", run.stdout);
}
