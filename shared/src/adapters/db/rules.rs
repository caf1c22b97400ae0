//! Rules of a portal, what they need to know of a change, and what follows from it.

use std::collections::BTreeMap;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use super::failure::DbFailure;
use super::outbox::millis;
use super::pool::{column, query};
use crate::model::crm_change::CrmChange;
use crate::model::echo::{ECHO_WINDOW, EchoMatch, ValueHash};
use crate::model::ids::PortalId;
use crate::model::rules::{EffectKind, RuleSet};

/// A version of the rules of a portal.
#[derive(Debug, Clone, Serialize)]
pub struct RulesVersion {
    /// Portal.
    pub portal_id: PortalId,
    /// Its number.
    pub version: i32,
    /// `active` or `retired`.
    pub state: String,
    /// Since when it counts.
    pub activated_at: Timestamp,
    /// Since when it does not any more.
    pub retired_at: Option<Timestamp>,
    /// What it says.
    pub rules: RuleSet,
}

/// What became of rules that were pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushedRules {
    /// The version that is active now.
    pub version: i32,
    /// It was active before, with the same rules.
    pub existed: bool,
}

/// What reacting to changes takes.
#[derive(Debug, Clone)]
pub struct ChangeFacts {
    /// The version of the rules.
    pub version: i32,
    /// The rules.
    pub rules: RuleSet,
    /// One a change, in their order.
    pub facts: Vec<ChangeFact>,
}

/// What is known about one change.
#[derive(Debug, Clone)]
pub struct ChangeFact {
    /// Whether it is our own write.
    pub echo: EchoMatch,
    /// The record's properties that rules ask for.
    pub properties: BTreeMap<String, String>,
}

/// What follows from changes.
#[derive(Debug, Clone, Default)]
pub struct Reaction {
    /// Effects, each once.
    pub effects: Vec<StoredEffect>,
    /// Notifications of our own writes.
    pub echoes: Vec<[u8; 32]>,
    /// Notifications of other values than we wrote.
    pub near_echoes: Vec<[u8; 32]>,
}

/// An effect as it is stored.
#[derive(Debug, Clone)]
pub struct StoredEffect {
    /// What is to be done.
    pub kind: EffectKind,
    /// Its identity in its kind.
    pub dedupe_key: String,
    /// Everything that carrying it out takes.
    pub payload: Value,
    /// Why it can't be carried out: code and summary.
    pub dead: Option<(&'static str, String)>,
}

/// How many were new.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReactionStored {
    /// Effects.
    pub effects: i32,
    /// Notifications that were found to be our own writes.
    pub echoes: i32,
}

/// Makes these the rules of a portal, in place of those before; `None` when the portal is not known.
pub async fn push_rules(
    client: &impl GenericClient,
    portal: PortalId,
    rules: &RuleSet,
) -> anyhow::Result<Option<PushedRules>> {
    const STATEMENT: &str = "push_rules";
    let document = serde_json::to_value(rules).context("the rules can't be written as JSON")?;
    let list = |names: std::collections::BTreeSet<String>| names.into_iter().collect::<Vec<_>>();
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] = [
        (&portal.0, Type::INT8),
        (&document, Type::JSONB),
        (&list(rules.watched()), Type::TEXT_ARRAY),
        (&list(rules.reads()), Type::TEXT_ARRAY),
    ];
    let sql = "select version, existed from hubferry.push_rules($1, $2, $3, $4)";
    let rows = query(client, STATEMENT, sql, &params).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(PushedRules { version: column(row, STATEMENT, "version")?, existed: column(row, STATEMENT, "existed")? }))
}

/// The rules of all portals or of one, the active version first, then the newest; retired ones only when asked for.
pub async fn list_rules(
    client: &impl GenericClient,
    portal: Option<PortalId>,
    retired: bool,
) -> Result<Vec<RulesVersion>, DbFailure> {
    const STATEMENT: &str = "list_rules";
    let sql = "select portal_id, version, state, activated_at, retired_at, rules from hubferry.rule_sets
               where ($1::bigint is null or portal_id = $1) and (state = 'active' or $2)
               order by portal_id, state, version desc limit 1000";
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&portal.map(|portal| portal.0), Type::INT8), (&retired, Type::BOOL)];
    let rows = query(client, STATEMENT, sql, &params).await?;
    rows.iter()
        .map(|row| {
            Ok(RulesVersion {
                portal_id: PortalId(column(row, STATEMENT, "portal_id")?),
                version: column(row, STATEMENT, "version")?,
                state: column(row, STATEMENT, "state")?,
                activated_at: column(row, STATEMENT, "activated_at")?,
                retired_at: column(row, STATEMENT, "retired_at")?,
                rules: rule_set(column(row, STATEMENT, "rules")?, STATEMENT)?,
            })
        })
        .collect()
}

/// What reacting to these changes of one portal takes; `None` when it has no rules.
pub async fn facts_of_changes(
    client: &impl GenericClient,
    portal: PortalId,
    changes: &[CrmChange],
) -> Result<Option<ChangeFacts>, DbFailure> {
    const STATEMENT: &str = "facts_of_changes";
    let hashes: Vec<ValueHash> =
        changes.iter().map(|change| ValueHash::of(change.after.as_deref().unwrap_or_default())).collect();
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 8] = [
        (&portal.0, Type::INT8),
        (&changes.iter().map(|change| &*change.object_type).collect::<Vec<_>>(), Type::TEXT_ARRAY),
        (&changes.iter().map(|change| change.object_id.0).collect::<Vec<_>>(), Type::INT8_ARRAY),
        (&changes.iter().map(|change| &*change.property).collect::<Vec<_>>(), Type::TEXT_ARRAY),
        (&hashes.iter().map(|hash| &hash.0[..]).collect::<Vec<_>>(), Type::BYTEA_ARRAY),
        (&changes.iter().map(|change| change.occurred_at).collect::<Vec<_>>(), Type::TIMESTAMPTZ_ARRAY),
        (&millis(ECHO_WINDOW), Type::INT8),
        (&changes.iter().map(|change| &change.notification_key[..]).collect::<Vec<_>>(), Type::BYTEA_ARRAY),
    ];
    let rows = query(client, STATEMENT, include_str!("sql/facts_of_changes.sql"), &params).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let unreadable = |_| DbFailure::Unreadable { statement: STATEMENT, cause: "column facts".into() };
    let facts: Vec<FactRow> = match column::<Option<Value>>(row, STATEMENT, "facts")? {
        Some(facts) => serde_json::from_value(facts).map_err(unreadable)?,
        None => Vec::new(),
    };
    Ok(Some(ChangeFacts {
        version: column(row, STATEMENT, "version")?,
        rules: rule_set(column(row, STATEMENT, "rules")?, STATEMENT)?,
        facts: facts.into_iter().map(ChangeFact::from).collect(),
    }))
}

/// Stores what follows from changes of one portal, in one statement. What is there already stays as it is.
pub async fn store_reaction(
    client: &impl GenericClient,
    portal: PortalId,
    reaction: &Reaction,
) -> Result<ReactionStored, DbFailure> {
    const STATEMENT: &str = "store_effects";
    let effects = &reaction.effects;
    let dead = |effect: &StoredEffect| effect.dead.clone().map(|(code, summary)| (code.to_owned(), summary)).unzip();
    let (codes, summaries): (Vec<Option<String>>, Vec<Option<String>>) = effects.iter().map(dead).unzip();
    let keys = |keys: &[[u8; 32]]| keys.iter().map(|key| key.to_vec()).collect::<Vec<_>>();
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 8] = [
        (&portal.0, Type::INT8),
        (&effects.iter().map(|effect| effect.kind.as_str()).collect::<Vec<_>>(), Type::TEXT_ARRAY),
        (&effects.iter().map(|effect| &*effect.dedupe_key).collect::<Vec<_>>(), Type::TEXT_ARRAY),
        (&effects.iter().map(|effect| &effect.payload).collect::<Vec<_>>(), Type::JSONB_ARRAY),
        (&codes, Type::TEXT_ARRAY),
        (&summaries, Type::TEXT_ARRAY),
        (&keys(&reaction.echoes), Type::BYTEA_ARRAY),
        (&keys(&reaction.near_echoes), Type::BYTEA_ARRAY),
    ];
    let rows = query(client, STATEMENT, include_str!("sql/store_effects.sql"), &params).await?;
    let row = rows.first().ok_or(DbFailure::Unreadable { statement: STATEMENT, cause: "no row".into() })?;
    Ok(ReactionStored { effects: column(row, STATEMENT, "stored")?, echoes: column(row, STATEMENT, "echoes")? })
}

#[derive(Deserialize)]
struct FactRow {
    echo: Option<bool>,
    properties: BTreeMap<String, String>,
}

impl From<FactRow> for ChangeFact {
    fn from(row: FactRow) -> Self {
        let echo = match row.echo {
            Some(true) => EchoMatch::Echo,
            Some(false) => EchoMatch::Near,
            None => EchoMatch::Foreign,
        };
        Self { echo, properties: row.properties }
    }
}

fn rule_set(rules: Value, statement: &'static str) -> Result<RuleSet, DbFailure> {
    serde_json::from_value(rules).map_err(|_| DbFailure::Unreadable { statement, cause: "column rules".into() })
}
