//! Compares a mapping with the properties that its portal has, before an event has to find out.

use anyhow::Context as _;
use hubferry::adapters::budget::Budget;
use hubferry::adapters::db::{self, Connection};
use hubferry::adapters::hubspot::{HubSpot, HubSpotConfig, PropertyDefinition};
use hubferry::config::Environment;
use hubferry::model::budget::Bucket;
use hubferry::model::ids::PortalId;
use hubferry::model::mapping::{Origin, PropertySource, Targets};
use hubferry::model::property_value::PropertyType;
use secrecy::ExposeSecret as _;

use crate::commands::portal::Till;

/// How people edit a property that holds several options at once.
const CHECKBOX: &str = "checkbox";

/// What HubSpot would refuse, or take for something else; one call. `None` where no token of HubSpot is given.
///
/// Errors: HubSpot, Redis or the database could not be asked. That says nothing about the mapping.
pub(super) async fn compare(
    connection: &Connection,
    portal: PortalId,
    targets: &Targets,
    mut environment: Environment,
) -> anyhow::Result<Option<Vec<String>>> {
    let (redis_url, settings) = (environment.redis_url(), environment.hubspot());
    let (Ok(()), Some(settings)) = (environment.finish(), settings) else { return Ok(None) };
    let (limit, window) = db::portal_call_limit(&**connection, portal).await?.context("the portal is not known")?;
    let till =
        Till { budget: Budget::connect(redis_url.expose_secret())?, bucket: Bucket::calls(portal, limit, window) };
    let hubspot = HubSpot::new(HubSpotConfig { versions: settings.versions, ..HubSpotConfig::new(settings.url) })?;
    let account = hubspot.account(portal, settings.tokens.of(portal));
    let properties = till.pay(account.list_properties()).await?;
    let properties = properties.map_err(|refusal| anyhow::Error::msg(refusal.summary))?;
    Ok(Some(differences(targets, &properties)))
}

fn differences(targets: &Targets, properties: &[PropertyDefinition]) -> Vec<String> {
    let all = targets.contact_properties.iter();
    all.filter_map(|(name, source)| {
        let definition = properties.iter().find(|definition| definition.name == *name);
        Some(format!("contact_properties.{name}: {}", difference(source, definition)?))
    })
    .collect()
}

fn difference(source: &PropertySource, definition: Option<&PropertyDefinition>) -> Option<String> {
    let Some(definition) = definition else {
        return Some(
            "HubSpot has no such property of contacts; create it there, or events that map it end dead".into(),
        );
    };
    match (source.kind, definition.kind) {
        (Some(ours), Some(theirs)) if ours != theirs => {
            Some(format!("is of type {} at HubSpot, not {}", theirs.as_str(), ours.as_str()))
        }
        (None, Some(theirs)) if theirs != PropertyType::String => Some(format!(
            "is of type {0} at HubSpot; with \"type\": \"{0}\" values are sent as it takes them",
            theirs.as_str()
        )),
        _ => unknown_option(source, definition),
    }
}

/// A constant that is none of the property's options would be refused for every contact.
fn unknown_option(source: &PropertySource, definition: &PropertyDefinition) -> Option<String> {
    let Origin::Constant(text) = &source.origin else { return None };
    if definition.kind != Some(PropertyType::Enumeration) || definition.options.is_empty() {
        return None;
    }
    let text = source.encode(text).ok()?;
    let is_several = definition.field_type.as_deref() == Some(CHECKBOX);
    let wanted: Vec<&str> = if is_several { text.split(';').collect() } else { vec![&text] };
    let unknown =
        wanted.into_iter().find(|option| !option.is_empty() && !definition.options.iter().any(|o| o == option))?;
    Some(format!("has no option {unknown} at HubSpot"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn property(name: &str, kind: PropertyType, options: &[&str]) -> PropertyDefinition {
        PropertyDefinition {
            name: name.into(),
            group: None,
            kind: Some(kind),
            field_type: Some("select".into()),
            unique: false,
            archived: false,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
        }
    }

    fn told(source: &Value) -> String {
        let targets = serde_json::from_value(json!({"contact_properties": {"p": source}})).unwrap();
        let all = [property("p", PropertyType::Enumeration, &["a", "b"])];
        differences(&targets, &all).join(" ")
    }

    #[test]
    fn a_mapping_is_told_where_the_portal_is_another() {
        assert_eq!(told(&json!({"property": "x", "type": "enumeration"})), "");
        assert_eq!(told(&json!({"value": "a", "type": "enumeration"})), "");
        assert!(told(&json!({"value": "c", "type": "enumeration"})).contains("has no option c"));
        assert!(
            told(&json!({"property": "x", "type": "date"})).contains("is of type enumeration at HubSpot, not date")
        );
        assert!(told(&json!("x")).contains("with \"type\": \"enumeration\""));
        let missing = serde_json::from_value(json!({"contact_properties": {"q": "x"}})).unwrap();
        assert!(differences(&missing, &[])[0].starts_with("contact_properties.q: HubSpot has no such property"));
    }
}
