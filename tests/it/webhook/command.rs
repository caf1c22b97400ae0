//! `hubferry webhooks verify`, and webhooks of the simulator through the function.

use std::process::Stdio;
use std::time::Duration;

use hubferry::flows::webhook::{LOCAL_PATH, SecretSource, Webhook, WebhookSettings};
use hubferry::model::hubspot_signature::sign_v3;
use hubspot_simulator::{Simulator, SimulatorConfig, WebhookConfig};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::process::Command;

use super::{Hooks, SECRET, URL, app, settings};
use crate::accepting::setting::FAR_TOO_LONG;
use crate::program::hubferry;

/// Runs the command over a request on its standard input.
async fn verify(capture: &Value, arguments: &[&str]) -> (Option<i32>, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(hubferry());
    command.current_dir(folder.path()).env_clear().args(["--json", "webhooks", "verify"]).args(arguments);
    command.env("HUBFERRY_WEBHOOK_URL", URL);
    command.env("HUBFERRY_WEBHOOK_SECRETS", json!([{"current": SECRET}]).to_string());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(capture.to_string().as_bytes()).await.expect("it reads");
    drop(input);
    let output = child.wait_with_output().await.expect("it ends");
    (output.status.code(), serde_json::from_slice(&output.stdout).expect("JSON"))
}

#[tokio::test]
async fn a_captured_request_is_checked_and_what_differs_is_said() {
    let body = r#"[{"eventId":1}]"#;
    let capture = |url: &str| {
        let signature = sign_v3(&SECRET.into(), "POST", url, body.as_bytes(), "1790000001000");
        let headers = json!({"X-HubSpot-Signature-v3": signature, "X-HubSpot-Request-Timestamp": "1790000001000"});
        json!({"method": "POST", "url": "/hubspot/webhooks", "headers": headers, "body": body})
    };
    let at = ["--at", "2026-09-21T14:13:25Z"];
    let (code, found) = verify(&capture(URL), &at).await;
    assert_eq!((code, &found["verified"], &found["code"]), (Some(0), &json!(true), &json!("verified")), "{found}");
    let (code, found) = verify(&capture(URL), &[]).await;
    assert_eq!((code, &found["code"]), (Some(1), &json!("too_old")), "{found}");
    let (code, found) = verify(&capture("https://hooks.example.test/hubspot/webhooks/"), &at).await;
    assert_eq!((code, &found["code"]), (Some(1), &json!("no_secret_matches")));
    assert!(
        found["findings"].to_string().contains("slash at its end") && !found.to_string().contains(SECRET),
        "{found}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_simulator_reports_is_stored_once_though_it_is_shuffled_repeated_and_lost() {
    let hooks = Hooks::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let target = format!("http://{}{LOCAL_PATH}", listener.local_addr().expect("an address"));
    let source = SecretSource::Environment(vec![app(SECRET, None)]);
    let settings = WebhookSettings { url: target.clone(), ..settings(source) };
    let router = Webhook::new(hooks.setting.db.clone(), settings).router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let config = WebhookConfig {
        repeat_share: 0.2,
        lost_share: 0.2,
        retry_scale: 0.000_1,
        ..WebhookConfig::new(target, SECRET)
    };
    let simulator = SimulatorConfig { webhooks: Some(config), ..SimulatorConfig::default() };
    let simulator = Simulator::start(simulator).await.expect("a simulator");
    for person in 0..500 {
        simulator
            .seed_contact(&[("email", &format!("person-{person}@example.test")), ("firstname", "Ada")])
            .expect("a contact");
    }
    let settled = async {
        loop {
            let stats = simulator.webhook_stats();
            if (stats.pending, stats.waiting, stats.in_flight) == (0, 0, 0) {
                return stats;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let stats = tokio::time::timeout(FAR_TOO_LONG, settled).await.expect("everything arrives");
    assert_eq!(stats.statuses.keys().collect::<Vec<_>>(), [&200], "{stats:?}");
    let (deliveries, notifications, events) = hooks.rows().await;
    assert_eq!(notifications, 500 * 3);
    assert_eq!(u64::try_from(deliveries).expect("a count"), stats.requests);
    assert_eq!(hooks.count("webhook_deliveries where fresh > 0").await, events);
    let sql = "webhook_events where subscription_type = 'contact.creation' and state = 'received'";
    assert_eq!(hooks.count(sql).await, 500);
}
