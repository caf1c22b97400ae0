//! The effects that follow from a change.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::dedupe::dedupe_key;
use super::template::{RenderFault, context, fill};
use super::{Change, Rule, RuleSet};

/// What can follow from a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EffectKind {
    /// A message in Slack.
    #[serde(rename = "effect.slack")]
    Slack,
    /// A task in HubSpot.
    #[serde(rename = "effect.hubspot_task")]
    HubSpotTask,
    /// A row of a sheet.
    #[serde(rename = "effect.sheet_row")]
    SheetRow,
    /// A mail.
    #[serde(rename = "effect.mail")]
    Mail,
    /// A draft of an invoice.
    #[serde(rename = "effect.invoice_draft")]
    InvoiceDraft,
    /// A request to any other service.
    #[serde(rename = "effect.http")]
    Http,
}

impl EffectKind {
    /// Its name in the outbox.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Slack => "effect.slack",
            Self::HubSpotTask => "effect.hubspot_task",
            Self::SheetRow => "effect.sheet_row",
            Self::Mail => "effect.mail",
            Self::InvoiceDraft => "effect.invoice_draft",
            Self::Http => "effect.http",
        }
    }
}

/// An effect to be carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewEffect {
    /// The rule that asks for it.
    pub rule: String,
    /// What is to be done.
    pub kind: EffectKind,
    /// What makes it the same effect when it is asked for again.
    pub dedupe_key: String,
    /// Everything that carrying it out takes: filled in now, since the record goes on changing.
    pub payload: Value,
}

/// A rule that waits for a change, and can make nothing of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {rule}: {fault}")]
pub struct RuleFlaw {
    /// The rule.
    pub rule: String,
    /// What it would have done.
    pub kind: EffectKind,
    /// What makes it the same flaw when it is met again: one a record and version of the rules.
    pub dedupe_key: String,
    /// Of which change; no value.
    pub payload: Value,
    /// Why not.
    pub fault: RenderFault,
}

/// What follows from a change, in the order of the rules.
#[must_use]
pub fn effects(set: &RuleSet, version: i32, change: &Change) -> Vec<Result<NewEffect, RuleFlaw>> {
    let rules = set.rules.iter().filter(|rule| rule.when.holds(change));
    rules.map(|rule| effect(rule, version, change).map_err(|fault| flaw(rule, version, change, fault))).collect()
}

fn flaw(rule: &Rule, version: i32, change: &Change, fault: RenderFault) -> RuleFlaw {
    RuleFlaw {
        rule: rule.name.clone(),
        kind: rule.effect,
        dedupe_key: format!(
            "{}:{}:failed:{version}:{}:{}",
            change.portal_id, rule.name, change.object_type, change.object_id
        ),
        payload: payload(rule, version, change, None),
        fault,
    }
}

/// The effect of a rule that waits for the change.
pub(super) fn effect(rule: &Rule, version: i32, change: &Change) -> Result<NewEffect, RenderFault> {
    let context = context(change, &rule.zone());
    let filled = fill(&rule.payload, &context)?;
    Ok(NewEffect {
        rule: rule.name.clone(),
        kind: rule.effect,
        dedupe_key: dedupe_key(rule, change, &context)?,
        payload: payload(rule, version, change, Some(&filled)),
    })
}

fn payload(rule: &Rule, version: i32, change: &Change, filled: Option<&Map<String, Value>>) -> Value {
    json!({
        "rule": rule.name,
        "rules_version": version,
        "object_type": change.object_type,
        "object_id": change.object_id,
        "property": change.property,
        "occurred_at": change.occurred_at,
        "notification": change.notification,
        "payload": filled,
    })
}
