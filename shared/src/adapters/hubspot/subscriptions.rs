//! Subscription statuses: whether a person wants mail of a type.
//!
//! The dated and v4 endpoints resubscribe people who opted out, so the caller compares times before it writes `Subscribed`.

use reqwest::Method;
use serde_json::{Value, json};

use super::accounting::{Keys, account};
use super::contacts::refuse_size;
use super::decode::{self, Envelope};
use super::request::{Request, encode_segment};
use super::subscription_status::status;
use super::transport::Success;
use super::{Account, Call, Family, StatusWrite, SubscriptionStatus};
use crate::model::outcome::{Intent, Named, Operation, Refusal, Row};
use crate::model::plan::ROWS_PER_CALL;

/// The only channel that exists.
const CHANNEL: &str = "EMAIL";

impl Account<'_> {
    /// Reads the statuses of many people (needs Marketing Hub Enterprise). A person of whom HubSpot knows nothing is done
    /// with an empty list, as far as the answer names the person.
    pub async fn read_statuses(
        &self,
        emails: &[&str],
        business_unit_id: Option<i64>,
    ) -> Call<Vec<Row<Vec<SubscriptionStatus>>>> {
        if let Some(call) = refuse_size(emails.len(), ROWS_PER_CALL) {
            return call;
        }
        let request = Request {
            query: channel_query(business_unit_id),
            body: Some(json!({"inputs": emails})),
            ..self.status_request("/batch/read", Operation::ReadStatuses, emails.len())
        };
        self.call(request, |success| statuses_of_many(success, emails)).await
    }

    /// Reads the statuses of one person.
    pub async fn read_status(&self, email: &str, business_unit_id: Option<i64>) -> Call<Vec<SubscriptionStatus>> {
        let request = Request {
            method: Method::GET,
            query: channel_query(business_unit_id),
            ..self.status_request(&format!("/{}", encode_segment(email)), Operation::ReadStatuses, 1)
        };
        self.call(request, statuses_of_one).await
    }

    /// Writes many statuses (needs Marketing Hub Enterprise).
    pub async fn write_statuses(&self, writes: &[StatusWrite]) -> Call<Vec<Row<SubscriptionStatus>>> {
        if let Some(call) = refuse_size(writes.len(), ROWS_PER_CALL) {
            return call;
        }
        let inputs: Vec<Value> = writes.iter().map(batch_input).collect();
        let request = Request {
            body: Some(json!({"inputs": inputs})),
            ..self.status_request("/batch/write", Operation::WriteStatuses, writes.len())
        };
        self.call(request, |success| written(success, writes)).await
    }

    /// Writes one status.
    pub async fn write_status(&self, write: &StatusWrite) -> Call<SubscriptionStatus> {
        let request = Request {
            body: Some(status_body(write)),
            ..self.status_request(&format!("/{}", encode_segment(&write.email)), Operation::WriteStatuses, 1)
        };
        self.call(request, |success| written_one(success, write)).await
    }

    /// A POST below `statuses`, without query and body.
    fn status_request(&self, tail: &str, operation: Operation, rows: usize) -> Request {
        Request {
            method: Method::POST,
            path: format!("{}/statuses{tail}", self.versions.path(Family::CommunicationPreferences)),
            query: Vec::new(),
            body: None,
            intent: Intent { operation, rows },
        }
    }
}

fn channel_query(business_unit_id: Option<i64>) -> Vec<(&'static str, String)> {
    let unit = business_unit_id.map(|unit| ("businessUnitId", unit.to_string()));
    std::iter::once(("channel", CHANNEL.to_owned())).chain(unit).collect()
}

fn status_body(write: &StatusWrite) -> Value {
    let mut body =
        json!({"subscriptionId": write.subscription_id, "statusState": write.state.as_str(), "channel": CHANNEL});
    if let Some(legal_basis) = &write.legal_basis {
        body["legalBasis"] = json!(legal_basis);
    }
    if let Some(explanation) = &write.explanation {
        body["legalBasisExplanation"] = json!(explanation);
    }
    body
}

fn batch_input(write: &StatusWrite) -> Value {
    let mut input = status_body(write);
    input["subscriberIdString"] = json!(write.email);
    input
}

/// Results come a person each with a list of statuses, or a status each.
fn statuses_of_many(success: Success, emails: &[&str]) -> Result<Vec<Row<Vec<SubscriptionStatus>>>, Refusal> {
    let envelope = Envelope::read(success)?;
    let mut people: Vec<(Keys, Vec<SubscriptionStatus>)> = Vec::new();
    for result in envelope.results {
        let Some(email) = decode::text(&result, "subscriberIdString").map(str::to_lowercase) else {
            continue;
        };
        let statuses: Vec<_> = match result.get("statuses") {
            Some(list) => decode::objects(Some(list.clone())).iter().filter_map(status).collect(),
            None => status(&result).into_iter().collect(),
        };
        match people.iter_mut().find(|(keys, _)| keys.ids[0] == email) {
            Some((_, known)) => known.extend(statuses),
            None => people.push((Keys { trace_id: None, ids: vec![email] }, statuses)),
        }
    }
    let inputs: Vec<Keys> =
        emails.iter().map(|email| Keys { trace_id: None, ids: vec![(*email).to_owned()] }).collect();
    let ids_of = |named: &Named| named.ids.iter().cloned().collect();
    Ok(account(&inputs, people, &envelope.errors, Operation::ReadStatuses, ids_of))
}

fn statuses_of_one(success: Success) -> Result<Vec<SubscriptionStatus>, Refusal> {
    let envelope = Envelope::read(success)?;
    if let Some(error) = envelope.errors.first() {
        return Err(Refusal::of_row(error, Operation::ReadStatuses));
    }
    if !envelope.complete {
        return Err(Refusal::unreadable(envelope.status, "unaccounted"));
    }
    Ok(envelope.results.iter().filter_map(status).collect())
}

fn written(success: Success, writes: &[StatusWrite]) -> Result<Vec<Row<SubscriptionStatus>>, Refusal> {
    let envelope = Envelope::read(success)?;
    let results = envelope
        .results
        .iter()
        .filter_map(|result| {
            let status = status(result)?;
            let id = pair(decode::text(result, "subscriberIdString")?, status.subscription_id);
            Some((Keys { trace_id: None, ids: vec![id] }, status))
        })
        .collect();
    let inputs: Vec<Keys> = writes
        .iter()
        .map(|write| Keys { trace_id: None, ids: vec![pair(&write.email, write.subscription_id), write.email.clone()] })
        .collect();
    Ok(account(&inputs, results, &envelope.errors, Operation::WriteStatuses, named_pairs))
}

fn written_one(success: Success, write: &StatusWrite) -> Result<SubscriptionStatus, Refusal> {
    let envelope = Envelope::read(success)?;
    let of_write = |status: &SubscriptionStatus| status.subscription_id == write.subscription_id;
    if let Some(status) = envelope.results.iter().filter_map(status).find(of_write) {
        return Ok(status);
    }
    Err(match envelope.errors.first() {
        Some(error) => Refusal::of_row(error, Operation::WriteStatuses),
        None => Refusal::unreadable(envelope.status, "unaccounted"),
    })
}

/// A person may have several subscriptions in one batch, so a row is known by both. NUL stands in no address.
fn pair(email: &str, subscription_id: i64) -> String {
    format!("{email}\0{subscription_id}")
}

/// An error that names a subscription means that one; an error that names only a person means all of the person's rows.
fn named_pairs(named: &Named) -> Vec<String> {
    let id =
        |email: &String| named.subscription_id.map_or_else(|| email.clone(), |subscription| pair(email, subscription));
    named.ids.iter().map(id).collect()
}
