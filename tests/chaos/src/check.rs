//! What has to hold when a run is at rest.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use crate::audit;
use crate::expected::{self, Difference, Ended};
use crate::place::{Place, QUEUES};
use crate::workload::Accounts;

/// What a worker logs when a finish found rows that were not its own any more.
const LOST: &str = "Events had another owner by the time of finishing.";

/// What a worker logs when a finish got no answer: its repeat may find rows that the first one finished.
const REPEATED: &str = "A batch could not be finished yet.";

/// Everything that is wrong.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) offences: Vec<String>,
    pub(crate) differences: Vec<Difference>,
}

impl Findings {
    pub(crate) fn are_none(&self) -> bool {
        self.offences.is_empty() && self.differences.is_empty()
    }
}

pub(crate) async fn findings(place: &Place, accounts: &Accounts) -> anyhow::Result<Findings> {
    let ended = events(place).await?;
    let mut offences = accounts.offences.clone();
    offences.extend(receipts(accounts, &ended));
    offences.extend(window(place));
    offences.extend(leases(place).await?);
    offences.extend(dead_letters(place));
    offences.extend(audit::offences(&place.db).await?);
    offences.extend(stolen(place).await?);
    offences.extend(ends(&ended, &stopped(place).await?));
    offences.extend(stored(place, accounts).await?);
    Ok(Findings { offences, differences: expected::differences(place, &accounts.people, &ended) })
}

async fn events(place: &Place) -> anyhow::Result<HashMap<Uuid, Ended>> {
    let sql = "select event_id, created_at, status, last_error_code from hubferry.outbox_events";
    let rows = place.db.query(sql, &[]).await?;
    Ok(rows
        .iter()
        .map(|row| (row.get(0), Ended { accepted_at: row.get(1), status: row.get(2), code: row.get(3) }))
        .collect())
}

/// What was accepted is there, and what was rolled back is not.
fn receipts(accounts: &Accounts, ended: &HashMap<Uuid, Ended>) -> Vec<String> {
    let lost = accounts.accepted.iter().filter(|accepted| !ended.contains_key(&accepted.event_id));
    let mut offences: Vec<String> =
        lost.map(|accepted| format!("accepted event {} is not in the outbox", accepted.event_id)).collect();
    let erasures = accounts.people.iter().filter(|person| person.erased.is_some()).count();
    if ended.len() != accounts.accepted.len() + erasures {
        offences.push(format!(
            "{} events for {} receipts and {erasures} erasures",
            ended.len(),
            accounts.accepted.len()
        ));
    }
    offences
}

/// Events of contacts that were erased: these alone may be cancelled.
async fn stopped(place: &Place) -> anyhow::Result<HashSet<Uuid>> {
    let sql = "select e.event_id from hubferry.outbox_events e
               join hubferry.subscription_streams s using (stream_id) join hubferry.contacts c on c.contact_key = s.contact_key
               where c.erased_at is not null and e.status = 'cancelled' and e.last_error_code = 'contact_erased'";
    Ok(place.db.query(sql, &[]).await?.iter().map(|row| row.get(0)).collect())
}

/// Of whoever was erased nothing is stored but the key.
async fn stored(place: &Place, accounts: &Accounts) -> anyhow::Result<Vec<String>> {
    let sql = "
        select format('contact %s still has an address or properties', contact_key) from hubferry.contacts
        where contact_key = $1 and (erased_at is null or email is not null or properties <> '{}')
        union all
        select format('event %s still names an address of an erased contact', event_id) from hubferry.outbox_events
        where payload::text ~ $2
        union all
        select format('event %s still holds the consent of an erased contact', e.event_id)
        from hubferry.outbox_events e join hubferry.subscription_streams s using (stream_id)
        where s.contact_key = $1 and e.payload ? 'consent'";
    let mut offences = Vec::new();
    for person in accounts.people.iter().filter(|person| person.erased.is_some()) {
        let address = format!("\\mperson{}\\.", person.number);
        let rows = place.db.query(sql, &[&person.key, &address]).await?;
        offences.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    }
    Ok(offences)
}

/// No fault of a run is for good, so no event may end dead.
fn ends(ended: &HashMap<Uuid, Ended>, stopped: &HashSet<Uuid>) -> Vec<String> {
    let is_good = |end: &Ended| matches!(end.status.as_str(), "synced" | "superseded");
    let bad = ended.iter().filter(|(id, end)| !is_good(end) && !stopped.contains(*id));
    bad.map(|(id, end)| format!("event {id} ended {} ({:?})", end.status, end.code)).collect()
}

/// The simulator is as strict as we are: a call too many is a 429 that no fault played.
fn window(place: &Place) -> Vec<String> {
    let stats = place.simulator.stats();
    let limit = place.scenario.call_limit as usize;
    let accounts = stats.accounts.values();
    let mut offences: Vec<String> = accounts
        .filter(|account| account.answered_429 > 0)
        .map(|account| {
            format!("{} calls were above the limit of {limit} in {:?}", account.answered_429, place.scenario.window)
        })
        .collect();
    if stats.highest_window > limit {
        offences.push(format!("{} calls in a window of {limit}", stats.highest_window));
    }
    offences
}

/// An expired lease on a contact is nobody's; a live one would hold up the next event.
async fn leases(place: &Place) -> anyhow::Result<Vec<String>> {
    let sql = "select contact_key from hubferry.contact_links where lease_expires_at > clock_timestamp()";
    let rows = place.db.query(sql, &[]).await?;
    Ok(rows.iter().map(|row| format!("contact {} is still leased", row.get::<_, String>(0))).collect())
}

fn dead_letters(place: &Place) -> Vec<String> {
    let queues = QUEUES.iter().map(|name| format!("{name}-dead-letters"));
    queues
        .filter(|queue| !place.queues.messages(queue).is_empty())
        .map(|queue| format!("{} messages in {queue}", place.queues.messages(&queue).len()))
        .collect()
}

/// A worker that lost events must have lost them by the end of its lease, and not to a finish that was not theirs.
async fn stolen(place: &Place) -> anyhow::Result<Vec<String>> {
    let mut offences = Vec::new();
    for entry in std::fs::read_dir(place.folder.path())? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let mut repeated = false;
        for line in text.lines() {
            repeated |= line.contains(REPEATED);
            if !line.contains(LOST) {
                continue;
            }
            let Some((token, lost)) = lost_in(line) else {
                offences.push(format!("unreadable: {line}"));
                continue;
            };
            let by_time = audit::taken_over(&place.db, token).await?;
            if by_time < lost && !repeated {
                offences.push(format!(
                    "owner {token} lost {lost} events, {by_time} of them by the end of its lease: somebody else finished the rest"
                ));
            }
            repeated = false;
        }
    }
    Ok(offences)
}

/// Token and number of events of a line such as `… lease.token=… events.lost=2`.
fn lost_in(line: &str) -> Option<(Uuid, i64)> {
    let field = |name: &str| line.split_once(name)?.1.split_whitespace().next();
    Some((field("lease.token=")?.parse().ok()?, field("events.lost=")?.parse().ok()?))
}
