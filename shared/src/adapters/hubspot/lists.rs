//! Members of lists (HubSpot also says segments). Only manual and snapshot lists can be changed by a call.

use std::collections::HashSet;

use reqwest::Method;
use serde_json::{Value, json};

use super::accounting::{Keys, account};
use super::contacts::refuse_size;
use super::decode::{self, Object};
use super::request::{Request, encode_segment};
use super::transport::Success;
use super::{Account, Call, Family};
use crate::model::outcome::{ErrorBody, Intent, Named, Operation, Refusal, Row};
use crate::model::plan::MEMBERS_PER_CALL;

/// What became of one record in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// The list holds the record (after adding) or does not hold it (after removing), whatever was before.
    Settled,
    /// HubSpot knows no such record (yet).
    Missing,
}

impl Account<'_> {
    /// Puts records into a list. A record that is a member already counts as settled.
    pub async fn add_to_list(&self, list_id: &str, record_ids: &[&str]) -> Call<Vec<Row<Membership>>> {
        self.change_membership(list_id, "add", record_ids).await
    }

    /// Takes records out of a list. A record that is no member counts as settled.
    pub async fn remove_from_list(&self, list_id: &str, record_ids: &[&str]) -> Call<Vec<Row<Membership>>> {
        self.change_membership(list_id, "remove", record_ids).await
    }

    async fn change_membership(&self, list_id: &str, verb: &str, record_ids: &[&str]) -> Call<Vec<Row<Membership>>> {
        if let Some(call) = refuse_size(record_ids.len(), MEMBERS_PER_CALL) {
            return call;
        }
        let list = encode_segment(list_id);
        let request = Request {
            method: Method::PUT,
            path: format!("{}/{list}/memberships/{verb}", self.versions.path(Family::Lists)),
            query: Vec::new(),
            body: Some(json!(record_ids)),
            intent: Intent { operation: Operation::ChangeMembership, rows: record_ids.len() },
        };
        self.call(request, |success| memberships(success, record_ids)).await
    }
}

/// An object without any list is the answer when everybody was a member already; no body at all says nothing.
fn memberships(success: Success, record_ids: &[&str]) -> Result<Vec<Row<Membership>>, Refusal> {
    let body = match success.body {
        None => return Ok(record_ids.iter().map(|_| Row::Unknown).collect()),
        Some(Value::Object(body)) => body,
        Some(_) => return Err(Refusal::unreadable(success.status, "unexpected_json")),
    };
    let missing: HashSet<String> = decode::ids(body.get("recordIdsMissing")).into_iter().collect();
    let errors = errors_of(&body);
    if errors.is_empty() {
        let row = |id: &&str| {
            if missing.contains(*id) { Membership::Missing } else { Membership::Settled }
        };
        return Ok(record_ids.iter().map(row).map(Row::Done).collect());
    }
    // With errors beside them, only the records that the answer lists are settled.
    let keys = |id: &str| Keys { trace_id: None, ids: vec![id.to_owned()] };
    let listed = ["recordsIdsAdded", "recordIdsAdded", "recordIdsRemoved", "recordsIdsRemoved"];
    let settled = listed.iter().flat_map(|list| decode::ids(body.get(*list)));
    let results = settled
        .map(|id| (keys(&id), Membership::Settled))
        .chain(missing.iter().map(|id| (keys(id), Membership::Missing)))
        .collect();
    let inputs: Vec<Keys> = record_ids.iter().map(|id| keys(id)).collect();
    let ids_of = |named: &Named| named.ids.iter().cloned().collect();
    Ok(account(&inputs, results, &errors, Operation::ChangeMembership, ids_of))
}

fn errors_of(body: &Object) -> Vec<ErrorBody> {
    if decode::is_error(body) {
        return vec![ErrorBody::from_object(body)];
    }
    decode::objects(body.get("errors").cloned()).iter().map(ErrorBody::from_object).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: Value) -> Vec<Row<Membership>> {
        memberships(Success { status: 200, body: Some(body) }, &["90210", "90299"]).unwrap()
    }

    #[test]
    fn only_missing_records_are_not_settled() {
        let rows = answer(json!({"recordsIdsAdded": ["90210"], "recordIdsRemoved": [], "recordIdsMissing": [90299]}));
        assert_eq!(rows, [Row::Done(Membership::Settled), Row::Done(Membership::Missing)]);
    }

    #[test]
    fn an_empty_object_means_that_all_were_members_already() {
        assert_eq!(answer(json!({})), [Row::Done(Membership::Settled), Row::Done(Membership::Settled)]);
    }

    #[test]
    fn with_an_error_beside_it_only_listed_records_are_settled() {
        let rows = answer(json!({"recordsIdsAdded": ["90210"], "errors": [{"category": "VALIDATION_ERROR"}]}));
        assert_eq!(rows[0], Row::Done(Membership::Settled));
        assert!(matches!(rows[1], Row::Refused(_)));
        let rows = answer(json!({"status": "error", "message": "no"}));
        assert_eq!(rows, [Row::Unknown, Row::Unknown]);
    }

    #[test]
    fn no_body_says_nothing() {
        let rows = memberships(Success { status: 204, body: None }, &["1"]).unwrap();
        assert_eq!(rows, [Row::Unknown]);
    }
}
