//! `hubferry webhooks list`, `show` and `replay`, as a person runs them.

use serde_json::{Value, json};

use crate::rules::{Desk, telling};

/// Runs the command and reads its JSON; it has to succeed.
async fn webhooks(desk: &Desk, words: &[&str]) -> Value {
    let words = [&["--json", "webhooks"], words].concat();
    let run = desk.run(&words, &json!(null), &json!(null)).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_shows_what_came_and_what_became_of_it_without_values() {
    let desk = Desk::new(json!([])).await;
    let city = desk.change(("contact", 42), "city", "Utrecht", -5);
    let ticket = desk.change(("ticket", 7), "subject", "Help", -5);
    let delivery = desk.deliver(&[city, ticket, json!({"portalId": 1})]).await;
    let run = desk.run(&["webhooks", "list"], &json!(null), &json!(null)).await;
    for expected in ["contact/42", "city", "applied", "ignored", "object_type", "no_type", &delivery.to_string()] {
        assert!(run.stdout.contains(expected), "{expected} is missing in\n{}{}", run.stdout, run.stderr);
    }
    assert!(!run.stdout.contains("Utrecht"));
    for (filter, expected) in [
        (&["--state", "applied"][..], 1),
        (&["--state", "applied", "--state", "ignored"], 2),
        (&["--type", "ticket.propertyChange"], 1),
        (&["--portal", "1"], 1),
        (&["--until", "1h"], 0),
        (&["--limit", "2"], 2),
        (&["--since", "2026-01-01T00:00:00Z"], 3),
    ] {
        let found = webhooks(&desk, &[&["list"], filter].concat()).await;
        assert_eq!(found["notifications"].as_array().unwrap().len(), expected, "{filter:?} {found}");
    }
    let run = desk.run(&["webhooks", "list", "--since", "yesterday"], &json!(null), &json!(null)).await;
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("2026-11-30T08:00:00Z"), "{}", run.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_and_a_notification_are_shown_with_what_followed_and_values_only_when_asked_for() {
    let desk = Desk::new(json!([telling("city-told", "city")])).await;
    let delivery = desk.deliver(&[desk.change(("contact", 42), "city", "Utrecht", -5)]).await.to_string();
    let shown = webhooks(&desk, &["show", &delivery]).await;
    assert_eq!(
        (&shown["secret"], &shown["notifications"], &shown["events"][0]["status"]),
        (&json!("current"), &json!(1), &json!("synced"))
    );
    assert!(!shown.to_string().contains("Utrecht"), "{shown}");
    assert_eq!(webhooks(&desk, &["show", &delivery, "--values"]).await["new_notifications"][0]["value"], "Utrecht");

    let key = shown["new_notifications"][0]["notification"].as_str().unwrap();
    let shown = webhooks(&desk, &["show", key]).await;
    assert_eq!(
        (&shown["state"], &shown["changed"], &shown["delivery_id"]),
        (&json!("applied"), &json!(true), &json!(delivery))
    );
    let effect = &shown["effects"][0];
    assert_eq!(
        (&effect["rule"], &effect["status"], &effect["kind"]),
        (&json!("city-told"), &json!("pending"), &json!("effect.slack"))
    );
    assert!(!shown.to_string().contains("Utrecht"), "{shown}");
    assert_eq!(webhooks(&desk, &["show", key, "--values"]).await["value"], "Utrecht");

    for unknown in ["00000000-0000-0000-0000-000000000000", "nonsense", &"0".repeat(64)] {
        let run = desk.run(&["webhooks", "show", unknown], &json!(null), &json!(null)).await;
        assert_eq!(run.code, Some(2), "{unknown}: {}", run.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_looked_at_first_and_then_asks_rules_that_came_too_late() {
    let desk = Desk::new(json!([])).await;
    desk.deliver(&[
        desk.change(("contact", 42), "city", "Utrecht", -9),
        desk.change(("contact", 42), "city", "Breda", -8),
    ])
    .await;
    desk.deliver(&[desk.change(("contact", 42), "city", "Delft", -10)]).await;
    let before = desk.states().await;
    desk.push(json!([telling("city-told", "city")])).await;
    let seen = webhooks(&desk, &["replay", "--since", "1h"]).await;
    assert_eq!((&seen["preview"], &seen["notifications"]), (&json!(true), &json!(3)), "{seen}");
    assert_eq!((desk.states().await, desk.effects().await), (before, vec![]));

    let done = webhooks(&desk, &["replay", "--since", "1h", "--yes"]).await;
    assert_eq!(done, json!({"deliveries": 2, "notifications": 3, "events": 2}));
    desk.settle().await;
    // What a newer value was known of by then is older now.
    let after = [("applied".to_owned(), None, 1), ("superseded".to_owned(), Some("older".to_owned()), 2)];
    assert_eq!(desk.states().await, after);
    let told: Vec<_> = desk.effects().await.into_iter().map(|(_, _, payload)| payload["text"].clone()).collect();
    assert_eq!(told, ["city is Breda", "city is Utrecht"], "what was older than what was known changed nothing");
    let known = desk.ask("select value from hubferry.crm_values").await;
    assert_eq!(known[0].get::<_, &str>(0), "Breda");
    // Once more makes no effect twice.
    webhooks(&desk, &["replay", "--since", "1h", "--yes"]).await;
    desk.settle().await;
    assert_eq!((desk.states().await, desk.effects().await.len()), (after.to_vec(), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_quarantined_is_read_again_unless_somebody_else_s_secret_signed_it() {
    let desk = Desk::new(json!([])).await;
    let mut of_stranger = desk.change(("contact", 42), "city", "Utrecht", -9);
    of_stranger["portalId"] = json!(4711);
    let readable = desk.change(("contact", 43), "city", "Breda", -9);
    desk.deliver(&[of_stranger, desk.change(("contact", 44), "city", "Delft", -9)]).await;
    // As an older version left them: it could not read what this one can.
    for (key, raw, reason) in
        [("01", &readable, "no_type"), ("02", &readable, "foreign_portal"), ("03", &json!({"a": 1}), "no_type")]
    {
        desk.world
            .sql(&format!(
                "insert into hubferry.webhook_events (notification_key, delivery_id, position, state, reason, raw)
                 select decode(repeat('{key}', 32), 'hex'), delivery_id, 50, 'quarantined', '{reason}', '{raw}'
                 from hubferry.webhook_deliveries"
            ))
            .await;
    }
    let mut replay = webhooks(&desk, &["replay", "--since", "1h", "--state", "quarantined", "--yes"]).await;
    assert_eq!((&replay["notifications"], &replay["events"]), (&json!(1), &json!(1)), "{replay}");
    desk.settle().await;
    let quarantined = |reason: &str| ("quarantined".to_owned(), Some(reason.to_owned()), 1);
    let left = [quarantined("foreign_portal"), quarantined("no_type"), quarantined("unknown_portal")];
    assert_eq!(desk.states().await, [&[("applied".to_owned(), None, 2)], &left[..]].concat());

    desk.world.sql("insert into hubferry.portals (portal_id, name) values (4711, 'late')").await;
    replay = webhooks(&desk, &["replay", "--since", "1h", "--portal", "4711", "--yes"]).await;
    assert_eq!(replay["notifications"], 1);
    desk.settle().await;
    assert_eq!(desk.states().await, [&[("applied".to_owned(), None, 3)], &left[..2]].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_goes_through_all_its_pages_and_leaves_other_states_and_times_alone() {
    let desk = Desk::new(json!([])).await;
    for number in 0..120 {
        desk.world
            .store_delivery(&[
                desk.change(("contact", 1000 + number), "city", "Utrecht", -5),
                desk.change(("ticket", 1), "subject", &number.to_string(), -5),
            ])
            .await;
    }
    desk.settle().await;
    desk.world
        .sql(
            "update hubferry.webhook_deliveries set received_at = received_at - interval '3 hours'
                    where delivery_id in (select delivery_id from hubferry.webhook_events where object_id = 1000)",
        )
        .await;
    desk.world.sql("update hubferry.webhook_events set state = 'echo' where object_id = 1001").await;
    let done = webhooks(&desk, &["replay", "--since", "2h", "--state", "applied", "--yes"]).await;
    assert_eq!(done, json!({"deliveries": 119, "notifications": 118, "events": 118}));
    assert_eq!(desk.count("webhook_events where state = 'received'").await, 118);
    desk.settle().await;
    assert_eq!(desk.count("webhook_events where state = 'applied'").await, 119);
}
