//! What happened to a person's streams, for a seed that failed.

use std::fmt::Write as _;

use crate::people::Person;
use crate::place::Place;

/// Lines of the trail and of the simulator's journal that are shown.
const MOST_LINES: usize = 60;

const EVENTS: &str = "
select format('  %s  %-10s %3s  %-12s  %-20s attempts %s  %s  %s', to_char(e.created_at, 'HH24:MI:SS.MS'), coalesce(s.product, e.kind), e.sequence,
              e.payload ->> 'desired_state', e.status, e.process_attempts, coalesce(e.last_error_code, ''), e.event_id)
from hubferry.outbox_events e left join hubferry.subscription_streams s using (stream_id)
where s.contact_key = $1 or e.contact_key = $1 order by e.created_at";

const TRAIL: &str = "
select format('  %s  %-15s %-8s %-24s %s -> %s  token %s -> %s', to_char(a.at, 'HH24:MI:SS.MS'), 'session ' || a.session, a.what,
              coalesce(s.product || ' ' || a.sequence, e.kind, a.contact_key), a.old_status, a.new_status,
              left(a.old_token::text, 8), left(a.new_token::text, 8))
from chaos.audit a
left join hubferry.outbox_events e on e.event_id = a.event_id
left join hubferry.subscription_streams s on s.stream_id = e.stream_id
where s.contact_key = $1 or a.contact_key = $1 or e.contact_key = $1 order by a.id";

/// The events of a person, who changed them when, and what the simulator wrote.
pub(crate) async fn of(place: &Place, person: &Person) -> anyhow::Result<String> {
    let sql = "select contact_key from hubferry.contacts where email = $1 or contact_key = $2";
    let key = place.db.query_opt(sql, &[&person.email, &person.key]).await?;
    let Some(key) = key.map(|row| row.get::<_, String>(0)) else { return Ok("no such contact\n".into()) };
    let mut text =
        format!("person {} ({}, key {key}), {:?}\nevents:\n", person.number, person.email, person.properties);
    for row in place.db.query(EVENTS, &[&key]).await? {
        writeln!(text, "{}", row.get::<_, String>(0))?;
    }
    text.push_str("who changed them:\n");
    let trail = place.db.query(TRAIL, &[&key]).await?;
    for row in &trail[trail.len().saturating_sub(MOST_LINES)..] {
        writeln!(text, "{}", row.get::<_, Option<String>>(0).unwrap_or_default())?;
    }
    text.push_str("the simulator's journal:\n");
    let prefix = format!("person{}.", person.number);
    let journal = std::fs::read_to_string(place.folder.path().join("simulator.jsonl")).unwrap_or_default();
    let own: Vec<&str> = journal.lines().filter(|line| line.contains(&prefix) || line.contains(&key)).collect();
    for line in &own[own.len().saturating_sub(MOST_LINES)..] {
        writeln!(text, "  {line}")?;
    }
    Ok(text)
}
