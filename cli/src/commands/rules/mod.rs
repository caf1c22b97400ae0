//! `hubferry rules`

mod test;

use std::path::Path;

use anyhow::Context as _;
use comfy_table::{Table, presets};
use hubferry::adapters::db::{self, RulesVersion};
use hubferry::config::Environment;
use hubferry::model::ids::PortalId;
use hubferry::model::rules::{Rule, RuleSet};
use serde::Deserialize;
use serde_json::json;

use super::connection;
use crate::arguments::RulesCommand;
use crate::end::{End, Misuse};
use crate::output;

/// Columns of the list.
const HEADERS: [&str; 7] = ["portal", "version", "state", "rule", "when", "effect", "since"];

/// Rules as people write them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    portal: PortalId,
    rules: Vec<Rule>,
}

pub(crate) async fn run(command: RulesCommand, environment: Environment, json: bool) -> anyhow::Result<End> {
    match command {
        RulesCommand::Push { file } => push(&file, environment, json).await,
        RulesCommand::List { portal, retired } => list(portal.map(PortalId), retired, environment, json).await,
        RulesCommand::Test(args) => test::run(&args, environment, json).await,
    }
}

async fn push(path: &Path, environment: Environment, json: bool) -> anyhow::Result<End> {
    let (portal, rules) = read(path)?;
    let connection = connection(environment).await?;
    let Some(pushed) = db::push_rules(&*connection, portal, &rules).await? else {
        let advice = format!("portal {portal} is not known here: run `hubferry portal init {portal}` first");
        return Err(Misuse(advice).into());
    };
    let (version, number) = (pushed.version, rules.rules.len());
    let text = if pushed.existed {
        format!("the rules of portal {portal} are unchanged: version {version} says the same")
    } else {
        format!("portal {portal} has {number} rule(s) from now on: version {version}")
    };
    let value = json!({"portal": portal, "version": version, "rules": number, "unchanged": pushed.existed});
    output::result(json, &value, &text);
    Ok(End::Done)
}

async fn list(portal: Option<PortalId>, retired: bool, environment: Environment, json: bool) -> anyhow::Result<End> {
    let versions = db::list_rules(&*connection(environment).await?, portal, retired).await?;
    let text = if versions.is_empty() {
        "there are no rules: `hubferry rules push` loads them".to_owned()
    } else {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(HEADERS).add_rows(versions.iter().flat_map(rows));
        table.to_string()
    };
    output::result(json, &json!({"rules": versions}), &text);
    Ok(End::Done)
}

/// A row a rule; a version without rules has one too.
fn rows(version: &RulesVersion) -> Vec<[String; 7]> {
    let row = |rule: Option<&Rule>| {
        let dash = || "-".to_owned();
        [
            version.portal_id.to_string(),
            version.version.to_string(),
            version.state.clone(),
            rule.map_or_else(dash, |rule| rule.name.clone()),
            rule.map_or_else(dash, |rule| format!("{} {}", rule.when.object, rule.when.property)),
            rule.map_or_else(dash, |rule| rule.effect.as_str().to_owned()),
            format!("{:.0}", version.activated_at),
        ]
    };
    match &*version.rules.rules {
        [] => vec![row(None)],
        rules => rules.iter().map(|rule| row(Some(rule))).collect(),
    }
}

/// Reads and checks a file of rules; the fault says where and what.
fn read(path: &Path) -> anyhow::Result<(PortalId, RuleSet)> {
    let text = std::fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
    parse(&text).map_err(|fault| Misuse(format!("{}: {fault}", path.display())).into())
}

fn parse(text: &[u8]) -> Result<(PortalId, RuleSet), String> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let file: RulesFile = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.into_inner();
        if path == "." { cause.to_string() } else { format!("{path}: {cause}") }
    })?;
    reader.end().map_err(|error| error.to_string())?;
    let rules = RuleSet { rules: file.rules };
    rules.check().map_err(|fault| fault.to_string())?;
    Ok((file.portal, rules))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_a_set_of_rules() {
        let (portal, rules) = parse(include_bytes!("../../../../docs/examples/deals.rules.json")).unwrap();
        assert_eq!((portal, rules.rules.len()), (PortalId(4711), 2));
    }

    #[test]
    fn faults_say_where_they_are() {
        let fault = |rule: &str| parse(format!(r#"{{"portal": 4711, "rules": [{rule}]}}"#).as_bytes()).unwrap_err();
        let with = |members: &str| {
            fault(&format!(
                r#"{{"name": "a", "when": {{"object": "deal", "property": "amount"}}, "effect": "effect.mail"{members}}}"#
            ))
        };
        assert!(
            with(r#", "payloads": {}"#).starts_with("rules[0].payloads: unknown field"),
            "{}",
            with(r#", "payloads": {}"#)
        );
        assert!(with(r#", "payload": {"a": "{{ b }}"}"#).starts_with("rules[0].payload.a: there is no `b`"));
        let kind = fault(r#"{"name": "a", "when": {"object": "deal", "property": "amount"}, "effect": "slack"}"#);
        assert!(kind.starts_with("rules[0].effect: unknown variant `slack`, expected one of `effect.slack`"), "{kind}");
        let to = fault(
            r#"{"name": "a", "when": {"object": "deal", "property": "amount", "to": 5}, "effect": "effect.mail"}"#,
        );
        assert!(to.starts_with("rules[0].when.to: expected a text, a list of texts"), "{to}");
        assert!(parse(br#"{"rules": []}"#).unwrap_err().contains("missing field `portal`"));
    }
}
