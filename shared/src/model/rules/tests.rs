use super::*;
use proptest::prelude::*;
use serde_json::json;

fn set(rules: &Value) -> RuleSet {
    serde_json::from_value(json!({"rules": rules})).unwrap()
}

/// The set with one rule that has these members besides those that every rule needs.
fn rule(members: Value) -> RuleSet {
    let mut rule =
        json!({"name": "won", "when": {"object": "deal", "property": "dealstage"}, "effect": "effect.slack"});
    let Value::Object(members) = members else { panic!("not an object") };
    rule.as_object_mut().unwrap().extend(members);
    set(&json!([rule]))
}

fn when(condition: Value) -> RuleSet {
    let mut when = json!({"object": "deal", "property": "dealstage"});
    let Value::Object(members) = condition else { panic!("not an object") };
    when.as_object_mut().unwrap().extend(members);
    rule(json!({"when": when}))
}

fn change(from: Option<&str>, to: &str) -> Change {
    Change {
        portal_id: 4711,
        object_type: "deal".into(),
        object_id: 42,
        property: "dealstage".into(),
        from: from.map(str::to_owned),
        to: to.into(),
        notification: "00ff".into(),
        occurred_at: "2026-11-30T10:00:00Z".parse().unwrap(),
        properties: BTreeMap::new(),
    }
}

fn fires(set: &RuleSet, change: &Change) -> bool {
    effects(set, 1, change).len() == 1
}

fn fault(set: &RuleSet) -> String {
    set.check().unwrap_err().to_string()
}

#[test]
fn a_rule_without_values_is_about_every_change_of_its_property_and_no_other() {
    let every = when(json!({}));
    assert!(fires(&every, &change(None, "won")) && fires(&every, &change(Some("won"), "")));
    assert!(!fires(&every, &Change { property: "amount".into(), ..change(None, "won") }));
    assert!(!fires(&every, &Change { object_type: "contact".into(), ..change(None, "won") }));
}

#[test]
fn values_are_asked_for_exactly_by_list_or_by_kind() {
    for (wanted, holds, fails) in [
        (json!("won"), change(None, "won"), change(None, "Won")),
        (json!(["won", "paid"]), change(None, "paid"), change(None, "lost")),
        (json!({"is": "set"}), change(None, "x"), change(None, "")),
        (json!({"is": "empty"}), change(Some("x"), ""), change(None, "x")),
        (json!({"is": "changed"}), change(Some("lost"), "won"), change(Some("won"), "won")),
    ] {
        let rules = when(json!({"to": wanted}));
        assert!(fires(&rules, &holds) && !fires(&rules, &fails), "{wanted}");
    }
    assert!(fires(&when(json!({"to": {"is": "any"}})), &change(None, "")));
}

#[test]
fn what_is_not_known_before_is_no_value_that_can_be_named() {
    let open = when(json!({"from": "open"}));
    assert!(fires(&open, &change(Some("open"), "won")));
    assert!(!fires(&open, &change(None, "won")) && !fires(&open, &change(Some("lost"), "won")));
    assert!(fires(&when(json!({"from": {"is": "empty"}})), &change(None, "won")));
}

#[test]
fn a_pipeline_is_the_one_that_is_known_of_the_record() {
    let sales = when(json!({"pipeline": "sales"}));
    let of = |name: &str| Change { properties: [("pipeline".into(), name.into())].into(), ..change(None, "won") };
    assert_eq!(sales.reads(), ["pipeline".to_owned()].into());
    assert!(fires(&sales, &of("sales")));
    assert!(!fires(&sales, &of("renewals")) && !fires(&sales, &change(None, "won")));
}

#[test]
fn an_effect_is_filled_in_from_the_change() {
    let rules = rule(json!({
        "payload": {
            "text": "{{ properties.dealname | default('a deal') }} went from {{ from | default('nothing') }} to {{ value }}",
            "fields": [{"id": "{{ object_id }}", "week": "{{ week }}", "at": "{{ date }}"}],
            "urgent": true,
        },
    }));
    assert_eq!(rules.check(), Ok(()));
    assert_eq!(rules.reads(), ["dealname".to_owned()].into());
    let change = Change { properties: [("dealname".into(), "Roof".into())].into(), ..change(Some("open"), "won") };
    let effect = effects(&rules, 3, &change).remove(0).unwrap();
    let expected = json!({
        "text": "Roof went from open to won",
        "fields": [{"id": "42", "week": "2026-W49", "at": "2026-11-30"}],
        "urgent": true,
    });
    assert_eq!(effect.payload["payload"], expected);
    assert_eq!((&effect.payload["rules_version"], &effect.payload["object_id"]), (&json!(3), &json!(42)));
    assert_eq!(effect.dedupe_key, "4711:won:deal:42:dealstage:won:2026-W49");
}

#[test]
fn weeks_are_those_of_iso_8601_in_the_rule_s_zone() {
    let key = |zone: Option<&str>, at: &str| {
        let rules = rule(json!({"time_zone": zone, "dedupe_key": "{{ week }}"}));
        let change = Change { occurred_at: at.parse().unwrap(), ..change(None, "won") };
        effects(&rules, 1, &change).remove(0).unwrap().dedupe_key
    };
    assert_eq!(key(None, "2027-01-01T12:00:00Z"), "4711:won:2026-W53");
    assert_eq!(key(None, "2026-11-29T23:30:00Z"), "4711:won:2026-W48");
    assert_eq!(key(Some("Europe/Amsterdam"), "2026-11-29T23:30:00Z"), "4711:won:2026-W49");
}

#[test]
fn a_key_of_anything_but_names_and_numbers_is_kept_as_its_hash() {
    let key = |value: &str| effects(&when(json!({})), 1, &change(None, value)).remove(0).unwrap().dedupe_key;
    let of_address = key("ada@example.test");
    assert!(of_address.starts_with("4711:won:sha256-") && !of_address.contains("example"), "{of_address}");
    assert_ne!(of_address, key("bob@example.test"));
    assert_eq!(key(&"x".repeat(60_000)).len(), of_address.len());
}

#[test]
fn a_template_that_fails_on_a_value_says_so_without_repeating_it() {
    let rules = rule(json!({"payload": {"next": "{{ value | int + 1 }}"}}));
    let flaw = effects(&rules, 1, &change(None, "secret-value")).remove(0).unwrap_err();
    assert_eq!((&*flaw.rule, flaw.kind), ("won", EffectKind::Slack));
    assert!(!flaw.to_string().contains("secret-value"), "{flaw}");
}

#[test]
fn a_template_that_would_run_for_ever_is_stopped() {
    let endless = "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}";
    let long = format!("{{% for a in range(9999) %}}{}{{% endfor %}}", "x".repeat(100));
    for template in [endless, &long] {
        assert!(fault(&rule(json!({"payload": {"text": template}}))).starts_with("rules[0].payload.text: "));
    }
}

#[test]
fn faults_name_their_field_and_what_to_do() {
    for (rules, expected) in [
        (rule(json!({"name": "Won!"})), "rules[0].name: must be 1 to 63"),
        (rule(json!({"time_zone": "Mars/Base"})), "rules[0].time_zone: is no time zone"),
        (rule(json!({"payload": {"a": ["{{ valeu }}"]}})), "rules[0].payload.a[0]: there is no `valeu`"),
        (rule(json!({"payload": {"a": "{{ value"}})), "rules[0].payload.a: "),
        (rule(json!({"payload": {"a": "{{ value | shout }}"}})), "rules[0].payload.a: "),
        (rule(json!({"payload": {"a": "{{ from }}"}})), "rules[0].payload.a: a value is missing"),
        (rule(json!({"payload": {"a": "{{ properties.city }}"}})), "rules[0].payload.a: a value is missing"),
        (rule(json!({"dedupe_key": "{{ nothing }}"})), "rules[0].dedupe_key: there is no `nothing`"),
        (rule(json!({"dedupe_key": " "})), "rules[0].dedupe_key: is empty"),
        (when(json!({"object": ""})), "rules[0].when.object: must be"),
        (when(json!({"property": "deal stage"})), "rules[0].when.property: must be"),
        (when(json!({"to": []})), "rules[0].when.to: is an empty list"),
        (when(json!({"from": {"is": "changed"}})), "rules[0].when.from: can't be"),
    ] {
        let found = fault(&rules);
        assert!(found.starts_with(expected), "{found} instead of {expected}");
    }
    let twice = json!({"name": "a", "when": {"object": "deal", "property": "amount"}, "effect": "effect.mail"});
    assert!(fault(&set(&json!([twice, twice]))).starts_with("rules[1].name: another rule"));
}

#[test]
fn what_a_set_waits_for_is_known_without_its_rules() {
    assert_eq!(when(json!({})).watched(), ["deal:dealstage".to_owned()].into());
}

proptest! {
    #[test]
    fn whatever_changes_to_whatever_a_checked_rule_gives_one_effect_with_a_storable_key(
        from in proptest::option::of(".{0,300}"), to in "\\PC{0,300}", id in 1_i64.., at in 946_684_800_i64..4_000_000_000,
    ) {
        let rules = rule(json!({"payload": {"text": "{{ value }} {{ from | default('') }} {{ object_id }}"}}));
        prop_assert_eq!(rules.check(), Ok(()));
        let change = Change { object_id: id, occurred_at: Timestamp::from_second(at).unwrap(), ..change(from.as_deref(), &to) };
        let found = effects(&rules, 1, &change);
        prop_assert_eq!(found.len(), 1);
        let effect = found[0].clone().unwrap();
        prop_assert!(effect.dedupe_key.len() < 400 && !effect.dedupe_key.contains('@'));
        let text = effect.payload["payload"]["text"].as_str().unwrap();
        prop_assert!(text.starts_with(&to) && !text.contains('\0'));
        prop_assert_eq!(effects(&rules, 1, &change), found);
    }
}
