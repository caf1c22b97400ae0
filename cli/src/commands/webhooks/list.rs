//! `hubferry webhooks list`

use comfy_table::{Table, presets};
use hubferry::adapters::db::{self, ListedNotification};
use hubferry::config::Environment;
use serde_json::json;

use super::super::connection;
use crate::arguments::WebhooksListArgs;
use crate::end::End;
use crate::output;

const HEADERS: [&str; 8] = ["delivery", "received", "portal", "type", "object", "property", "state", "reason"];

pub(super) async fn run(args: &WebhooksListArgs, environment: Environment, json: bool) -> anyhow::Result<End> {
    let filter = args.filter.to_filter(args.since);
    let found = db::list_notifications(&*connection(environment).await?, &filter, args.limit.into()).await?;
    let text = if found.is_empty() { "no notifications match".to_owned() } else { table(&found) };
    output::result(json, &json!({"notifications": found}), &text);
    Ok(End::Done)
}

fn table(notifications: &[ListedNotification]) -> String {
    let mut table = Table::new();
    // A line a notification and none between them, so that other programs can take the list apart.
    table.load_style(presets::NOTHING).set_header(HEADERS).add_rows(notifications.iter().map(row));
    table.to_string()
}

fn row(it: &ListedNotification) -> [String; 8] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let object = it.object_type.as_ref().zip(it.object_id).map(|(object, id)| format!("{object}/{id}"));
    [
        it.delivery_id.to_string(),
        format!("{:.0}", it.received_at),
        or_dash(it.portal_id.map(|portal| portal.to_string())),
        or_dash(it.subscription_type.clone()),
        or_dash(object),
        or_dash(it.property_name.clone()),
        it.state.clone(),
        or_dash(it.reason.clone()),
    ]
}
