//! Deletes a contact for good, for the sake of its privacy.

use reqwest::Method;
use serde_json::{Value, json};

use super::decode;
use super::request::Request;
use super::transport::Success;
use super::{Account, Call, Family};
use crate::model::ids::RecordId;
use crate::model::outcome::{Intent, Operation, Refusal};

impl Account<'_> {
    /// Deletes the contact with this record id for good (one call). HubSpot refuses its address from then on. A record that is
    /// not there is refused as gone.
    ///
    /// By record id only: asked by an address that it does not know, HubSpot would refuse that address for ever.
    pub async fn gdpr_delete(&self, record: RecordId) -> Call<()> {
        let request = Request {
            method: Method::POST,
            path: format!("{}/contacts/gdpr-delete", self.versions.path(Family::Objects)),
            query: Vec::new(),
            body: Some(json!({"objectId": record.to_string()})),
            intent: Intent { operation: Operation::EraseContact, rows: 1 },
        };
        self.call(request, |success| deleted(&success)).await
    }
}

/// 204 has no body; a body that is an error contradicts its status.
fn deleted(success: &Success) -> Result<(), Refusal> {
    match &success.body {
        Some(Value::Object(body)) if decode::is_error(body) => {
            Err(Refusal::unreadable(success.status, "unexpected_json"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_body_is_a_success_and_an_error_under_2xx_is_none() {
        assert!(deleted(&Success { status: 204, body: None }).is_ok());
        let body = Some(json!({"status": "error", "message": "no"}));
        assert!(deleted(&Success { status: 200, body }).is_err());
    }
}
