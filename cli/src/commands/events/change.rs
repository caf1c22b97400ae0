//! Changes events chunk by chunk, after a look at what would happen.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hubferry::adapters::db::{
    self, ChangedEvent, Db, DbFailure, EventFilter, ListedEvent, MOST_CHANGED, ReplayedMapping,
};
use hubferry::model::ids::EventId;
use hubferry::model::subscription::EventLane;
use serde_json::json;

use crate::end::End;
use crate::output;

/// Events that a preview names one by one.
const PREVIEWED: usize = 10;

/// A paced change makes so many chunks a minute, so that it is spread evenly and still asks little of the database.
const CHUNKS_A_MINUTE: u32 = 6;

/// Time between two lines about how far it is.
const LINE_PAUSE: Duration = Duration::from_secs(5);

/// What is to be done, and to which events.
pub(crate) struct Job {
    pub(crate) change: Change,
    pub(crate) chosen: Chosen,
    /// Most events a minute.
    pub(crate) pace: Option<u32>,
}

/// What is to be done.
pub(crate) enum Change {
    /// Stop them.
    Cancel,
    /// Decide once more what they decided.
    Replay {
        /// Under which mapping.
        mapping: ReplayedMapping,
        /// In which lane; `None` for each one's own.
        lane: Option<EventLane>,
    },
}

/// Which events.
pub(crate) enum Chosen {
    /// These.
    Named(Vec<EventId>),
    /// All that match, the oldest first.
    Matching {
        /// Words of the table, of what is not finished or dead.
        statuses: Vec<&'static str>,
        filter: EventFilter,
    },
}

/// What became of the events.
#[derive(Default)]
struct Counts {
    changed: usize,
    left_alone: usize,
}

impl Job {
    /// Says what would happen: how many by status, brand and code, and the first ones by name.
    pub(crate) async fn preview(&self, db: &Db, json: bool) -> anyhow::Result<End> {
        let connection = db.connection().await?;
        let (counts, total, first) = match &self.chosen {
            Chosen::Named(events) => {
                let first: Vec<EventId> = events.iter().take(PREVIEWED).copied().collect();
                (Vec::new(), events.len(), first)
            }
            Chosen::Matching { statuses, filter } => {
                let counts = db::count_open_events(&*connection, statuses, filter).await?;
                let total: i64 = counts.iter().map(|count| count.events).sum();
                let first = db::list_open_events(&*connection, statuses, filter, None, PREVIEWED).await?;
                (counts, usize::try_from(total)?, ids(&first))
            }
        };
        drop(connection);
        let judged = self.judge(db, &first).await?;
        let mut lines = vec![format!("{total} event(s) would be looked at:")];
        lines.extend(counts.iter().map(|count| {
            let code = count.code.as_deref().unwrap_or("without a code");
            let brand = count.brand.as_deref().unwrap_or("no brand");
            format!("  {} {} of {brand}: {code}", count.events, count.status)
        }));
        lines.push(format!("the first {}:", judged.len()));
        lines.extend(judged.iter().map(|event| format!("  {}", self.line(event, "would be "))));
        lines.push("nothing was changed; with --yes it is done".into());
        let value = json!({"preview": true, "events": total, "counts": counts, "first": judged});
        output::result(json, &value, &lines.join("\n"));
        Ok(End::Done)
    }

    /// Does it, and says what became of each event.
    pub(crate) async fn execute(&self, db: &Db, json: bool) -> anyhow::Result<End> {
        let mut counts = Counts::default();
        match &self.chosen {
            Chosen::Named(events) => {
                for (number, chunk) in events.chunks(self.chunk()).enumerate() {
                    self.pause_before(number).await;
                    self.apply(db, chunk, &mut counts, json).await?;
                }
            }
            Chosen::Matching { statuses, filter } => self.walk(db, statuses, filter, &mut counts, json).await?,
        }
        let Counts { changed, left_alone } = counts;
        let text = format!("{changed} event(s) {}, {left_alone} left alone", self.participle());
        output::one_of_many(json, &json!({"changed": changed, "left_alone": left_alone}), &text);
        Ok(if left_alone > 0 { End::SomeRejected } else { End::Done })
    }

    /// Goes through all that match, from the oldest on; what was left alone is behind and not met again.
    async fn walk(
        &self,
        db: &Db,
        statuses: &[&str],
        filter: &EventFilter,
        counts: &mut Counts,
        json: bool,
    ) -> anyhow::Result<()> {
        let matching = db::count_open_events(&*db.connection().await?, statuses, filter).await?;
        let total: i64 = matching.iter().map(|count| count.events).sum();
        let (mut last, mut noted): (Option<ListedEvent>, Instant) = (None, Instant::now());
        for number in 0.. {
            self.pause_before(number).await;
            let found =
                db::list_open_events(&*db.connection().await?, statuses, filter, last.as_ref(), self.chunk()).await?;
            self.apply(db, &ids(&found), counts, json).await?;
            if found.len() < self.chunk() {
                break;
            }
            last = found.into_iter().next_back();
            if noted.elapsed() >= LINE_PAUSE {
                noted = Instant::now();
                output::note(&format!("{} of {total} event(s)", counts.changed + counts.left_alone));
            }
        }
        Ok(())
    }

    async fn apply(&self, db: &Db, events: &[EventId], counts: &mut Counts, json: bool) -> anyhow::Result<()> {
        let connection = db.connection().await?;
        let changed = match self.change {
            Change::Cancel => db::cancel_events(&*connection, events).await,
            Change::Replay { mapping, lane } => db::replay_events(&*connection, events, mapping, lane).await,
        }
        .with_context(|| format!("{} event(s) are done; the same command does the rest", counts.changed))?;
        for event in in_order(changed, events) {
            match event.refusal {
                None => counts.changed += 1,
                Some(_) => counts.left_alone += 1,
            }
            output::one_of_many(json, &json!(event), &self.line(&event, ""));
        }
        Ok(())
    }

    async fn judge(&self, db: &Db, events: &[EventId]) -> Result<Vec<ChangedEvent>, DbFailure> {
        let connection = db.connection().await?;
        let judged = match self.change {
            Change::Cancel => db::judge_cancels(&*connection, events).await?,
            Change::Replay { mapping, .. } => db::judge_replays(&*connection, events, mapping).await?,
        };
        Ok(in_order(judged, events))
    }

    /// Events in one statement.
    fn chunk(&self) -> usize {
        let paced = self.pace.map(|pace| usize::try_from(pace / CHUNKS_A_MINUTE).unwrap_or(MOST_CHANGED));
        paced.unwrap_or(MOST_CHANGED).clamp(1, MOST_CHANGED)
    }

    /// The first chunk does not wait, and each later one for as long as the one before it is worth.
    async fn pause_before(&self, chunk: usize) {
        if let (Some(pace), 1..) = (self.pace, chunk) {
            let share = u32::try_from(self.chunk()).unwrap_or(u32::MAX);
            tokio::time::sleep(Duration::from_mins(1) * share / pace).await;
        }
    }

    fn line(&self, event: &ChangedEvent, would: &str) -> String {
        let id = event.event_id;
        let named = |other: Option<EventId>, before: &str| other.map(|id| format!("{before}{id}")).unwrap_or_default();
        match event.refusal {
            Some(refusal) => {
                format!("{id}  {would}left alone: {refusal}{}", named(event.other_event_id, ": see "))
            }
            None => format!("{id}  {would}{}{}", self.participle(), named(event.replay_id, " as ")),
        }
    }

    const fn participle(&self) -> &'static str {
        match self.change {
            Change::Cancel => "cancelled",
            Change::Replay { .. } => "replayed",
        }
    }
}

/// Answers in the order in which was asked.
fn in_order(mut answers: Vec<ChangedEvent>, asked: &[EventId]) -> Vec<ChangedEvent> {
    let places: HashMap<EventId, usize> = asked.iter().enumerate().map(|(place, event)| (*event, place)).collect();
    answers.sort_by_key(|answer| places.get(&answer.event_id).copied());
    answers
}

fn ids(events: &[ListedEvent]) -> Vec<EventId> {
    events.iter().map(|event| event.event_id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_a_sixth_of_what_a_minute_may_bring() {
        let chunk = |pace| Job { change: Change::Cancel, chosen: Chosen::Named(Vec::new()), pace }.chunk();
        assert_eq!([None, Some(1), Some(60), Some(6_000)].map(chunk), [500, 1, 10, 500]);
    }
}
