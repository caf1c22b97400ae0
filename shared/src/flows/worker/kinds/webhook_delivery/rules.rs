//! What follows from changes in HubSpot.
//!
//! Two round trips for the changes of a portal, and one where it has no rules. Our own writes come back as changes: they are
//! known by what was written, and call for nothing. One that is not recognised, because a worker died between HubSpot's
//! answer and the note of it, makes each of its effects once and no more: an effect has an identity of its own.

use std::collections::BTreeMap;

use crate::adapters::db::{self, ChangeFacts, Reaction, StoredEffect};
use crate::model::crm_change::CrmChange;
use crate::model::echo::EchoMatch;
use crate::model::ids::PortalId;
use crate::model::rules::{Change, NewEffect, RuleFlaw, effects};

use super::super::super::Worker;

/// Code of an effect that its rule's template could not make.
const RULE_FAILED: &str = "rule_failed";

/// Reacts to changes that were applied. The same changes come again when their event is worked again, so whatever this writes
/// has an identity of its own.
///
/// Changes of contacts always come; those of other object types only in portals where `projected_types` lists the type.
pub(super) async fn react(worker: &Worker, changes: &[CrmChange]) -> anyhow::Result<()> {
    let mut by_portal: BTreeMap<PortalId, Vec<CrmChange>> = BTreeMap::new();
    for change in changes {
        by_portal.entry(change.portal_id).or_default().push(change.clone());
    }
    for (portal, changes) in by_portal {
        let connection = worker.db.connection().await?;
        let Some(found) = db::facts_of_changes(&*connection, portal, &changes).await? else { continue };
        let reaction = judge(&found, &changes);
        if reaction.effects.is_empty() && reaction.echoes.is_empty() && reaction.near_echoes.is_empty() {
            continue;
        }
        let stored = db::store_reaction(&*connection, portal, &reaction).await?;
        tracing::info!(
            portal.id = portal.0,
            effects = stored.effects,
            effects.repeated = reaction.effects.len().saturating_sub(usize::try_from(stored.effects)?),
            echoes = stored.echoes,
            echoes.near = reaction.near_echoes.len(),
            "Changes were looked at for what follows from them."
        );
    }
    Ok(())
}

/// What follows from changes of one portal.
fn judge(found: &ChangeFacts, changes: &[CrmChange]) -> Reaction {
    let mut reaction = Reaction::default();
    for (change, fact) in changes.iter().zip(&found.facts) {
        match fact.echo {
            EchoMatch::Echo => {
                reaction.echoes.push(change.notification_key);
                continue;
            }
            // HubSpot may have put our value in a form of its own, or somebody wrote another one: effects are deduplicated,
            // and one too many does less harm than one too few.
            EchoMatch::Near => reaction.near_echoes.push(change.notification_key),
            EchoMatch::Foreign => {}
        }
        let found = effects(&found.rules, found.version, &Change::of(change, fact.properties.clone()));
        reaction.effects.extend(found.into_iter().map(|effect| effect.map_or_else(failed, stored)));
    }
    reaction
}

fn stored(effect: NewEffect) -> StoredEffect {
    StoredEffect { kind: effect.kind, dedupe_key: effect.dedupe_key, payload: effect.payload, dead: None }
}

/// An effect that a person has to look at: the rule is repaired, and its changes are replayed.
fn failed(flaw: RuleFlaw) -> StoredEffect {
    let summary = flaw.to_string();
    StoredEffect {
        kind: flaw.kind,
        dedupe_key: flaw.dedupe_key,
        payload: flaw.payload,
        dead: Some((RULE_FAILED, summary)),
    }
}
