//! Which handler answers which path; the dated and the v3/v4 forms of a path are one route.

use axum::http::{Method, Uri};

use crate::{
    account::Account, answer::Handled, call::Call, limits::Meter, lists, objects, objects::ObjectType, preferences,
    properties, usage,
};

type Handler = fn(&mut Account, &Call) -> Handled;

/// The families of HubSpot's API that the simulator answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Area {
    Objects,
    Properties,
    Lists,
    Preferences,
    AccountInfo,
}

struct Route {
    method: &'static str,
    area: Area,
    /// Segments after the area's prefix; `:` stands for a variable one.
    path: &'static str,
    verb: &'static str,
    handler: Handler,
}

const fn route(method: &'static str, area: Area, path: &'static str, verb: &'static str, handler: Handler) -> Route {
    Route { method, area, path, verb, handler }
}

/// Fixed segments stand before variable ones.
const ROUTES: &[Route] = {
    use Area::{AccountInfo, Lists, Objects, Preferences, Properties};
    &[
        route("POST", Objects, "batch/upsert", "batch_upsert", objects::batch_upsert),
        route("POST", Objects, "batch/create", "batch_create", objects::batch_create),
        route("POST", Objects, "batch/update", "batch_update", objects::batch_update),
        route("POST", Objects, "batch/read", "batch_read", objects::batch_read),
        route("POST", Objects, "batch/archive", "batch_archive", objects::batch_archive),
        route("POST", Objects, "search", SEARCH, objects::search),
        route("POST", Objects, "merge", "merge", objects::merge),
        route("POST", Objects, "gdpr-delete", "gdpr_delete", objects::gdpr_delete),
        route("GET", Objects, "", "list", objects::list),
        route("POST", Objects, "", "create", objects::create),
        route("GET", Objects, ":", "get", objects::get),
        route("PATCH", Objects, ":", "update", objects::update),
        route("DELETE", Objects, ":", "delete", objects::delete),
        route("GET", Properties, "", "list", properties::list),
        route("POST", Properties, "", "create", properties::create),
        route("GET", Properties, "groups", "list_groups", properties::list_groups),
        route("POST", Properties, "groups", "create_group", properties::create_group),
        route("GET", Properties, "groups/:", "get_group", properties::get_group),
        route("GET", Properties, ":", "get", properties::get),
        route("POST", Preferences, "statuses/batch/read", "batch_read", preferences::batch_read),
        route("POST", Preferences, "statuses/batch/write", "batch_write", preferences::batch_write),
        route(
            "POST",
            Preferences,
            "statuses/batch/unsubscribe-all/read",
            "batch_read_all",
            preferences::batch_read_everything,
        ),
        route(
            "POST",
            Preferences,
            "statuses/batch/unsubscribe-all",
            "batch_unsubscribe_all",
            preferences::batch_write_everything,
        ),
        route("GET", Preferences, "statuses/:/unsubscribe-all", "read_all", preferences::read_everything),
        route("POST", Preferences, "statuses/:/unsubscribe-all", "unsubscribe_all", preferences::write_everything),
        route("GET", Preferences, "definitions", "definitions", preferences::definitions),
        route("GET", Preferences, "statuses/:", "read", preferences::read),
        route("POST", Preferences, "statuses/:", "write", preferences::write),
        route("PUT", Lists, ":/memberships/add", "add_members", lists::add),
        route("PUT", Lists, ":/memberships/remove", "remove_members", lists::remove),
        route("PUT", Lists, ":/memberships/add-and-remove", "change_members", lists::add_and_remove),
        route("GET", Lists, ":/memberships", "members", lists::members),
        route("GET", Lists, "object-type-id/:/name/:", "by_name", lists::by_name),
        route("POST", Lists, "search", "find", lists::search),
        route("POST", Lists, "", "create", lists::create),
        route("GET", Lists, ":", "get", lists::get),
        route("DELETE", Lists, ":", "delete", lists::delete),
        route("GET", AccountInfo, "api-usage/daily/private-apps", "daily_usage", usage::daily),
        route("GET", AccountInfo, "details", "details", usage::details),
    ]
};

/// The one verb that has a window of its own.
const SEARCH: &str = "search";

/// The way of a call: its name in faults and statistics, the limit it counts against, and its handler.
pub(crate) struct Way {
    pub(crate) endpoint: String,
    pub(crate) meter: Meter,
    pub(crate) target: Option<Target>,
}

/// A handler and what the path says.
pub(crate) struct Target {
    pub(crate) handler: Handler,
    pub(crate) object: ObjectType,
    pub(crate) params: Vec<String>,
    pub(crate) raw_tail: String,
}

/// Finds the way of a call; a path without a handler still counts, under the name `unknown`.
pub(crate) fn find(method: &Method, uri: &Uri) -> Way {
    let unknown = Way { endpoint: "unknown".to_owned(), meter: Meter::Burst, target: None };
    let raw: Vec<&str> = uri.path().split('/').skip(1).collect();
    let Some(Prefix { area, object, rest }) = prefix(&raw) else {
        return unknown;
    };
    let matching = |route: &&Route| route.area == area && route.method == method.as_str();
    for route in ROUTES.iter().filter(matching) {
        if let Some(params) = match_path(route.path, rest) {
            return Way {
                endpoint: format!("{}.{}", area_name(area, object), route.verb),
                meter: if route.verb == SEARCH { Meter::Search } else { Meter::Burst },
                target: Some(Target { handler: route.handler, object, params, raw_tail: raw_tail(uri) }),
            };
        }
    }
    unknown
}

struct Prefix<'a> {
    area: Area,
    object: ObjectType,
    rest: &'a [&'a str],
}

/// Strips area, version and object type. The version stands before or behind the area's name.
fn prefix<'a>(raw: &'a [&'a str]) -> Option<Prefix<'a>> {
    let (area, rest) = match raw {
        ["crm", "objects", version, rest @ ..] if is_dated(version) => (Area::Objects, rest),
        ["crm", "v3", "objects", rest @ ..] => (Area::Objects, rest),
        ["crm", "properties", version, rest @ ..] if is_dated(version) => (Area::Properties, rest),
        ["crm", "v3", "properties", rest @ ..] => (Area::Properties, rest),
        ["crm", "lists", version, rest @ ..] if is_dated(version) => (Area::Lists, rest),
        ["crm", "v3", "lists", rest @ ..] => (Area::Lists, rest),
        ["communication-preferences", version, rest @ ..] if *version == "v4" || is_dated(version) => {
            (Area::Preferences, rest)
        }
        ["account-info", version, rest @ ..] if *version == "v3" || is_dated(version) => (Area::AccountInfo, rest),
        _ => return None,
    };
    match area {
        Area::Objects | Area::Properties => {
            let (name, rest) = rest.split_first()?;
            let object = ObjectType::from_path(name)?;
            Some(Prefix { area, object, rest })
        }
        Area::Lists | Area::Preferences | Area::AccountInfo => Some(Prefix { area, object: ObjectType::Contact, rest }),
    }
}

/// `2026-03`, `2027-03-beta`.
fn is_dated(version: &str) -> bool {
    let version = version.strip_suffix("-beta").unwrap_or(version);
    let is_digits = |part: &str, length: usize| part.len() == length && part.bytes().all(|b| b.is_ascii_digit());
    version.split_once('-').is_some_and(|(year, month)| is_digits(year, 4) && is_digits(month, 2))
}

fn area_name(area: Area, object: ObjectType) -> &'static str {
    match area {
        Area::Objects => object.plural(),
        Area::Properties => "properties",
        Area::Lists => "lists",
        Area::Preferences => "preferences",
        Area::AccountInfo => "account",
    }
}

/// The decoded variable segments, when the path fits the pattern.
fn match_path(pattern: &str, rest: &[&str]) -> Option<Vec<String>> {
    let pattern: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let rest: Vec<&str> = rest.iter().copied().filter(|part| !part.is_empty()).collect();
    if pattern.len() != rest.len() {
        return None;
    }
    let mut params = Vec::new();
    for (expected, actual) in pattern.iter().zip(&rest) {
        if *expected == ":" {
            params.push(decode_segment(actual));
        } else if expected != actual {
            return None;
        }
    }
    Some(params)
}

/// Decodes a segment once, after the path was split: an escaped slash stays part of its segment.
fn decode_segment(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        let (byte, used) = escaped.map_or((*first, 1), |(high, low)| (high * 16 + low, 3));
        bytes.push(byte);
        rest = &rest[used..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// The last segment and the query as they came.
fn raw_tail(uri: &Uri) -> String {
    let all = uri.path_and_query().map_or("", |path| path.as_str());
    let path = uri.path();
    all[path.rfind('/').map_or(0, |slash| slash + 1)..].to_owned()
}
