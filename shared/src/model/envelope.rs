//! What travels by SQS: an event id, sealed. No state and no personal data.
//!
//! Signed the way Standard Webhooks signs (<https://www.standardwebhooks.com>): HMAC-SHA256 over `id.timestamp.body`,
//! base64, with a `v1,` prefix; several signatures may stand in one header, separated by spaces.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::ids::EventId;

/// Version of the body.
const VERSION: u8 = 1;

/// No envelope is larger: it holds an id and a number.
pub const MAX_BODY_BYTES: usize = 1024;

/// Shorter keys could be guessed; this is the block that SHA-256 yields.
const MIN_KEY_BYTES: usize = 32;

/// Prefix of a key's text form.
const KEY_PREFIX: &str = "whsec_";

/// A sealed envelope: the message body, and what goes into its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The message body, JSON.
    pub body: String,
    /// Attribute `webhook-id`.
    pub id: String,
    /// Attribute `webhook-timestamp`, seconds since 1970.
    pub timestamp: String,
    /// Attribute `webhook-signature`.
    pub signature: String,
}

/// One signing key.
#[derive(Debug, Clone)]
pub struct SigningKey(SecretSlice<u8>);

/// The keys a worker accepts: the current one, and the next one while keys are being changed.
#[derive(Debug, Clone)]
pub struct SigningKeys {
    /// What the dispatcher signs with.
    pub current: SigningKey,
    /// What it will sign with, once every worker knows it.
    pub next: Option<SigningKey>,
}

/// Why a message is not an envelope of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// An attribute is missing.
    #[error("the message has no {0} attribute")]
    Missing(&'static str),
    /// No signature matches any key.
    #[error("no signature matches a known key")]
    BadSignature,
    /// Signed, but not something this version understands.
    #[error("the body is not an envelope of version 1")]
    BadBody,
}

/// Why a text is no signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no signing key: expected `whsec_` and at least 32 bytes in base64")]
pub struct KeyError;

#[derive(Serialize, Deserialize)]
struct Body {
    event_id: EventId,
    v: u8,
}

impl SigningKey {
    /// Reads `whsec_` followed by at least 32 bytes in base64.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let encoded = text.trim().strip_prefix(KEY_PREFIX).ok_or(KeyError)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| KeyError)?;
        if bytes.len() < MIN_KEY_BYTES { Err(KeyError) } else { Ok(Self(bytes.into())) }
    }

    /// A signature over `id.timestamp.body`.
    fn sign(&self, id: &str, timestamp: &str, body: &str) -> String {
        format!("v1,{}", STANDARD.encode(self.mac(id, timestamp, body).finalize().into_bytes()))
    }

    /// Compares in constant time.
    fn matches(&self, signature: &[u8], id: &str, timestamp: &str, body: &str) -> bool {
        self.mac(id, timestamp, body).verify_slice(signature).is_ok()
    }

    fn mac(&self, id: &str, timestamp: &str, body: &str) -> Hmac<Sha256> {
        #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.expose_secret()).expect("any length is a key");
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body.as_bytes()] {
            mac.update(part);
        }
        mac
    }
}

/// The text form of a new key made of these random bytes.
pub fn new_key_text(random: [u8; MIN_KEY_BYTES]) -> String {
    format!("{KEY_PREFIX}{}", STANDARD.encode(random))
}

/// Seals an event's envelope at the given time (seconds since 1970).
pub fn seal(event_id: EventId, key: &SigningKey, at_second: i64) -> Sealed {
    let body = format!(r#"{{"event_id":"{event_id}","v":{VERSION}}}"#);
    let (id, timestamp) = (event_id.to_string(), at_second.to_string());
    let signature = key.sign(&id, &timestamp, &body);
    Sealed { body, id, timestamp, signature }
}

/// Opens a message: the signature is checked before the body is looked at. Age is not: the queue's retention bounds it.
pub fn open(
    body: &str,
    id: Option<&str>,
    timestamp: Option<&str>,
    signatures: Option<&str>,
    keys: &SigningKeys,
) -> Result<EventId, OpenError> {
    let id = id.ok_or(OpenError::Missing("webhook-id"))?;
    let timestamp = timestamp.ok_or(OpenError::Missing("webhook-timestamp"))?;
    let signatures = signatures.ok_or(OpenError::Missing("webhook-signature"))?;
    if body.len() > MAX_BODY_BYTES || !is_signed(body, id, timestamp, signatures, keys) {
        return Err(OpenError::BadSignature);
    }
    let parsed: Body = serde_json::from_str(body).map_err(|_| OpenError::BadBody)?;
    // The signed id must be the body's own: a genuine signature of one event must not carry another. Compared as values.
    if parsed.v == VERSION && id.parse() == Ok(parsed.event_id.0) {
        Ok(parsed.event_id)
    } else {
        Err(OpenError::BadBody)
    }
}

fn is_signed(body: &str, id: &str, timestamp: &str, signatures: &str, keys: &SigningKeys) -> bool {
    signatures.split(' ').filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok()).any(
        |signature| {
            [Some(&keys.current), keys.next.as_ref()]
                .into_iter()
                .flatten()
                .any(|key| key.matches(&signature, id, timestamp, body))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const AT: i64 = 1_790_000_000;

    fn key(fill: u8) -> SigningKey {
        SigningKey::parse(&format!("whsec_{}", STANDARD.encode([fill; 32]))).unwrap()
    }

    fn keys(current: u8, next: Option<u8>) -> SigningKeys {
        SigningKeys { current: key(current), next: next.map(key) }
    }

    fn reopen(sealed: &Sealed, keys: &SigningKeys) -> Result<EventId, OpenError> {
        open(&sealed.body, Some(&sealed.id), Some(&sealed.timestamp), Some(&sealed.signature), keys)
    }

    #[test]
    fn a_sealed_envelope_opens_with_the_current_and_the_next_key() {
        let event = EventId(Uuid::from_u128(7));
        let sealed = seal(event, &key(1), AT);
        assert_eq!(reopen(&sealed, &keys(1, None)), Ok(event));
        assert_eq!(reopen(&sealed, &keys(2, Some(1))), Ok(event));
        assert_eq!(reopen(&sealed, &keys(2, Some(3))), Err(OpenError::BadSignature));
    }

    #[test]
    fn several_signatures_may_stand_in_one_attribute() {
        let event = EventId(Uuid::from_u128(7));
        let mut sealed = seal(event, &key(1), AT);
        sealed.signature = format!("v1,AAAA v2,whatever {}", sealed.signature);
        assert_eq!(reopen(&sealed, &keys(1, None)), Ok(event));
    }

    #[test]
    fn a_changed_body_id_or_time_does_not_open() {
        let sealed = seal(EventId(Uuid::from_u128(7)), &key(1), AT);
        let other = seal(EventId(Uuid::from_u128(8)), &key(1), AT);
        for forged in [
            Sealed { body: other.body.clone(), ..sealed.clone() },
            Sealed { id: other.id.clone(), ..sealed.clone() },
            Sealed { timestamp: "1790000001".into(), ..sealed.clone() },
            Sealed { signature: other.signature.clone(), ..sealed.clone() },
            Sealed { signature: String::new(), ..sealed.clone() },
            Sealed { body: format!("{}{}", sealed.body, " ".repeat(2000)), ..sealed.clone() },
        ] {
            assert_eq!(reopen(&forged, &keys(1, None)), Err(OpenError::BadSignature));
        }
    }

    #[test]
    fn a_missing_attribute_is_named() {
        let sealed = seal(EventId(Uuid::from_u128(7)), &key(1), AT);
        let without = open(&sealed.body, Some(&sealed.id), None, Some(&sealed.signature), &keys(1, None));
        assert_eq!(without, Err(OpenError::Missing("webhook-timestamp")));
    }

    #[test]
    fn a_signed_body_of_another_version_is_not_an_envelope() {
        let signing = key(1);
        let id = Uuid::from_u128(7).to_string();
        let body = format!(r#"{{"event_id":"{id}","v":2}}"#);
        let signature = signing.sign(&id, "1", &body);
        assert_eq!(open(&body, Some(&id), Some("1"), Some(&signature), &keys(1, None)), Err(OpenError::BadBody));
    }

    #[test]
    fn a_sealed_body_is_small_and_holds_an_id_only() {
        let sealed = seal(EventId(Uuid::from_u128(7)), &key(1), AT);
        assert_eq!(sealed.body, r#"{"event_id":"00000000-0000-0000-0000-000000000007","v":1}"#);
        assert!(sealed.body.len() < MAX_BODY_BYTES);
    }

    #[test]
    fn short_or_unmarked_keys_are_refused() {
        assert_eq!(SigningKey::parse("whsec_AAAA").unwrap_err(), KeyError);
        assert_eq!(SigningKey::parse(&STANDARD.encode([1_u8; 32])).unwrap_err(), KeyError);
    }
}
