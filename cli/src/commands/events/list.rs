//! `hubferry events list`

use comfy_table::{Table, presets};
use hubferry::adapters::db::{self, Connection, ListedEvent};
use serde_json::json;

use crate::arguments::{DEAD, ENDED, ListArgs, UNFINISHED};
use crate::end::End;
use crate::output;

const HEADERS: [&str; 9] =
    ["event", "status", "brand/product", "sequence", "lane", "code", "attempts", "accepted", "due or ended"];

pub(super) async fn run(connection: &Connection, args: &ListArgs, json: bool) -> anyhow::Result<End> {
    let events = find(connection, args).await?;
    let text = if events.is_empty() { "no events match".to_owned() } else { table(&events) };
    output::result(json, &json!({"events": events}), &text);
    Ok(End::Done)
}

/// What waits or is dead first, the oldest on top; then what ended, the newest on top.
async fn find(connection: &Connection, args: &ListArgs) -> anyhow::Result<Vec<ListedEvent>> {
    let wanted = |status: &&'static str| args.statuses.iter().any(|wanted| wanted == status);
    let open = UNFINISHED.into_iter().chain([DEAD]);
    let open: Vec<&str> = if args.statuses.is_empty() { open.collect() } else { open.filter(wanted).collect() };
    let ended: Vec<&str> = ENDED.into_iter().filter(wanted).collect();
    // Whoever asks for nothing in particular wants to see what needs attention.
    let filter = args.filter.to_filter(args.statuses.is_empty());
    let most = usize::from(args.limit);
    let mut events = Vec::new();
    if !open.is_empty() {
        events = db::list_open_events(&**connection, &open, &filter, None, most).await?;
    }
    if !ended.is_empty() && events.len() < most {
        events.extend(db::list_finished_events(&**connection, &ended, &filter, most - events.len()).await?);
    }
    Ok(events)
}

fn table(events: &[ListedEvent]) -> String {
    let mut table = Table::new();
    // A line an event and none between them, so that other programs can take the list apart.
    table.load_style(presets::NOTHING).set_header(HEADERS).add_rows(events.iter().map(row));
    table.to_string()
}

fn row(event: &ListedEvent) -> [String; 9] {
    let status = if event.replayed_as.is_some() { format!("{}, replayed", event.status) } else { event.status.clone() };
    let brand = event.brand.as_deref().unwrap_or("-");
    let place = event.product.as_ref().map_or_else(|| brand.to_owned(), |product| format!("{brand}/{product}"));
    [
        event.event_id.to_string(),
        status,
        place,
        event.sequence.map_or_else(|| "-".to_owned(), |sequence| sequence.to_string()),
        event.lane.clone(),
        event.code.clone().unwrap_or_else(|| "-".to_owned()),
        event.process_attempts.to_string(),
        format!("{:.0}", event.accepted_at),
        event.due_at.or(event.finished_at).map_or_else(|| "-".to_owned(), |at| format!("{at:.0}")),
    ]
}
