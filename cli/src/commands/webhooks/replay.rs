//! `hubferry webhooks replay`

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hubferry::adapters::db::{self, Db, NotificationCount, NotificationFilter, ReplayPlace, UnreadableNotification};
use hubferry::clock;
use hubferry::config::Environment;
use hubferry::model::notification::{Notification, Sender, parse};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use uuid::Uuid;

use super::super::database;
use crate::arguments::WebhooksReplayArgs;
use crate::end::End;
use crate::output;

/// Deliveries in one statement: up to 5,000 notifications, and no lock for long.
const PAGE: u32 = 50;

/// A paced replay makes so many pages a minute, so that it is spread evenly.
const PAGES_A_MINUTE: u32 = 6;

/// Time between two lines about how far it is, when nobody looks at a terminal.
const LINE_PAUSE: Duration = Duration::from_secs(5);

/// What was taken up.
#[derive(Default)]
struct Counts {
    deliveries: i64,
    notifications: i64,
    events: i64,
}

pub(super) async fn run(args: &WebhooksReplayArgs, environment: Environment, json: bool) -> anyhow::Result<End> {
    let filter = args.filter.to_replay(args.since);
    let db = database(environment)?;
    let matching = db::count_notifications(&*db.connection().await?, &filter).await?;
    if !args.yes {
        preview(&matching, json);
        return Ok(End::Done);
    }
    let expected = matching.iter().map(|count| count.notifications).sum();
    let counts = replay(&db, &filter, args.pace, expected).await?;
    let Counts { deliveries, notifications, events } = counts;
    let text =
        format!("{notifications} notification(s) of {deliveries} delivery(s) are taken up again, by {events} event(s)");
    output::result(json, &json!({"deliveries": deliveries, "notifications": notifications, "events": events}), &text);
    Ok(End::Done)
}

fn preview(matching: &[NotificationCount], json: bool) {
    let total: i64 = matching.iter().map(|count| count.notifications).sum();
    let mut lines = vec![format!("{total} notification(s) would be looked at:")];
    lines.extend(matching.iter().map(|count| {
        let kind = count.subscription_type.as_deref().unwrap_or("without a type");
        let reason = count.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        format!("  {} {kind} {}{reason}, in {} delivery(s)", count.notifications, count.state, count.deliveries)
    }));
    lines.push("nothing was changed; with --yes it is done".into());
    output::result(json, &json!({"preview": true, "notifications": total, "counts": matching}), &lines.join("\n"));
}

/// Page by page, from the oldest delivery on. A run that was stopped may be run again: what it took up is not settled yet, or
/// comes out the same.
async fn replay(db: &Db, filter: &NotificationFilter, pace: Option<u32>, expected: i64) -> anyhow::Result<Counts> {
    let (id, mut meter, mut counts) = (Uuid::new_v4(), Meter::new(expected), Counts::default());
    let deliveries = pace.map_or(PAGE, |pace| (pace / PAGES_A_MINUTE).clamp(1, PAGE));
    let mut behind = None;
    for number in 0_u64.. {
        if let (Some(pace), 1..) = (pace, number) {
            tokio::time::sleep(Duration::from_mins(1) * deliveries / pace).await;
        }
        let done = take_up(db, filter, behind, deliveries.into(), id).await;
        let done = done.with_context(|| {
            format!("{} notification(s) are taken up; the same command does the rest", counts.notifications)
        })?;
        counts.deliveries += done.deliveries;
        counts.notifications += done.notifications;
        counts.events += done.events;
        meter.update(counts.notifications);
        behind = done.end;
        if behind.is_none() {
            break;
        }
    }
    meter.clear();
    Ok(counts)
}

async fn take_up(
    db: &Db,
    filter: &NotificationFilter,
    place: Option<ReplayPlace>,
    page: i64,
    id: Uuid,
) -> anyhow::Result<db::ReplayedPage> {
    let connection = db.connection().await?;
    let unreadable = db::unreadable_notifications(&*connection, filter, place, page).await?;
    let parsed: Vec<(Vec<u8>, Notification)> = unreadable.into_iter().filter_map(read_again).collect();
    if !parsed.is_empty() {
        db::take_up_parsed(&*connection, &parsed).await?;
    }
    Ok(db::replay_notifications(&*connection, filter, place, page, id).await?)
}

/// What this version can read of it, if anything.
fn read_again(it: UnreadableNotification) -> Option<(Vec<u8>, Notification)> {
    if !it.raw.trim_start().starts_with('{') {
        return None;
    }
    let sender = Sender { app_id: it.app_id, portal_id: None };
    let read = parse(it.raw.as_bytes(), sender, clock::now().as_millisecond()).ok()?;
    let notification = read.into_iter().next()?.ok()?;
    Some((it.key, notification))
}

/// How far it is: a bar for a person, a line every few seconds for a log.
struct Meter {
    bar: Option<ProgressBar>,
    expected: i64,
    last_line: Instant,
}

impl Meter {
    fn new(expected: i64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(expected.unsigned_abs());
            let style = ProgressStyle::with_template("{bar:30} {percent:>3}% of {len} notifications  {eta} left");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar, expected, last_line: Instant::now() }
    }

    fn update(&mut self, notifications: i64) {
        if let Some(bar) = &self.bar {
            bar.set_position(notifications.unsigned_abs());
        } else if self.last_line.elapsed() >= LINE_PAUSE {
            self.last_line = Instant::now();
            output::note(&format!("{notifications} of {} notification(s)", self.expected));
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
