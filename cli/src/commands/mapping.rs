//! `hubferry mapping`

mod compare;

use std::path::Path;

use anyhow::Context as _;
use hubferry::adapters::db::{self, Connection, Db, EventFilter, ReplayedMapping};
use hubferry::config::Environment;
use hubferry::model::ids::PortalId;
use hubferry::model::mapping::Targets;
use hubferry::model::outcome::Class;
use hubferry::model::subscription::EventLane;
use serde::Deserialize;
use serde_json::{Value, json};

use super::events::change::{Change, Chosen, Job};
use super::{connection, database};
use crate::arguments::{DEAD, MappingCommand};
use crate::end::{End, Misuse};
use crate::output;

/// A mapping as people write it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MappingFile {
    portal: PortalId,
    brand: String,
    product: String,
    targets: Targets,
}

pub(crate) async fn run(command: MappingCommand, environment: Environment, json: bool) -> anyhow::Result<End> {
    match command {
        MappingCommand::Push { file } => push(&file, environment, json).await,
        MappingCommand::Activate { brand, product, version, release_dead: false, .. } => {
            let active = activate(&connection(environment).await?, &brand, &product, version).await?;
            output::result(json, &active_value(&brand, &product, active), &active_text(&brand, &product, active));
            Ok(End::Done)
        }
        MappingCommand::Activate { brand, product, version, yes, .. } => {
            activate_and_release(&database(environment)?, &brand, &product, version, yes, json).await
        }
    }
}

async fn push(path: &Path, environment: Environment, json: bool) -> anyhow::Result<End> {
    let text = std::fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
    let mapping = parse(&text).map_err(|fault| Misuse(format!("{}: {fault}", path.display())))?;
    let MappingFile { portal, brand, product, targets } = &mapping;
    let connection = connection(environment.clone()).await?;
    check_owner(&connection, *portal, brand).await?;
    db::ensure_product(&*connection, *portal, brand, product).await?;
    let pushed = db::push_mapping(&*connection, brand, product, targets).await?;
    let version = pushed.version;
    let text = if pushed.existed {
        format!("{brand}/{product} is unchanged: version {version} says the same")
    } else {
        format!(
            "{brand}/{product} has a new version {version}; `hubferry mapping activate {brand} {product}` makes it the active one"
        )
    };
    let mut value = json!({"brand": brand, "product": product, "version": version, "unchanged": pushed.existed});
    match compare::compare(&connection, *portal, targets, environment).await {
        Ok(Some(warnings)) => {
            for warning in &warnings {
                output::note(&format!("warning: {warning}"));
            }
            value["warnings"] = json!(warnings);
        }
        Ok(None) => {}
        Err(error) => output::note(&format!("the mapping could not be compared with HubSpot: {error:#}")),
    }
    output::result(json, &value, &text);
    Ok(End::Done)
}

/// A brand stays with the portal that it was created for: its contacts are linked to records there.
async fn check_owner(connection: &Connection, portal: PortalId, brand: &str) -> anyhow::Result<()> {
    if db::portal_settings(&**connection, portal).await?.is_none() {
        let advice = format!("portal {portal} is not known here: run `hubferry portal init {portal}` first");
        return Err(Misuse(advice).into());
    }
    match db::brand_portal(&**connection, brand).await? {
        Some(owner) if owner != portal => {
            Err(Misuse(format!("brand {brand} belongs to portal {owner}, and a brand stays with its portal")).into())
        }
        _ => Ok(()),
    }
}

async fn activate(connection: &Connection, brand: &str, product: &str, version: Option<i32>) -> anyhow::Result<i32> {
    db::activate_mapping(&**connection, brand, product, version).await?.ok_or_else(|| {
        let wanted = version.map_or_else(|| "a mapping".to_owned(), |version| format!("a version {version}"));
        Misuse(format!("{brand}/{product} does not have {wanted}: run `hubferry mapping push` first")).into()
    })
}

/// The second half of a repair: what died of the old version goes on under the new one.
async fn activate_and_release(
    db: &Db,
    brand: &str,
    product: &str,
    version: Option<i32>,
    yes: bool,
    json: bool,
) -> anyhow::Result<End> {
    let filter = EventFilter {
        brand: Some(brand.to_owned()),
        product: Some(product.to_owned()),
        class: Some(Class::Configuration.name().to_owned()),
        unreplayed: true,
        ..EventFilter::default()
    };
    let chosen = Chosen::Matching { statuses: vec![DEAD], filter };
    let replay = |mapping| Change::Replay { mapping, lane: Some(EventLane::Bulk) };
    if !yes {
        output::note(&format!(
            "{brand}/{product}: {} would become the active one",
            version.map_or_else(|| "the newest version".to_owned(), |version| format!("version {version}"))
        ));
        // The version is not active yet, so nothing can be said about it.
        let job = Job { change: replay(ReplayedMapping::Same), chosen, pace: None };
        return job.preview(db, json).await;
    }
    let active = activate(&db.connection().await?, brand, product, version).await?;
    output::one_of_many(json, &active_value(brand, product, active), &active_text(brand, product, active));
    Job { change: replay(ReplayedMapping::Current), chosen, pace: None }.execute(db, json).await
}

fn active_value(brand: &str, product: &str, version: i32) -> Value {
    json!({"brand": brand, "product": product, "version": version})
}

fn active_text(brand: &str, product: &str, version: i32) -> String {
    format!("{brand}/{product}: version {version} is the active one")
}

/// Reads a mapping; the fault says where and what.
fn parse(text: &[u8]) -> Result<MappingFile, String> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let mapping: MappingFile = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.into_inner();
        if path == "." { cause.to_string() } else { format!("{path}: {cause}") }
    })?;
    reader.end().map_err(|error| error.to_string())?;
    for (field, name) in [("brand", &mapping.brand), ("product", &mapping.product)] {
        if !is_name(name) {
            return Err(format!("{field} must be 1 to 63 of a-z 0-9 _ - and begin with a letter or digit"));
        }
    }
    mapping.targets.check().map_err(|fault| format!("targets.{fault}"))?;
    Ok(mapping)
}

/// The rule of the tables of brands and products.
fn is_name(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=63).contains(&name.len())
        && name.starts_with(is_first)
        && name.chars().all(|c| is_first(c) || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(json: &str) -> String {
        parse(json.as_bytes()).unwrap_err()
    }

    #[test]
    fn the_example_is_a_mapping() {
        let example = include_bytes!("../../../docs/examples/newsletter.mapping.json");
        let mapping = parse(example).unwrap();
        assert_eq!(
            (mapping.portal, mapping.brand.as_str(), mapping.product.as_str()),
            (PortalId(4711), "acme", "newsletter")
        );
    }

    #[test]
    fn faults_say_where_they_are() {
        let fault_of = |targets: &str| {
            fault(&format!(r#"{{"portal": 4711, "brand": "acme", "product": "news", "targets": {targets}}}"#))
        };
        assert!(fault_of(r#"{"segment": {}}"#).starts_with("targets.segment: unknown field `segment`"));
        assert!(fault_of(r#"{"contact_properties": {"city": 1}}"#).starts_with("targets.contact_properties.city: "));
        assert!(
            fault_of(r#"{"contact_properties": {"email": "email"}}"#)
                .starts_with("targets.contact_properties.email is")
        );
        assert!(fault(r#"{"portal": 1, "brand": "Acme", "product": "a", "targets": {}}"#).starts_with("brand must be"));
        assert!(fault(r#"{"portal": 1, "brand": "a"}"#).contains("missing field `product`"));
        assert!(fault(r#"{"portal": 1, "brand": "a", "product": "b", "targets": {}} x"#).contains("trailing"));
    }
}
