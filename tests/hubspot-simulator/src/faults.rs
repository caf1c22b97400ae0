//! Faults on demand: which calls they strike, and what happens to those.

use std::collections::BTreeMap;

use axum::http::Method;
use rand::{Rng, rngs::StdRng};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::PortalId;

/// Identity of a fault within its simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FaultId(pub u64);

/// A fault: calls that fit every given condition suffer the action.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// HTTP method, upper case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Part of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Name of the endpoint, such as `contacts.batch_upsert`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Part of the body, such as an address that poisons its batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Only calls with the token of this account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portal: Option<PortalId>,
    /// What happens.
    pub action: Action,
    /// Calls that are still to be struck; unlimited when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
    /// Fitting calls that pass before the first is struck.
    #[serde(default)]
    pub after: u32,
    /// Part of the fitting calls that is struck, 0 to 1, drawn with the simulator's seed; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

/// What happens to a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Answer this instead of processing the call. The call counts against the limits, unless the answer is a 429.
    Respond(Response),
    /// Count the call, then wait this many milliseconds before it is processed.
    DelayMs(u64),
    /// Count and process the call, then wait this many milliseconds before it is answered.
    SlowAnswerMs(u64),
    /// Close the connection before anything is read, counted or processed.
    Cut,
    /// Count and process the call, then close the connection without an answer.
    LoseAnswer,
    /// Process the call and answer with JSON that stops in the middle, in an otherwise complete HTTP answer.
    Truncate,
    /// Process the call, send half of the answer's body and close the connection.
    CutBody,
    /// Answer this status with a page of HTML instead of processing the call.
    Html(u16),
}

/// An answer of a fault.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Further headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// JSON body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Literal body, sent when there is no JSON one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_raw: Option<String>,
}

impl Fault {
    /// Strikes the next `calls` calls.
    pub fn next(calls: u32, action: Action) -> Self {
        Self { next: Some(calls), ..Self::always(action) }
    }

    /// Strikes a share of the calls, 0 to 1.
    pub fn share(share: f64, action: Action) -> Self {
        Self { share: Some(share), ..Self::always(action) }
    }

    /// Strikes every call until it is cleared.
    pub fn always(action: Action) -> Self {
        Self {
            method: None,
            path: None,
            endpoint: None,
            body: None,
            portal: None,
            action,
            next: None,
            after: 0,
            share: None,
        }
    }

    /// Only calls of this endpoint, such as `contacts.batch_upsert`.
    #[must_use]
    pub fn on_endpoint(mut self, endpoint: &str) -> Self {
        self.endpoint = Some(endpoint.to_owned());
        self
    }

    /// Only calls whose path contains the text.
    #[must_use]
    pub fn on_path(mut self, part: &str) -> Self {
        self.path = Some(part.to_owned());
        self
    }

    /// Only calls with this method.
    #[must_use]
    pub fn on_method(mut self, method: &str) -> Self {
        self.method = Some(method.to_owned());
        self
    }

    /// Only calls whose body contains the text.
    #[must_use]
    pub fn on_body(mut self, part: &str) -> Self {
        self.body = Some(part.to_owned());
        self
    }

    /// Only calls with the token of this account.
    #[must_use]
    pub fn on_portal(mut self, portal_id: u64) -> Self {
        self.portal = Some(PortalId(portal_id));
        self
    }

    /// Lets the first `calls` fitting calls pass.
    #[must_use]
    pub fn after(mut self, calls: u32) -> Self {
        self.after = calls;
        self
    }

    fn fits(&self, shape: &Shape<'_>) -> bool {
        self.method.as_deref().is_none_or(|method| method == shape.method.as_str())
            && self.path.as_deref().is_none_or(|part| shape.path.contains(part))
            && self.endpoint.as_deref().is_none_or(|endpoint| endpoint == shape.endpoint)
            && self.body.as_deref().is_none_or(|part| shape.body.contains(part))
            && self.portal.is_none_or(|portal| shape.portal == Some(portal))
    }
}

impl Action {
    /// An answer with a JSON body.
    pub fn respond(status: u16, body: Value) -> Self {
        let headers = BTreeMap::new();
        Self::Respond(Response { status, headers, body: Some(body), body_raw: None })
    }

    /// An answer with a literal body.
    pub fn respond_raw(status: u16, body: impl Into<String>) -> Self {
        let headers = BTreeMap::new();
        Self::Respond(Response { status, headers, body: None, body_raw: Some(body.into()) })
    }

    /// HubSpot's 423 of a record that another write holds.
    pub fn locked() -> Self {
        let body = serde_json::json!({
            "status": "error", "message": "Resource is locked", "category": "LOCKED",
        });
        Self::respond(423, body)
    }

    /// HubSpot's 477 of an account that moves between data centres, with `Retry-After` in seconds.
    pub fn migrating(retry_after_s: u64) -> Self {
        let body = serde_json::json!({
            "status": "error", "message": "The account is being migrated", "category": "MIGRATION_IN_PROGRESS",
        });
        let headers = BTreeMap::from([("Retry-After".to_owned(), retry_after_s.to_string())]);
        Self::Respond(Response { status: 477, headers, body: Some(body), body_raw: None })
    }
}

/// What a fault sees of a call.
pub(crate) struct Shape<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) endpoint: &'a str,
    pub(crate) body: &'a str,
    pub(crate) portal: Option<PortalId>,
}

/// The faults that are set.
#[derive(Default)]
pub(crate) struct Faults {
    faults: BTreeMap<FaultId, Fault>,
    last_id: u64,
}

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) -> FaultId {
        self.last_id += 1;
        let id = FaultId(self.last_id);
        self.faults.insert(id, fault);
        id
    }

    pub(crate) fn clear(&mut self) {
        self.faults.clear();
    }

    pub(crate) fn all(&self) -> &BTreeMap<FaultId, Fault> {
        &self.faults
    }

    /// The action for this call: the oldest fault that fits and draws it.
    pub(crate) fn strike(&mut self, shape: &Shape<'_>, dice: &mut StdRng) -> Option<Action> {
        for (&id, fault) in &mut self.faults {
            if !fault.fits(shape) {
                continue;
            }
            if fault.after > 0 {
                fault.after -= 1;
                continue;
            }
            if fault.share.is_some_and(|share| !dice.random_bool(share.clamp(0.0, 1.0))) {
                continue;
            }
            let action = fault.action.clone();
            if let Some(left) = &mut fault.next {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.faults.remove(&id);
                }
            }
            return Some(action);
        }
        None
    }
}
