//! `hubferry rules test`

use std::io::Read as _;

use anyhow::Context as _;
use hubferry::adapters::db;
use hubferry::clock;
use hubferry::config::Environment;
use hubferry::model::crm_change::CrmChange;
use hubferry::model::echo::EchoMatch;
use hubferry::model::ids::{PortalId, RecordId};
use hubferry::model::notification::{Notification, NotificationKind, Sender, parse};
use hubferry::model::rules::{Change, RuleSet, effects};
use serde_json::{Value, json};

use super::super::connection;
use super::read;
use crate::arguments::RulesTestArgs;
use crate::end::{End, Misuse};
use crate::output;

/// What the rules are asked about.
struct Asked {
    version: i32,
    rules: RuleSet,
    change: Change,
    is_echo: bool,
}

pub(super) async fn run(args: &RulesTestArgs, environment: Environment, json: bool) -> anyhow::Result<End> {
    let file = args.file.as_deref().map(read).transpose()?;
    let changes = notifications(args)?;
    let connection = match file {
        Some(_) => None,
        None => Some(connection(environment).await?),
    };
    let mut tried = Vec::new();
    for notification in &changes {
        let Some(change) = change(notification, args) else {
            tried.push(json!({"notification": notification.subscription_type, "is_change": false, "rules": []}));
            continue;
        };
        let asked = match (&file, &connection) {
            (Some((portal, rules)), _) => of_file(*portal, rules, &change, args)?,
            (None, Some(connection)) => {
                match db::facts_of_changes(&**connection, change.portal_id, std::slice::from_ref(&change)).await? {
                    Some(found) => of_database(found, &change, args),
                    None => {
                        return Err(Misuse(format!(
                            "portal {} has no rules: push some, or name a file",
                            change.portal_id
                        ))
                        .into());
                    }
                }
            }
            (None, None) => return Err(Misuse("name a file of rules".into()).into()),
        };
        tried.push(outcome(&asked));
    }
    let text = tried.iter().map(line).collect::<Vec<_>>().join("\n");
    output::result(json, &json!({"notifications": tried}), &text);
    Ok(End::Done)
}

fn notifications(args: &RulesTestArgs) -> anyhow::Result<Vec<Notification>> {
    let mut body = Vec::new();
    match &args.notification {
        Some(path) => body = std::fs::read(path).with_context(|| format!("{} can't be read", path.display()))?,
        None => drop(std::io::stdin().read_to_end(&mut body).context("standard input can't be read")?),
    }
    let read = parse(&body, Sender::default(), clock::now().as_millisecond())
        .map_err(|reason| Misuse(format!("this is no notification: {}", reason.code())))?;
    if read.is_empty() {
        return Err(Misuse("there is no notification in it".into()).into());
    }
    let good = read.into_iter().enumerate().map(|(place, one)| {
        one.map_err(|bad| Misuse(format!("notification {} can't be used: {}", place + 1, bad.reason)).into())
    });
    good.collect()
}

/// `None` when it is not about a property of a record.
fn change(notification: &Notification, args: &RulesTestArgs) -> Option<CrmChange> {
    if NotificationKind::of(&notification.subscription_type) != NotificationKind::PropertyChange {
        return None;
    }
    Some(CrmChange {
        portal_id: PortalId(notification.portal_id),
        object_type: notification.object_type.clone()?,
        object_id: RecordId(notification.object_id?),
        property: notification.property_name.clone()?,
        before: args.from.clone(),
        after: notification.property_value.clone(),
        occurred_at: notification.occurred_at,
        notification_key: notification.key.0,
        change_source: notification.change_source.clone(),
    })
}

fn of_file(portal: PortalId, rules: &RuleSet, change: &CrmChange, args: &RulesTestArgs) -> anyhow::Result<Asked> {
    if change.portal_id != portal {
        let theirs = change.portal_id;
        return Err(Misuse(format!(
            "the notification is about portal {theirs}, and the rules are for portal {portal}"
        ))
        .into());
    }
    let properties = args.properties.iter().cloned().collect();
    Ok(Asked { version: 0, rules: rules.clone(), change: Change::of(change, properties), is_echo: false })
}

fn of_database(found: db::ChangeFacts, change: &CrmChange, args: &RulesTestArgs) -> Asked {
    let fact = found.facts.into_iter().next();
    let is_echo = fact.as_ref().is_some_and(|fact| fact.echo == EchoMatch::Echo);
    let mut properties = fact.map(|fact| fact.properties).unwrap_or_default();
    properties.extend(args.properties.iter().cloned());
    Asked { version: found.version, rules: found.rules, change: Change::of(change, properties), is_echo }
}

fn outcome(asked: &Asked) -> Value {
    let found = effects(&asked.rules, asked.version, &asked.change);
    let rules: Vec<Value> = found
        .into_iter()
        .map(|effect| match effect {
            Ok(effect) => json!({"rule": effect.rule, "effect": effect.kind, "dedupe_key": effect.dedupe_key, "payload": effect.payload["payload"]}),
            Err(flaw) => json!({"rule": flaw.rule, "effect": flaw.kind, "fault": flaw.fault.to_string()}),
        })
        .collect();
    let change = &asked.change;
    let about = format!("{} {} {}", change.object_type, change.object_id, change.property);
    json!({"notification": about, "is_change": true, "is_echo": asked.is_echo, "rules": rules})
}

fn line(tried: &Value) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned).unwrap_or_default();
    let about = text(&tried["notification"]);
    if tried["is_change"] == false {
        return format!("{about}: is no change of a property, and no rule is about it");
    }
    let mut lines = vec![about];
    if tried["is_echo"] == true {
        lines.push("  is our own write coming back: nothing would happen".to_owned());
    }
    for rule in tried["rules"].as_array().into_iter().flatten() {
        let head = format!("  {}: {}", text(&rule["rule"]), text(&rule["effect"]));
        match rule["fault"].as_str() {
            Some(fault) => lines.push(format!("{head} can't be made: {fault}")),
            None => lines.push(format!("{head} {}\n    {}", text(&rule["dedupe_key"]), rule["payload"])),
        }
    }
    if tried["rules"].as_array().is_none_or(Vec::is_empty) {
        lines.push("  no rule waits for it".to_owned());
    }
    lines.join("\n")
}
