//! What an operator would have set up: portal, products, mappings, a token, the unique property.

use std::time::Duration;

use anyhow::Context as _;
use hubferry::adapters::db::{self, Db, NewPortal};
use hubferry::adapters::hubspot::{HubSpot, HubSpotConfig, NewProperty};
use hubferry::model::mapping::Targets;
use hubferry::model::plan::WriteMode;

use crate::people::{BRAND, PRODUCTS};
use crate::place::{HUBSPOT_TOKEN, Place};

/// The bearer token of the clients.
pub(crate) const API_TOKEN: &str = "chaos-token";

/// The property that holds our key.
pub(crate) const UNIQUE_PROPERTY: &str = "hubferry_contact_key";

pub(crate) async fn configure(place: &Place) -> anyhow::Result<()> {
    let pool = Db::new(&place.database_url.as_str().into(), 1)?;
    let connection = pool.connection().await?;
    let portal = NewPortal {
        portal_id: place.portal,
        name: "chaos".into(),
        call_limit: place.scenario.call_limit,
        call_window: place.scenario.window,
        write_mode: if place.scenario.single { WriteMode::Single } else { WriteMode::Batch },
        unique_property: UNIQUE_PROPERTY.into(),
        api_version: None,
    };
    db::ensure_portal(&*connection, &portal).await?;
    for product in &PRODUCTS {
        let targets: Targets = serde_json::from_value(product.targets())?;
        db::ensure_product(&*connection, place.portal, BRAND, product.name).await?;
        db::push_mapping(&*connection, BRAND, product.name, &targets).await?;
        db::activate_mapping(&*connection, BRAND, product.name, None).await?;
    }
    db::create_token(&*connection, "chaos", &API_TOKEN.into(), &[BRAND.into()]).await?;

    let hubspot = HubSpot::new(HubSpotConfig::new(place.simulator.base_url().parse()?))?;
    let property = NewProperty {
        name: UNIQUE_PROPERTY.into(),
        label: "Contact key".into(),
        group: "contactinformation".into(),
        description: "The contact's key".into(),
        unique: true,
    };
    let token = HUBSPOT_TOKEN.into();
    let made = hubspot.account(place.portal, &token).create_property(&property).await.result;
    made.ok().context("the simulator refuses the unique property")?;
    // The setup's own call leaves the window before the first paid one.
    tokio::time::sleep(place.scenario.window + Duration::from_millis(100)).await;
    Ok(())
}
