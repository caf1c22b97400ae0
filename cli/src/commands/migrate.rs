//! `hubferry migrate`

use hubferry::adapters::db;
use hubferry::config::Environment;
use serde_json::json;

use crate::end::End;
use crate::output;

pub(crate) async fn run(mut environment: Environment, json: bool) -> anyhow::Result<End> {
    let url = environment.database_url();
    environment.finish()?;
    let summary = db::migrate(&url).await?;
    let version = summary.version.unwrap_or_default();
    let mut lines: Vec<String> = summary.applied.iter().map(|name| format!("applied {name}")).collect();
    if lines.is_empty() {
        lines.push("nothing to apply".into());
    }
    lines.push(format!("the schema is at version {version}"));
    output::result(json, &json!({"applied": summary.applied, "version": summary.version}), &lines.join("\n"));
    Ok(End::Done)
}
