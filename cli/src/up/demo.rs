//! What a newcomer finds: a portal, a brand, a product, an active mapping, a token.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use hubferry::adapters::db::{self, Db, NewPortal};
use hubferry::model::ids::PortalId;
use hubferry::model::mapping::Targets;
use hubferry::model::plan::WriteMode;
use serde_json::json;

use super::place::Place;

/// The demo portal.
pub(super) const PORTAL: PortalId = PortalId(4711);

/// The simulator's access token of the demo portal.
pub(super) const HUBSPOT_TOKEN: &str = "simulator-token";

/// The client secret that the simulator signs its webhooks with.
pub(super) const WEBHOOK_SECRET: &str = "local-webhook-secret";

/// The bearer token for the API on this machine.
const API_TOKEN: &str = "local-dev-token";

const BRAND: &str = "acme";
const PRODUCT: &str = "newsletter";
const UNIQUE_PROPERTY: &str = "hubferry_contact_key";

/// Makes sure that everything is there. Safe to repeat.
pub(super) async fn ensure(db: &Db, place: &Place, call_limit: u32) -> anyhow::Result<()> {
    let connection = db.connection().await?;
    let portal = NewPortal {
        portal_id: PORTAL,
        name: "Demo".into(),
        call_limit,
        call_window: Duration::from_secs(10),
        write_mode: WriteMode::Batch,
        unique_property: UNIQUE_PROPERTY.into(),
        api_version: None,
    };
    db::ensure_portal(&*connection, &portal).await?;
    db::ensure_product(&*connection, PORTAL, BRAND, PRODUCT).await?;
    let targets: Targets = serde_json::from_value(json!({
        "contact_properties": {
            "firstname": "firstname", "lastname": "lastname", "company": "company",
            "phone": "phone", "city": "city", "country": "country",
        },
        "subscription_type": 1001,
        "segments": {"subscribed": {"add": ["101"]}, "unsubscribed": {"remove": ["101"]}},
    }))
    .context("the demo mapping is not readable")?;
    // An operator's own mapping stays: the demo one is active only until there is another.
    let pushed = db::push_first_mapping(&*connection, BRAND, PRODUCT, &targets).await?;
    if pushed {
        db::activate_mapping(&*connection, BRAND, PRODUCT, None).await?;
    }
    db::create_token(&*connection, "local development", &API_TOKEN.into(), &[BRAND.into()]).await?;
    // The unique property, at the simulator.
    crate::commands::portal::init_account(&portal, place.environment.clone()).await.map(drop)
}

/// The first request to try, ready to paste.
pub(super) fn first_request(api: SocketAddr) -> String {
    format!(
        r#"
Try:

  curl -sS http://{api}/v1/subscriptions \
    -H 'Authorization: Bearer {API_TOKEN}' -H 'Idempotency-Key: first-1' \
    -d '{{"brand": "{BRAND}", "product": "{PRODUCT}", "contact": {{"email": "ada@example.test", "properties": {{"firstname": "Ada"}}}}, "desired_state": "subscribed", "consent": {{"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "sign-up form"}}}}'
"#
    )
}
