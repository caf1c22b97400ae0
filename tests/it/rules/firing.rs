//! Which changes make which effects.

use serde_json::json;

use super::{Desk, telling};

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_a_rule_waits_for_makes_one_effect_which_waits_for_its_handler() {
    let desk = Desk::new(json!([telling("city-told", "city")])).await;
    let note = desk.change(("contact", 42), "city", "Utrecht", -5);
    let other = desk.change(("contact", 42), "jobtitle", "Baker", -5);
    desk.deliver(&[note, other]).await;
    let told = ("city-told".to_owned(), "pending".to_owned(), json!({"text": "city is Utrecht"}));
    assert_eq!(desk.effects().await, [told]);
    assert_eq!(desk.states().await, [("applied".into(), None, 2)]);
    let (published, _) = desk.world.step().await;
    assert_eq!(published.claimed, 0, "nobody carries effects out yet");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_change_makes_its_effect_once_however_often_it_is_worked() {
    let desk = Desk::new(json!([telling("city-told", "city")])).await;
    let note = desk.change(("contact", 42), "city", "Utrecht", -5);
    desk.deliver(&[note]).await;
    // A worker that died after reacting leaves its event to the next one.
    desk.world.sql("update hubferry.outbox_events set status = 'retry', finished_at = null, next_attempt_at = clock_timestamp()
                    where lane = 'inbound'").await;
    desk.settle().await;
    // The same value on another day of the same week is the same effect; another value is another one.
    let away = desk.change(("contact", 42), "city", "Breda", -4);
    let back = desk.change(("contact", 42), "city", "Utrecht", -3);
    desk.deliver(&[away, back]).await;
    let told: Vec<_> = desk.effects().await.into_iter().map(|(_, _, payload)| payload["text"].clone()).collect();
    assert_eq!(told, ["city is Breda", "city is Utrecht"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rule_that_waits_for_a_change_has_its_own_effect() {
    let rules = json!([telling("first", "city"), telling("second", "city"), telling("third", "jobtitle")]);
    let desk = Desk::new(rules).await;
    desk.deliver(&[desk.change(("contact", 42), "city", "Utrecht", -5)]).await;
    let rules: Vec<String> = desk.effects().await.into_iter().map(|(rule, _, _)| rule).collect();
    assert_eq!(rules, ["first", "second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_knows_the_value_before_and_what_is_known_of_the_record() {
    let rules = json!([{
        "name": "won",
        "when": {"object": "deal", "property": "dealstage", "from": "open", "to": ["won", "paid"], "pipeline": "sales"},
        "effect": "effect.http",
        "payload": {"body": "{{ properties.dealname | default('a deal') }}: {{ from | default('?') }} to {{ value }}"},
    }]);
    let desk = Desk::new(rules).await;
    let deal = |id, property, value, seconds| desk.change(("deal", id), property, value, seconds);
    for (id, pipeline) in [(1, "sales"), (2, "renewals")] {
        let known = [("pipeline", pipeline), ("dealname", "Roof"), ("dealstage", "open")];
        let notes: Vec<_> = known.iter().map(|(property, value)| deal(id, property, value, -60)).collect();
        desk.deliver(&notes).await;
    }
    assert_eq!(desk.effects().await, [], "nothing was known before");
    desk.deliver(&[deal(1, "dealstage", "won", -50), deal(2, "dealstage", "won", -50)]).await;
    let expected = ("won".to_owned(), "pending".to_owned(), json!({"body": "Roof: open to won"}));
    assert_eq!(desk.effects().await, std::slice::from_ref(&expected));
    desk.deliver(&[deal(1, "dealstage", "paid", -40)]).await;
    assert_eq!(desk.effects().await, [expected], "it was won before, and not open");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_can_make_nothing_of_a_value_leaves_a_dead_effect_and_everything_else_goes_on() {
    let mut counting = telling("counting", "city");
    counting["payload"] = json!({"next": "{% if value %}{{ value | int + 1 }}{% endif %}"});
    let desk = Desk::new(json!([counting, telling("told", "city")])).await;
    desk.deliver(&[desk.change(("contact", 42), "city", "Utrecht", -5), desk.change(("contact", 43), "city", "7", -5)])
        .await;
    let effects = desk.effects().await;
    let of =
        |rule: &str, status: &str| effects.iter().filter(|effect| (&*effect.0, &*effect.1) == (rule, status)).count();
    assert_eq!((of("counting", "dead"), of("counting", "pending"), of("told", "pending")), (1, 1, 2), "{effects:?}");
    let dead = desk.ask("select last_error_code, last_error_summary, payload::text from hubferry.outbox_events where status = 'dead'").await;
    assert_eq!(dead[0].get::<_, &str>(0), "rule_failed");
    assert!(!format!("{:?}", (dead[0].get::<_, &str>(1), dead[0].get::<_, &str>(2))).contains("Utrecht"));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_portal_without_rules_cost_one_look_and_make_nothing() {
    let desk = Desk { world: crate::world::World::new().await };
    desk.deliver(&[desk.change(("contact", 42), "city", "Utrecht", -5)]).await;
    assert_eq!((desk.effects().await, desk.states().await), (vec![], vec![("applied".into(), None, 1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_that_meet_the_same_effects_in_another_order_do_not_block_each_other() {
    use hubferry::adapters::db::{Reaction, StoredEffect, store_reaction};
    use hubferry::model::rules::EffectKind;

    let desk = Desk::new(json!([])).await;
    let effect = |key: u32| StoredEffect {
        kind: EffectKind::Slack,
        dedupe_key: format!("key-{key:03}"),
        payload: json!({}),
        dead: None,
    };
    let forward = Reaction { effects: (0..200).map(effect).collect(), ..Reaction::default() };
    let backward = Reaction { effects: (0..200).rev().map(effect).collect(), ..Reaction::default() };
    let runs = (0..40).map(|run| {
        let (desk, reaction) = (&desk, if run % 2 == 0 { &forward } else { &backward });
        async move {
            let connection = desk.world.db.connection().await.unwrap();
            store_reaction(&*connection, desk.world.portal, reaction).await.unwrap().effects
        }
    });
    let stored: i32 = futures::future::join_all(runs).await.into_iter().sum();
    assert_eq!(stored, 200);
}
