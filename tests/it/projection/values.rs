//! Values: which one counts, and what becomes of each notification.

use serde_json::json;

use super::{Crm, RECORD, T};

#[tokio::test(flavor = "multi_thread")]
async fn an_older_change_that_comes_late_overwrites_nothing() {
    let crm = Crm::new().await;
    crm.deliver(&[crm.change("newsletter_optout", "true", T + 5)]).await;
    crm.deliver(&[crm.change("newsletter_optout", "false", T)]).await;
    assert_eq!(crm.value("newsletter_optout").await.as_deref(), Some("true"));
    assert_eq!(crm.settled().await, ["superseded:older", "applied"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_values_of_one_instant_come_to_the_same_in_both_orders_and_a_read_is_owed() {
    for turned in [false, true] {
        for together in [false, true] {
            let crm = Crm::new().await;
            crm.world.sql("update hubferry.portals set mode = 'off'").await;
            for property in ["newsletter_optout", "hs_email_optout", "hs_email_optout_1001"] {
                let mut notes = [crm.change(property, "false", T + 9), crm.change(property, "true", T + 9)];
                if turned {
                    notes.reverse();
                }
                let batches: Vec<_> = if together { vec![&notes[..]] } else { notes.chunks(1).collect() };
                for batch in batches {
                    let event = crm.receive(batch).await.expect("an event");
                    crm.work(&[event]).await;
                }
                assert_eq!(
                    crm.value_of(RECORD, property).await,
                    Some((Some("true".into()), true)),
                    "{property} {turned}"
                );
            }
            assert_eq!(crm.count("crm_records where read_event_id is not null").await, 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opt_out_wins_a_tie_even_over_a_value_that_sorts_after_it() {
    let crm = Crm::new().await;
    crm.world.sql("update hubferry.portals set mode = 'off'").await;
    for notes in [["unknown", "TRUE"], ["TRUE", "unknown"]] {
        crm.world.sql("truncate hubferry.crm_records cascade").await;
        for value in notes {
            let event = crm.receive(&[crm.change("hs_email_optout", value, T)]).await.expect("an event");
            crm.work(&[event]).await;
        }
        assert_eq!(crm.value("hs_email_optout").await.as_deref(), Some("TRUE"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_share_an_event_number_are_each_applied_and_a_repeat_is_not() {
    let crm = Crm::new().await;
    let same = |record: i64, property: &str| {
        let note = crm.change_of(record, property, "Utrecht", T);
        crate::world::with(note, json!({"eventId": 880_001}))
    };
    crm.deliver(&[same(90_210, "city"), same(90_211, "city"), same(90_210, "country"), same(90_210, "city")]).await;
    assert_eq!(crm.settled().await, ["applied", "applied", "applied"]);
    assert_eq!(crm.count("crm_values").await, 3);
    let again = crate::world::with(same(90_210, "city"), json!({"attemptNumber": 3}));
    assert_eq!(crm.receive(&[again]).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_beyond_a_double_stay_what_they_are() {
    let crm = Crm::new().await;
    let ids = [2_147_483_648, 9_007_199_254_740_993, i64::MAX];
    let mut notes: Vec<_> = ids.iter().map(|id| crm.note("creation", T, json!({"objectId": id}))).collect();
    notes.push(crm.note("creation", T, json!({"objectId": "9007199254740993"})));
    notes.push(crm.note("creation", T, json!({"objectId": 9_007_199_254_740_992_i64})));
    crm.deliver(&notes).await;
    let found = crm.ask("select object_id from hubferry.crm_records order by 1").await;
    let found: Vec<i64> = found.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, [2_147_483_648, 9_007_199_254_740_992, 9_007_199_254_740_993, i64::MAX]);
}

#[tokio::test(flavor = "multi_thread")]
async fn generic_types_are_folded_and_what_nobody_projects_is_ignored_by_reason() {
    let crm = Crm::new().await;
    let generic = |kind: &str, at: i64, fields: serde_json::Value| {
        crate::world::with(crm.note(kind, at, fields), json!({"subscriptionType": format!("object.{kind}")}))
    };
    crm.deliver(&[
        crm.note("creation", T, json!({"changeFlag": "NEW"})),
        generic(
            "propertyChange",
            T + 1,
            json!({"objectTypeId": "0-1", "propertyName": "city", "propertyValue": "Utrecht"}),
        ),
        generic("creation", T + 2, json!({"objectTypeId": "0-3", "objectId": 77})),
        crm.note("somethingNew", T + 3, json!({"extra": {"a": [1, {"b": null}]}})),
    ])
    .await;
    assert_eq!(crm.settled().await, ["applied", "applied", "ignored:object_type", "ignored:unknown_type"]);
    assert_eq!(crm.value("city").await.as_deref(), Some("Utrecht"));
    assert_eq!(crm.count("crm_records").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_is_asked_for_is_projected_under_its_name() {
    let crm = Crm::new().await;
    crm.world.sql("insert into hubferry.projected_types select portal_id, 'deal' from hubferry.portals").await;
    let stage = json!({"subscriptionType": "object.propertyChange", "objectTypeId": "0-3", "objectId": 77});
    let classic = json!({"subscriptionType": "deal.propertyChange", "objectId": 77});
    crm.deliver(&[crate::world::with(crm.change("dealstage", "won", T + 1), stage)]).await;
    crm.deliver(&[crate::world::with(crm.change("dealstage", "open", T), classic)]).await;
    let rows = crm.ask("select object_type, object_id, value from hubferry.crm_values").await;
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].get(0), rows[0].get(1), rows[0].get(2)), ("deal", 77_i64, "won"));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_changes_in_a_batch_each_is_told_with_what_was_before() {
    let crm = Crm::new().await;
    crm.deliver(&[crm.change("lifecyclestage", "lead", T)]).await;
    let stages = ["customer", "opportunity", "opportunity", "evangelist"];
    let mut notes: Vec<_> = (1..).zip(stages).map(|(at, stage)| crm.change("lifecyclestage", stage, T + at)).collect();
    notes.reverse();
    crm.deliver(&notes).await;
    let sql = "select value_before, property_value from hubferry.webhook_events where changed order by occurred_at";
    let told: Vec<(Option<String>, String)> = crm.ask(sql).await.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = [
        (None, "lead"),
        (Some("lead"), "customer"),
        (Some("customer"), "opportunity"),
        (Some("opportunity"), "evangelist"),
    ];
    let expected: Vec<_> = expected.map(|(before, after)| (before.map(str::to_owned), after.to_owned())).into();
    assert_eq!(told, expected);
    assert_eq!(crm.settled().await, ["applied"; 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_or_switched_off_portal_is_projected_all_the_same() {
    for stop in ["mode = 'off'", "paused_until = clock_timestamp() + interval '1 hour', paused_reason = 'test'"] {
        let crm = Crm::new().await;
        crm.world.sql(&format!("update hubferry.portals set {stop}")).await;
        crm.deliver(&[crm.change("city", "Utrecht", T)]).await;
        assert_eq!(crm.value("city").await.as_deref(), Some("Utrecht"));
        let event = crm.receive(&[crm.change("city", "Delft", T)]).await.expect("an event");
        let summary = crm.work(&[event]).await;
        assert_eq!((summary.snoozed, summary.calls), (1, 0), "only the read waits");
        assert_eq!(crm.value_of(RECORD, "city").await, Some((Some("Utrecht".into()), true)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_applied_before_a_crash_is_not_applied_again_and_its_changes_are_found_again() {
    let crm = Crm::new().await;
    let event = crm.receive(&[crm.change("city", "Utrecht", T)]).await.expect("an event");
    // A worker dies between applying and finishing.
    let lease = uuid::Uuid::new_v4();
    let claim = format!(
        "update hubferry.outbox_events set status = 'processing', lease_token = '{lease}',
                         lease_expires_at = clock_timestamp() + interval '1 hour' where event_id = '{event}'"
    );
    crm.world.sql(&claim).await;
    let apply = format!(
        "select what, before, after from hubferry.apply_webhook_deliveries('{lease}', {},
                         array['{event}']::uuid[], array(select delivery_id from hubferry.webhook_deliveries))",
        crm.world.portal.0
    );
    for _ in 0..2 {
        let rows = crm.ask(&apply).await;
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].get(0), rows[0].get(1), rows[0].get(2)), ("change", None::<&str>, "Utrecht"));
    }
    let settled_at: jiff::Timestamp = crm.ask("select settled_at from hubferry.webhook_events").await[0].get(0);

    // Somebody else's lease changes nothing.
    crm.receive(&[crm.change("city", "Delft", T + 1)]).await;
    assert!(crm.ask(&apply.replace(&lease.to_string(), &uuid::Uuid::new_v4().to_string())).await.is_empty());
    assert_eq!(crm.value("city").await.as_deref(), Some("Utrecht"));

    crm.world.sql("update hubferry.outbox_events set lease_expires_at = clock_timestamp() - interval '1 s' where status = 'processing'").await;
    let summary = crm.work(&[event]).await;
    assert_eq!(summary.synced, 1);
    let after: jiff::Timestamp = crm.ask("select min(settled_at) from hubferry.webhook_events").await[0].get(0);
    assert_eq!(after, settled_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_cannot_be_applied_does_not_hold_up_the_others() {
    let crm = Crm::new().await;
    crm.world.sql("alter table hubferry.crm_values add constraint poison check (value <> 'poison')").await;
    let bad = crm.receive(&[crm.change("city", "poison", T)]).await.expect("an event");
    let good = crm.receive(&[crm.change_of(77, "city", "Utrecht", T)]).await.expect("an event");
    let summary = crm.work(&[bad, good]).await;
    assert_eq!((summary.synced, summary.retried), (1, 1));
    assert_eq!(crm.count("webhook_events where state = 'received'").await, 1);
    crm.world.sql("alter table hubferry.crm_values drop constraint poison").await;
    crm.publish().await;
    assert_eq!(crm.work(&[bad]).await.synced, 1);
}
