//! Rules come and go as a whole.

use hubferry::adapters::db::{self, PushedRules};
use hubferry::model::ids::PortalId;
use hubferry::model::rules::RuleSet;
use serde_json::json;

use super::{Desk, telling};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pushed_counts_from_then_on_in_place_of_what_was_there() {
    let desk = Desk::new(json!([telling("one", "city"), telling("two", "jobtitle")])).await;
    assert_eq!(desk.push(json!([telling("two", "jobtitle")])).await, PushedRules { version: 2, existed: false });
    assert_eq!(desk.push(json!([telling("two", "jobtitle")])).await, PushedRules { version: 2, existed: true });
    desk.deliver(&[
        desk.change(("contact", 42), "city", "Utrecht", -5),
        desk.change(("contact", 42), "jobtitle", "Baker", -5),
    ])
    .await;
    let rules: Vec<String> = desk.effects().await.into_iter().map(|(rule, _, _)| rule).collect();
    assert_eq!(rules, ["two"]);
    let connection = desk.world.db.connection().await.unwrap();
    let all = db::list_rules(&*connection, Some(desk.world.portal), true).await.unwrap();
    let found: Vec<(i32, &str, usize)> =
        all.iter().map(|version| (version.version, &*version.state, version.rules.rules.len())).collect();
    assert_eq!(found, [(2, "active", 1), (1, "retired", 2)]);
    assert_eq!(db::list_rules(&*connection, None, false).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_set_switches_the_rules_off() {
    let desk = Desk::new(json!([telling("one", "city")])).await;
    desk.push(json!([])).await;
    desk.deliver(&[desk.change(("contact", 42), "city", "Utrecht", -5)]).await;
    assert_eq!(desk.effects().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_for_a_portal_that_is_not_known_are_refused_and_nothing_is_written() {
    let desk = Desk::new(json!([])).await;
    let connection = desk.world.db.connection().await.unwrap();
    assert_eq!(db::push_rules(&*connection, PortalId(1), &RuleSet::default()).await.unwrap(), None);
    assert_eq!(desk.count("rule_sets").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_never_says_something_else_later() {
    let desk = Desk::new(json!([telling("one", "city")])).await;
    let connection = desk.world.db.connection().await.unwrap();
    let changed =
        connection.batch_execute("update hubferry.rule_sets set rules = '{\"rules\": []}'").await.unwrap_err();
    assert_eq!(changed.code().unwrap().code(), "HF020");
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_at_once_leave_one_active_version() {
    let desk = Desk::new(json!([])).await;
    let sets: Vec<_> = (0..8).map(|n| json!([telling(&format!("rule-{n}"), "city")])).collect();
    let pushed = futures::future::join_all(sets.into_iter().map(|rules| desk.push(rules))).await;
    let mut versions: Vec<i32> = pushed.iter().map(|pushed| pushed.version).collect();
    versions.sort_unstable();
    assert_eq!(versions, (2..=9).collect::<Vec<_>>());
    assert_eq!(desk.count("rule_sets where state = 'active'").await, 1);
}
