//! Reads the current values of records that notifications left uncertain: several values at one instant, or a merge.
//!
//! A type that HubSpot does not let us read, for want of a scope or because there is none such any more, is not asked for over and
//! over: its values stay marked as uncertain, which is logged for a person, and a replay of their deliveries asks again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::adapters::db::{self, OwedRead, PortalSettings, SettledRead};
use crate::adapters::hubspot::{Class, RecordValues, Refusal};
use crate::model::budget::{Bucket, Lane};
use crate::model::crm_change::{CONTACT, CrmChange};
use crate::model::ids::PortalId;
use crate::model::outcome::Row;
use crate::model::plan::ROWS_PER_CALL;

use super::super::super::Worker;
use super::super::super::calls::Calls;
use super::super::super::lease::Lease;
use super::super::super::portal::closed;
use super::{Obstacle, Obstacles, rules};

/// Calls that one turn makes at most: a few seconds of a worker's time.
const MOST_CALLS: u32 = 10;

/// The part of a portal's limit that one turn may take.
const SHARE_OF_LIMIT: u32 = 3;

/// What did not fit one turn comes again after this long.
pub(super) const MORE_READS_WAIT: Duration = Duration::from_secs(1);

/// What reading came to.
#[derive(Debug, Default)]
pub(super) struct ReadsMade {
    pub(super) calls: u64,
    /// Records that HubSpot does not let us read, whose values stay uncertain.
    pub(super) denied: u64,
}

impl Worker {
    /// Reads what is owed as far as budget, lease and time allow. What was applied stays, and what is still owed stands with the
    /// records.
    pub(super) async fn read_uncertain(
        &self,
        portal: &PortalSettings,
        owed: Vec<OwedRead>,
        lease: &Lease,
        deadline: Instant,
        obstacles: &mut Obstacles,
    ) -> ReadsMade {
        if owed.is_empty() {
            return ReadsMade::default();
        }
        if closed(portal).is_some() {
            put_off(&owed, &Obstacle::Closed, obstacles);
            return ReadsMade::default();
        }
        let most = (portal.call_limit / SHARE_OF_LIMIT).clamp(1, MOST_CALLS);
        let types = owed.chunk_by(|one, next| one.object_type == next.object_type);
        let chunks: Vec<&[OwedRead]> = types.flat_map(|reads| reads.chunks(ROWS_PER_CALL)).collect();
        let (now, later) = chunks.split_at(chunks.len().min(most as usize));
        for chunk in later {
            put_off(chunk, &Obstacle::MoreReads, obstacles);
        }

        let bucket = Bucket::calls(portal.portal_id, portal.call_limit, portal.call_window);
        let cost = (bucket, Lane::Bulk, u32::try_from(now.len()).unwrap_or(u32::MAX));
        let calls = match Calls::reserve(self.account(portal), &self.budget, cost, lease, deadline).await {
            Ok(calls) => calls,
            Err(reason) => {
                put_off(&owed, &Obstacle::NotCalled(reason), obstacles);
                return ReadsMade::default();
            }
        };
        let (mut settled, mut denied) = (Vec::new(), Denied::new());
        for chunk in now {
            settled.extend(read(&calls, chunk, obstacles, &mut denied).await);
        }
        let made = calls.settle().await;
        self.write_read(portal.portal_id, &settled, lease, obstacles).await;
        ReadsMade { calls: made, denied: tell(portal.portal_id, &denied) }
    }

    /// What follows from a change comes before the value is written: who crashes in between reads once more, and finds it again.
    async fn write_read(
        &self,
        portal: PortalId,
        settled: &[SettledRead<'_>],
        lease: &Lease,
        obstacles: &mut Obstacles,
    ) {
        if settled.is_empty() {
            return;
        }
        let changes: Vec<CrmChange> = settled.iter().flat_map(|read| changes(portal, read)).collect();
        let written = async {
            if !changes.is_empty() {
                rules::react(self, &changes).await?;
            }
            let connection = self.db.connection().await?;
            db::settle_crm_reads(&*connection, lease.token, portal, settled).await?;
            anyhow::Ok(())
        };
        if let Err(error) = written.await {
            tracing::warn!(
                portal.id = portal.0,
                error = format!("{error:#}"),
                "What was read could not be written yet."
            );
            let owed: Vec<OwedRead> = settled.iter().map(|read| read.owed.clone()).collect();
            put_off(&owed, &Obstacle::Failed("not_projected"), obstacles);
        }
    }
}

/// Records that HubSpot does not let us read, by object type and why.
type Denied = BTreeMap<(String, String), u64>;

/// Says which types can't be read, once for all their records. Returns how many these are.
fn tell(portal: PortalId, denied: &Denied) -> u64 {
    for ((object_type, code), records) in denied {
        tracing::error!(
            portal.id = portal.0,
            object.type = object_type,
            hubspot.code = code,
            reads.denied = records,
            "HubSpot does not let us read records of a type, so their values stay uncertain."
        );
    }
    denied.values().sum()
}

/// One call for up to a hundred records of one type.
async fn read<'a>(
    calls: &Calls<'_>,
    chunk: &'a [OwedRead],
    obstacles: &mut Obstacles,
    denied: &mut Denied,
) -> Vec<SettledRead<'a>> {
    let Some(OwedRead { object_type, .. }) = chunk.first() else { return Vec::new() };
    let ids: Vec<String> = chunk.iter().map(|owed| owed.record_id.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let properties: BTreeSet<&str> =
        chunk.iter().flat_map(|owed| owed.values.iter().map(|value| value.property.as_str())).collect();
    let properties: Vec<&str> = properties.into_iter().collect();
    let rows = match calls.make(calls.account.read_records(object_type, &ids, &properties)).await {
        Err(reason) => vec![Err(Obstacle::NotCalled(reason)); chunk.len()],
        Ok(call) => match call.result {
            Ok(rows) => rows.into_iter().map(found).collect(),
            // Not of the records, which are refused one by one.
            Err(refusal) if object_type != CONTACT => vec![Err(Obstacle::Refused(refusal)); chunk.len()],
            Err(refusal) => vec![found(Row::Refused(refusal)); chunk.len()],
        },
    };
    let mut settled = Vec::new();
    for (owed, row) in chunk.iter().zip(rows) {
        match row {
            Ok(record) => settled.push(SettledRead { owed, found: record.map(|record| values(owed, &record)) }),
            Err(Obstacle::Refused(refusal)) if is_denied(object_type, &refusal) => {
                *denied.entry((object_type.clone(), refusal.code)).or_default() += 1;
                settled.push(SettledRead { owed, found: None });
            }
            Err(obstacle) => put_off(std::slice::from_ref(owed), &obstacle, obstacles),
        }
    }
    settled
}

/// Whether a refusal stays one however often it is asked. Contacts have to be readable: without them hubferry does nothing, and a
/// dead event says so.
fn is_denied(object_type: &str, refusal: &Refusal) -> bool {
    let is_lasting = match refusal.class {
        Class::Configuration
        | Class::RowInvalid
        | Class::WholeBatchInvalid
        | Class::Conflict
        | Class::Gone
        | Class::OptedOut => true,
        Class::RateLimited(_) | Class::Locked | Class::Migrating | Class::Temporary | Class::Credential(_) => false,
    };
    is_lasting && object_type != CONTACT
}

/// A record that is gone has no values any more: its deletion, or its merge, is reported by itself.
fn found(row: Row<RecordValues>) -> Result<Option<RecordValues>, Obstacle> {
    match row {
        Row::Done(record) => Ok(Some(record)),
        Row::Refused(Refusal { class: Class::Gone, .. }) => Ok(None),
        Row::Refused(refusal) => Err(Obstacle::Refused(refusal)),
        Row::Unknown => Err(Obstacle::Unknown),
    }
}

/// In the order in which they are owed. HubSpot has no empty values.
fn values(owed: &OwedRead, record: &RecordValues) -> Vec<Option<String>> {
    owed.values.iter().map(|value| record.get(&value.property).cloned()).collect()
}

fn changes(portal: PortalId, read: &SettledRead<'_>) -> Vec<CrmChange> {
    let found = read.owed.values.iter().zip(read.found.iter().flatten());
    let other =
        found.filter(|(known, found)| known.value.as_deref().filter(|value| !value.is_empty()) != found.as_deref());
    other
        .map(|(known, found)| CrmChange {
            portal_id: portal,
            object_type: read.owed.object_type.clone(),
            object_id: read.owed.record_id,
            property: known.property.clone(),
            before: known.value.clone(),
            after: found.clone(),
            occurred_at: known.occurred_at,
            notification_key: read.owed.key,
            change_source: None,
        })
        .collect()
}

fn put_off(owed: &[OwedRead], obstacle: &Obstacle, obstacles: &mut Obstacles) {
    for read in owed {
        obstacles.entry(read.event_id).or_insert_with(|| obstacle.clone());
    }
}
