//! `POST …/search`, which lags behind the writes. Source: the search guide.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Record, render};
use crate::{
    account::Account,
    answer::{Answer, ApiError, Handled},
    call::Call,
};

/// Records per page.
const MAX_PAGE: usize = 200;
/// Records per page when the caller does not say.
const DEFAULT_PAGE: usize = 10;
/// Results that paging can reach.
const MAX_REACHABLE: usize = 10_000;
/// Groups of filters, alternatives of each other.
const MAX_GROUPS: usize = 5;
/// Filters in one group.
const MAX_FILTERS_PER_GROUP: usize = 6;
/// Filters in one search.
const MAX_FILTERS: usize = 18;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Search {
    #[serde(default)]
    filter_groups: Vec<Group>,
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    sorts: Vec<Sort>,
    #[serde(default)]
    properties: Vec<String>,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    after: Option<Value>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    filters: Vec<Filter>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filter {
    property_name: String,
    operator: Operator,
    #[serde(default)]
    value: String,
    #[serde(default)]
    values: Vec<String>,
    #[serde(default)]
    high_value: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Operator {
    Eq,
    Neq,
    Lt,
    Lte,
    Gt,
    Gte,
    Between,
    In,
    NotIn,
    HasProperty,
    NotHasProperty,
    ContainsToken,
    NotContainsToken,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sort {
    property_name: String,
    #[serde(default)]
    direction: Direction,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Direction {
    #[default]
    Ascending,
    Descending,
}

/// `POST …/search`.
pub(crate) fn search(account: &mut Account, call: &Call) -> Handled {
    let request: Search = call.json()?;
    let limit = request.limit.unwrap_or(DEFAULT_PAGE);
    let after = request.offset()?;
    request.check(limit, after)?;
    let store = account.store_mut(call.object);
    let mut found: Vec<&Record> = store.search.catch_up(call.now.at).filter(|record| request.matches(record)).collect();
    for sort in request.sorts.iter().rev() {
        found.sort_by(|a, b| sort.order(a, b));
    }
    let total = found.len();
    let page = found.into_iter().skip(after).take(limit);
    let results: Vec<Value> = page.map(|record| render::read(call.object, record, &request.properties)).collect();
    let next = after + results.len();
    let mut body = json!({ "total": total, "results": results });
    if next < total {
        body["paging"] = json!({ "next": { "after": next.to_string() } });
    }
    Ok(Answer::ok(body))
}

impl Search {
    fn offset(&self) -> Result<usize, ApiError> {
        let text = match &self.after {
            None | Some(Value::Null) => return Ok(0),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        text.parse().map_err(|_| ApiError::invalid("after must be a number"))
    }

    fn check(&self, limit: usize, after: usize) -> Result<(), ApiError> {
        let groups = &self.filter_groups;
        let filters: usize = groups.iter().map(|group| group.filters.len()).sum();
        let is_crowded = groups.iter().any(|group| group.filters.len() > MAX_FILTERS_PER_GROUP);
        if groups.len() > MAX_GROUPS || is_crowded || filters > MAX_FILTERS {
            return Err(ApiError::invalid("The search has too many filters"));
        }
        if limit > MAX_PAGE {
            return Err(ApiError::invalid(format!("limit must be at most {MAX_PAGE}")));
        }
        if after + limit > MAX_REACHABLE {
            return Err(ApiError::invalid(format!("Search cannot page beyond {MAX_REACHABLE} results")));
        }
        Ok(())
    }

    fn matches(&self, record: &Record) -> bool {
        let groups = &self.filter_groups;
        let in_groups =
            groups.is_empty() || groups.iter().any(|group| group.filters.iter().all(|filter| filter.matches(record)));
        in_groups && self.query.as_deref().is_none_or(|query| mentions(record, query))
    }
}

fn mentions(record: &Record, query: &str) -> bool {
    let query = query.to_lowercase();
    ["email", "firstname", "lastname", "phone", "company"]
        .iter()
        .filter_map(|name| record.get(name))
        .any(|value| value.to_lowercase().contains(&query))
}

impl Filter {
    fn matches(&self, record: &Record) -> bool {
        let Some(actual) = render::value_of(record, &self.property_name) else {
            return matches!(self.operator, Operator::NotHasProperty | Operator::NotIn | Operator::Neq);
        };
        let against = |value: &str| compare(&actual, value);
        match self.operator {
            Operator::HasProperty => true,
            Operator::NotHasProperty => false,
            Operator::Eq => against(&self.value).is_eq(),
            Operator::Neq => against(&self.value).is_ne(),
            Operator::Lt => against(&self.value).is_lt(),
            Operator::Lte => against(&self.value).is_le(),
            Operator::Gt => against(&self.value).is_gt(),
            Operator::Gte => against(&self.value).is_ge(),
            Operator::Between => against(&self.value).is_ge() && against(&self.high_value).is_le(),
            Operator::In => self.lists(&actual),
            Operator::NotIn => !self.lists(&actual),
            Operator::ContainsToken => has_token(&actual, &self.value),
            Operator::NotContainsToken => !has_token(&actual, &self.value),
        }
    }

    /// Values of `IN` must be given in lower case, or they match nothing.
    fn lists(&self, actual: &str) -> bool {
        let actual = actual.to_lowercase();
        self.values.contains(&actual)
    }
}

impl Sort {
    fn order(&self, a: &Record, b: &Record) -> Ordering {
        let value = |record| render::value_of(record, &self.property_name).unwrap_or_default();
        let ascending = compare(&value(a), &value(b));
        match self.direction {
            Direction::Ascending => ascending,
            Direction::Descending => ascending.reverse(),
        }
    }
}

/// Numbers and instants by size, everything else as text without regard to case.
fn compare(a: &str, b: &str) -> Ordering {
    match (as_number(a), as_number(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.to_lowercase().cmp(&b.to_lowercase()),
    }
}

fn as_number(value: &str) -> Option<i64> {
    let instant = || value.parse::<Timestamp>().ok().map(Timestamp::as_millisecond);
    value.parse().ok().or_else(instant)
}

/// `*` at an end stands for anything.
fn has_token(actual: &str, token: &str) -> bool {
    let (actual, token) = (actual.to_lowercase(), token.to_lowercase());
    let bare = token.trim_matches('*');
    let mut parts = actual.split(|c: char| !c.is_alphanumeric());
    actual == bare || actual.contains(bare) && (bare != token || parts.any(|part| part == bare))
}
