//! `hubferry contacts`

use hubferry::adapters::db::{self, Connection, EraseFailure};
use hubferry::config::Environment;
use hubferry::model::ids::ContactKey;
use serde_json::json;

use super::connection;
use crate::arguments::ContactsCommand;
use crate::end::{End, Misuse};
use crate::output;

pub(crate) async fn run(command: ContactsCommand, environment: Environment, json: bool) -> anyhow::Result<End> {
    let ContactsCommand::Erase { key, yes } = command;
    let key = ContactKey(key);
    let connection = connection(environment).await?;
    if yes { erase(&connection, &key, json).await } else { preview(&connection, &key, json).await }
}

async fn erase(connection: &Connection, key: &ContactKey, json: bool) -> anyhow::Result<End> {
    let erased = match db::erase_contact(&**connection, key, None, None).await {
        Err(EraseFailure::UnknownContact) => return Err(unknown(key)),
        other => other?,
    };
    let heading = if erased.replayed {
        format!("contact {key} was erased before, at {:.0}", erased.erased_at)
    } else {
        format!("contact {key} is erased here; HubSpot is told by {} event(s)", erased.events.len())
    };
    let events = erased.events.iter();
    let events = events.map(|event| format!("  {} portal {}: {}", event.event_id, event.portal_id, event.status));
    let text = [heading].into_iter().chain(events).collect::<Vec<_>>().join("\n");
    let value = json!({
        "contact_key": key.0, "erased_at": erased.erased_at, "replayed": erased.replayed, "events": erased.events,
    });
    output::result(json, &value, &text);
    Ok(End::Done)
}

async fn preview(connection: &Connection, key: &ContactKey, json: bool) -> anyhow::Result<End> {
    let found = db::preview_erasure(&**connection, key).await?.ok_or_else(|| unknown(key))?;
    let text = if let Some(at) = found.erased_at {
        format!("contact {key} was erased before, at {at:.0}")
    } else {
        let portals: Vec<String> = found.portals.iter().map(ToString::to_string).collect();
        format!(
            "contact {key} of {} would be erased: {} event(s) stopped, and its record deleted for good in portal {}\n\
             nothing was changed; with --yes it is done, and can't be undone",
            found.brands.join(", "),
            found.unfinished_events,
            portals.join(", "),
        )
    };
    output::result(json, &json!({"preview": true, "contact_key": key.0, "contact": found}), &text);
    Ok(End::Done)
}

fn unknown(key: &ContactKey) -> anyhow::Error {
    Misuse(format!("there is no contact {key}; `hubferry events show` tells the key of an event's contact")).into()
}
