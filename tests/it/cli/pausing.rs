//! `hubferry portal pause` and `hubferry portal resume`.

use serde_json::{Value, json};

use super::{Desk, PORTAL};

/// What `hubferry status` says of the desk's portal.
async fn status(desk: &Desk) -> Value {
    desk.run(&["--json", "status"]).await.json(0)["portals"][0].clone()
}

#[tokio::test]
async fn a_portal_is_paused_shown_as_paused_and_resumed() {
    let desk = Desk::new().await;
    let paused =
        desk.run(&["--json", "portal", "pause", "4711", "--for", "30m", "--reason", "a new mapping"]).await.json(0);
    assert_eq!((&paused["portal"], &paused["reason"]), (&json!(PORTAL), &json!("a new mapping")));
    let seconds = "select extract(epoch from paused_until - clock_timestamp())::bigint from hubferry.portals";
    assert!((1790..=1800).contains(&desk.count(seconds).await));
    assert_eq!(status(&desk).await["paused_reason"], "a new mapping");
    let table = desk.run(&["status"]).await.stdout;
    assert!(table.contains("a new mapping"), "{table}");

    // A person's word replaces a pause, longer or shorter.
    let until = "2999-01-01T00:00:00Z";
    let text = desk.run(&["portal", "pause", "4711", "--until", until, "--reason", "closed"]).await;
    assert_eq!(text.stdout, "portal 4711 is paused until 2999-01-01T00:00:00Z: closed\n");
    assert_eq!(status(&desk).await["paused_until"], until);

    let resumed = desk.run(&["--json", "portal", "resume", "4711"]).await.json(0);
    assert_eq!(resumed, json!({"portal": PORTAL, "was_paused": true, "events_due": 0}));
    assert_eq!(status(&desk).await["paused_until"], Value::Null);
    assert_eq!(desk.run(&["--json", "portal", "resume", "4711"]).await.json(0)["was_paused"], false);
}

#[tokio::test]
async fn a_pause_that_can_not_be_is_refused_and_changes_nothing() {
    let desk = Desk::new().await;
    for (arguments, said) in [
        (&["pause", "12", "--for", "30m", "--reason", "x"][..], "there is no portal 12"),
        (&["resume", "12"], "there is no portal 12"),
        (&["pause", "4711", "--until", "2020-01-01T00:00:00Z", "--reason", "x"], "has to end in the future"),
        (&["pause", "4711", "--for", "0s", "--reason", "x"], "has to end in the future"),
        (&["pause", "4711", "--reason", "x"], "required"),
        (&["pause", "4711", "--for", "30m"], "--reason"),
        (&["pause", "4711", "--for", "30m", "--reason", " "], "must have 1 to 200 characters"),
        (&["pause", "4711", "--for", "half an hour", "--reason", "x"], "must be a number and one of s, m, h, d"),
        (&["pause", "4711", "--for", "1h", "--until", "2999-01-01T00:00:00Z", "--reason", "x"], "cannot be used with"),
    ] {
        let run = desk.run(&[&["portal"], arguments].concat()).await;
        assert!(run.failure(2).contains(said), "{arguments:?}: {}", run.stderr);
    }
    assert_eq!(desk.count("select count(*) from hubferry.portals where paused_until is not null").await, 0);
}
