//! Routes under `/__simulator` and the page at `/`: they need no token and count nowhere.

pub(crate) mod play;
mod view;

use axum::http::{Method, Uri};
use jiff::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    account::Account,
    answer::{Answer, ApiError, Handled},
    clock::Moment,
    faults::Fault,
    ids::{PortalId, RecordId},
    objects::NewValues,
    page,
    world::{SharedWorld, World},
};

const PREFIX: &str = "/__simulator/";

pub(crate) fn is_admin(path: &str) -> bool {
    path == "/" || path.starts_with(PREFIX)
}

/// Answers an admin route.
pub(crate) fn answer(world: &SharedWorld, method: &Method, uri: &Uri, body: &[u8]) -> Answer {
    let mut world = world.lock();
    let request = Request { uri, body };
    let route = uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let handled = match (method.as_str(), route) {
        ("GET", "") => Ok(Answer::html(200, page::HTML)),
        ("GET", "stats") => Ok(Answer::ok(json!(world.stats()))),
        ("POST", "stats/reset") => {
            world.reset_stats();
            Ok(Answer::no_content())
        }
        ("GET", "faults") => Ok(Answer::ok(json!(world.faults.all()))),
        ("POST", "faults") => add_faults(&mut world, &request),
        ("DELETE", "faults") => {
            world.faults.clear();
            Ok(Answer::no_content())
        }
        ("GET", "webhooks") => Ok(Answer::ok(json!(world.webhooks.stats()))),
        ("POST", "webhooks") => send_webhooks(&mut world, &request),
        ("DELETE", "webhooks") => {
            world.webhooks.switch_off();
            Ok(Answer::no_content())
        }
        ("POST", "clock") => advance(&mut world, &request),
        ("GET", "state") => view::state(&world, &request),
        ("GET", "contacts") => view::contacts(&world, &request),
        ("GET", "live") => view::live(&mut world, &request),
        ("POST", "contacts") => seed(&mut world, &request),
        ("POST", "opt-out") => opt_out(&mut world, &request),
        ("POST", "opt-in") => opt_in(&mut world, &request),
        ("POST", "merge") => merge(&mut world, &request),
        ("POST", "delete") => delete(&mut world, &request),
        _ => Err(ApiError::not_found("the simulator has no such route")),
    };
    handled.unwrap_or_else(Answer::from)
}

/// What an admin route looks at.
pub(crate) struct Request<'a> {
    uri: &'a Uri,
    body: &'a [u8],
}

impl Request<'_> {
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_slice(self.body).map_err(|error| ApiError::invalid(error.to_string()))
    }

    pub(crate) fn query(&self, name: &str) -> Option<String> {
        let query = self.uri.query().unwrap_or_default().as_bytes();
        let mut pairs = url::form_urlencoded::parse(query);
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// The account of `?portal=`, else the first one.
    pub(crate) fn account<'w>(&self, world: &'w World) -> Result<&'w Account, ApiError> {
        let portal = self.query("portal").and_then(|text| text.parse().ok());
        let portal = portal.unwrap_or(world.accounts[0].settings.portal_id);
        world.account(portal).ok_or_else(unknown_account)
    }
}

fn unknown_account() -> ApiError {
    ApiError::not_found("no such account is configured")
}

/// One fault or a list of them.
fn add_faults(world: &mut World, request: &Request<'_>) -> Handled {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        Many(Vec<Fault>),
        One(Box<Fault>),
    }
    let faults = match request.json()? {
        OneOrMany::Many(faults) => faults,
        OneOrMany::One(fault) => vec![*fault],
    };
    let ids: Vec<_> = faults.into_iter().map(|fault| world.faults.add(fault)).collect();
    Ok(Answer::json(201, json!({ "ids": ids })))
}

fn send_webhooks(world: &mut World, request: &Request<'_>) -> Handled {
    let config = request.json()?;
    let World { webhooks, accounts, .. } = world;
    webhooks.switch_on(config, accounts);
    Ok(Answer::no_content())
}

fn advance(world: &mut World, request: &Request<'_>) -> Handled {
    #[derive(Deserialize)]
    struct Body {
        advance_ms: u64,
    }
    let Body { advance_ms } = request.json()?;
    world.clock.advance(std::time::Duration::from_millis(advance_ms));
    Ok(Answer::no_content())
}

/// Somebody's act: the body may name the account, and an instant in the past.
fn act(
    world: &mut World,
    portal: Option<PortalId>,
    act: impl FnOnce(&mut Account, Moment) -> Result<Value, ApiError>,
) -> Handled {
    let portal = portal.unwrap_or(world.accounts[0].settings.portal_id);
    let done = play::act(world, portal, act);
    done.map(Answer::ok).map_err(|error| ApiError::invalid(format!("{error:#}")))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Choice {
    email: String,
    #[serde(default)]
    subscription_id: Option<u64>,
    #[serde(default)]
    at: Option<Timestamp>,
    #[serde(default)]
    portal: Option<PortalId>,
}

fn opt_out(world: &mut World, request: &Request<'_>) -> Handled {
    let choice: Choice = request.json()?;
    act(world, choice.portal, |account, now| {
        let at = choice.at.unwrap_or(now.at);
        play::opt_out(account, &choice.email, choice.subscription_id, at).map(|()| json!({}))
    })
}

fn opt_in(world: &mut World, request: &Request<'_>) -> Handled {
    let choice: Choice = request.json()?;
    let id = choice.subscription_id.ok_or_else(|| ApiError::invalid("subscriptionId is required"))?;
    act(world, choice.portal, |account, now| {
        let at = choice.at.unwrap_or(now.at);
        play::opt_in(account, &choice.email, id, at).map(|()| json!({}))
    })
}

/// One contact `{properties}`, or `{contacts: [{properties}, …]}`.
fn seed(world: &mut World, request: &Request<'_>) -> Handled {
    #[derive(Deserialize)]
    struct Body {
        #[serde(default)]
        properties: NewValues,
        #[serde(default)]
        contacts: Vec<Contact>,
        #[serde(default)]
        portal: Option<PortalId>,
    }
    #[derive(Deserialize)]
    struct Contact {
        properties: NewValues,
    }
    let body: Body = request.json()?;
    let mut all: Vec<NewValues> = body.contacts.into_iter().map(|contact| contact.properties).collect();
    if !body.properties.is_empty() {
        all.push(body.properties);
    }
    act(world, body.portal, |account, now| {
        let seeded = all.iter().map(|properties| play::seed_contact(account, properties, now.at));
        let ids: Result<Vec<RecordId>, ApiError> = seeded.collect();
        let ids: Vec<String> = ids?.iter().map(ToString::to_string).collect();
        Ok(json!({ "ids": ids }))
    })
}

fn merge(world: &mut World, request: &Request<'_>) -> Handled {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Body {
        primary_object_id: String,
        object_id_to_merge: String,
        #[serde(default)]
        portal: Option<PortalId>,
    }
    let body: Body = request.json()?;
    let (primary, other) = (record_id(&body.primary_object_id)?, record_id(&body.object_id_to_merge)?);
    act(world, body.portal, |account, now| {
        let survivor = play::merge(account, primary, other, now.at)?;
        Ok(json!({ "newObjectId": survivor.to_string() }))
    })
}

fn delete(world: &mut World, request: &Request<'_>) -> Handled {
    #[derive(Deserialize)]
    struct Body {
        id: String,
        #[serde(default)]
        portal: Option<PortalId>,
    }
    let body: Body = request.json()?;
    let id = record_id(&body.id)?;
    act(world, body.portal, |account, now| play::delete(account, id, now.at).map(|()| json!({})))
}

fn record_id(text: &str) -> Result<RecordId, ApiError> {
    text.parse().map_err(|_| ApiError::invalid("record ids are numeric"))
}
