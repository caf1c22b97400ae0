//! Creating and updating one record.

use serde::Deserialize;

use super::{NewValues, read, render};
use crate::{
    account::Account,
    answer::{Answer, Handled},
    call::Call,
    change::Change,
};

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    properties: NewValues,
}

/// `POST …`: 409 when a unique value is taken. Associations are accepted and not kept.
pub(crate) fn create(account: &mut Account, call: &Call) -> Handled {
    let Body { properties } = call.json()?;
    let written = account.store_mut(call.object).write(None, &properties, call.now.at);
    let record = written.map_err(|refusal| refusal.into_error(call.object))?;
    let body = render::written(&record, properties.keys().map(String::as_str));
    account.note(Change::Record { object: call.object, record });
    Ok(Answer::json(201, body))
}

/// `PATCH …/{id}?idProperty=`: never creates, and 404 for an id that was merged away.
pub(crate) fn update(account: &mut Account, call: &Call) -> Handled {
    let Body { properties } = call.json()?;
    let store = account.store_mut(call.object);
    let id_property = call.query("idProperty");
    read::check_id_property(store, id_property)?;
    let found = read::find(store, call.param(0), id_property);
    let is_alias = call.param(0).parse().is_ok_and(|id| store.is_merged_away(id));
    let id = found.filter(|_| !is_alias).map(|record| record.id);
    let id = id.ok_or_else(|| read::missing(call, id_property))?;
    let written = store.write(Some(id), &properties, call.now.at);
    let record = written.map_err(|refusal| refusal.into_error(call.object))?;
    let body = render::written(&record, properties.keys().map(String::as_str));
    account.note(Change::Record { object: call.object, record });
    Ok(Answer::ok(body))
}
