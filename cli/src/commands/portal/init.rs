//! `hubferry portal init`

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use hubferry::adapters::budget::Budget;
use hubferry::adapters::db::{self, Db, NewPortal};
use hubferry::adapters::hubspot::{
    Account, CALL_TIME_LIMIT, Call, Class, HubSpot, HubSpotConfig, NewProperty, NewPropertyGroup, PropertyDefinition,
    Refusal, Sent,
};
use hubferry::config::Environment;
use hubferry::model::budget::{self, Bucket, CALL_WINDOW, Confirmation, Lane, Reserved};
use hubferry::model::ids::PortalId;
use hubferry::model::plan::WriteMode;
use hubferry::model::property_value::PropertyType;
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::super::CONNECTIONS;
use crate::arguments::PortalInitArgs;
use crate::end::{End, Misuse};
use crate::output;

/// Internal name of our property group.
const GROUP: &str = "hubferry";

/// Longest wait for a call's turn: a window that is full now is free by then.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// HubSpot first: a portal that is registered here has all that its first event needs.
pub(super) async fn init(args: PortalInitArgs, mut environment: Environment, json: bool) -> anyhow::Result<End> {
    let all = environment.clone();
    let database_url = environment.database_url();
    // Read here too, so that everything that is missing is named at once.
    let _ = (environment.redis_url(), environment.hubspot());
    environment.finish()?;
    let db = Db::new(&database_url, CONNECTIONS)?;
    let portal = portal(args);
    check_unchanged_property(&db, &portal).await?;
    let created = init_account(&portal, all).await?;
    db::ensure_portal(&*db.connection().await?, &portal).await?;

    let (id, property) = (portal.portal_id, &portal.unique_property);
    let existed = if created { "was created" } else { "was there already" };
    let text = format!(
        "portal {id} ({}) is registered: at most {} calls in {:?}; its property {property} {existed}",
        portal.name, portal.call_limit, portal.call_window
    );
    output::result(json, &json!({"portal": id, "unique_property": property, "created": created}), &text);
    Ok(End::Done)
}

/// Creates the property group and the unique property in the account, where they are missing. Returns whether the property
/// was created.
pub(crate) async fn init_account(portal: &NewPortal, mut environment: Environment) -> anyhow::Result<bool> {
    let (redis_url, settings) = (environment.redis_url(), environment.hubspot());
    environment.finish()?;
    let settings = settings.context("HubSpot's settings can't be read")?;
    let hubspot = HubSpot::new(HubSpotConfig { versions: settings.versions, ..HubSpotConfig::new(settings.url) })?;
    let account = hubspot.account(portal.portal_id, settings.tokens.of(portal.portal_id));
    let till = Till {
        budget: Budget::connect(redis_url.expose_secret())?,
        bucket: Bucket::calls(portal.portal_id, portal.call_limit, portal.call_window),
    };
    check_account(&account, &till).await?;
    create_group(&account, &till).await?;
    create_property(&account, &till, &portal.unique_property).await
}

fn portal(args: PortalInitArgs) -> NewPortal {
    let portal_id = PortalId(args.portal_id);
    NewPortal {
        portal_id,
        name: args.name.unwrap_or_else(|| format!("portal {portal_id}")),
        call_limit: args.call_limit,
        call_window: CALL_WINDOW,
        write_mode: if args.single { WriteMode::Single } else { WriteMode::Batch },
        unique_property: args.unique_property,
        api_version: args.api_version,
    }
}

/// Contacts are linked by the property that was named first; under another one they would be created a second time.
async fn check_unchanged_property(db: &Db, portal: &NewPortal) -> anyhow::Result<()> {
    match db::portal_settings(&*db.connection().await?, portal.portal_id).await? {
        Some(property) if property != portal.unique_property => {
            let advice = format!(
                "portal {} already finds its contacts by {property}: leave --unique-property {property}",
                portal.portal_id
            );
            Err(Misuse(advice).into())
        }
        _ => Ok(()),
    }
}

/// A token of another account would create the property there.
async fn check_account(account: &Account<'_>, till: &Till) -> anyhow::Result<()> {
    let details = till
        .pay(account.account_details())
        .await?
        .map_err(|refusal| refused("to say which account it is", &refusal))?;
    let wanted = account.portal_id();
    ensure!(
        details.portal_id == wanted,
        "the access token belongs to portal {}, not to {wanted}: set HUBFERRY_HUBSPOT_TOKEN_{wanted} to a token of that portal",
        details.portal_id
    );
    Ok(())
}

async fn create_group(account: &Account<'_>, till: &Till) -> anyhow::Result<()> {
    let group = NewPropertyGroup { name: GROUP.into(), label: "hubferry".into() };
    match till.pay(account.create_property_group(&group)).await? {
        Err(refusal) if refusal.class != Class::Conflict => Err(refused("to create the property group", &refusal)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Creates the property, or makes sure that the one of that name will do. Returns whether it was created.
async fn create_property(account: &Account<'_>, till: &Till, name: &str) -> anyhow::Result<bool> {
    let property = NewProperty {
        name: name.into(),
        label: "hubferry contact key".into(),
        group: GROUP.into(),
        description: "The key by which hubferry finds this contact. Leave it as it is.".into(),
        unique: true,
    };
    match till.pay(account.create_property(&property)).await? {
        Ok(created) => check_property(&created).map(|()| true),
        Err(refusal) if refusal.class == Class::Conflict => {
            let existing = till.pay(account.read_property(name)).await?;
            check_property(&existing.map_err(|refusal| refused("to show the property", &refusal))?).map(|()| false)
        }
        Err(refusal) => Err(refused("to create the property", &refusal)),
    }
}

fn check_property(property: &PropertyDefinition) -> anyhow::Result<()> {
    let name = &property.name;
    let advice = "name another one by --unique-property";
    ensure!(!property.archived, "HubSpot has a deleted property {name}: restore it there, or {advice}");
    ensure!(
        property.unique,
        "HubSpot has a property {name} whose values need not be unique, and uniqueness can't be added later: {advice}"
    );
    ensure!(property.kind == Some(PropertyType::String), "HubSpot's property {name} is no text: {advice}");
    Ok(())
}

fn refused(what: &str, refusal: &Refusal) -> anyhow::Error {
    anyhow::Error::msg(refusal.summary.clone()).context(format!("HubSpot refused {what}"))
}

/// Pays for calls: these count in the portal's window like everybody's.
pub(crate) struct Till {
    pub(crate) budget: Budget,
    pub(crate) bucket: Bucket,
}

impl Till {
    /// Makes the call in its turn, and settles it.
    pub(crate) async fn pay<T>(&self, call: impl Future<Output = Call<T>>) -> anyhow::Result<Result<T, Refusal>> {
        let answer = self.budget.reserve(&self.bucket, Lane::Interactive, 1, CALL_TIME_LIMIT, LONGEST_WAIT).await;
        let reservation =
            match answer.context("no call to HubSpot without Redis, which holds the portal's call budget")? {
                Reserved::Granted(reservation) => reservation,
                Reserved::Refused { retry_in, reason } => {
                    bail!("{}; try again in {}s", why(&reason), retry_in.as_secs() + 1)
                }
            };
        if !reservation.start_in.is_zero() {
            tokio::time::sleep(reservation.start_in).await;
            let confirmed = self.budget.confirm(&reservation).await?;
            ensure!(confirmed == Confirmation::Confirmed, "the portal's calls were stopped meanwhile; try again later");
        }
        let call = call.await;
        // What fails here stays held until its time is over, which is safe.
        match call.sent {
            Sent::Maybe => self.budget.finish(&reservation, &[call.finished_at.elapsed()]).await.map(drop)?,
            Sent::No => self.budget.release(&reservation).await.map(drop)?,
        }
        Ok(call.result)
    }
}

fn why(refusal: &budget::Refusal) -> String {
    match refusal {
        budget::Refusal::Full => "the portal's calls are used up for now".to_owned(),
        budget::Refusal::Frozen { reason } => format!("the portal's calls are stopped: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_of(change: impl FnOnce(&mut PropertyDefinition)) -> String {
        let mut property = PropertyDefinition {
            name: "hubferry_contact_key".into(),
            group: Some(GROUP.into()),
            kind: Some(PropertyType::String),
            field_type: Some("text".into()),
            unique: true,
            archived: false,
            options: Vec::new(),
        };
        change(&mut property);
        check_property(&property).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn an_existing_property_must_be_a_live_unique_text() {
        assert_eq!(fault_of(|_| ()), "");
        assert!(fault_of(|property| property.unique = false).contains("need not be unique"));
        assert!(fault_of(|property| property.archived = true).contains("deleted"));
        assert!(fault_of(|property| property.kind = None).contains("is no text"));
    }
}
