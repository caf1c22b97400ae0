//! One request: what is asked, and where.

use reqwest::Method;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

use crate::model::outcome::{Intent, TransportFailure};

/// One request, before it has an address and a token.
pub(super) struct Request {
    pub(super) method: Method,
    /// The path below the base address; its variable segments are encoded already, by [`encode_segment`].
    pub(super) path: String,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) body: Option<Value>,
    pub(super) intent: Intent,
}

/// The token as a header, which no `Debug` shows.
pub(super) fn bearer(token: &SecretString) -> Result<HeaderValue, TransportFailure> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
        .map_err(|_| TransportFailure::TokenMalformed)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The whole address. Encoded segments stay as they are.
pub(super) fn address(base: &Url, path: &str, query: &[(&'static str, String)]) -> Url {
    let mut address = base.clone();
    address.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    if !query.is_empty() {
        address.query_pairs_mut().extend_pairs(query);
    }
    address
}

/// Encodes a path segment once: everything but letters, digits and `-._~` becomes `%XX`, since `+`, `/`, `?`, `#` and
/// `'` in an address are taken for something else on the way.
pub(super) fn encode_segment(segment: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            encoded.extend(['%', char::from(digits[0]), char::from(digits[1])]);
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_a_path_is_encoded_exactly_once() {
        let base = Url::parse("https://api.example.test/").unwrap();
        for (email, segment) in [
            ("a+b@example.test", "a%2Bb%40example.test"),
            ("o'neil/x@example.test", "o%27neil%2Fx%40example.test"),
            ("q?#@example.test", "q%3F%23%40example.test"),
            ("ü@example.test", "%C3%BC%40example.test"),
            ("50%@example.test", "50%25%40example.test"),
        ] {
            let path = format!("/statuses/{}", encode_segment(email));
            let address = address(&base, &path, &[("channel", "EMAIL".to_owned())]);
            assert_eq!(address.as_str(), format!("https://api.example.test/statuses/{segment}?channel=EMAIL"));
        }
    }

    #[test]
    fn a_base_address_keeps_its_own_path() {
        let base = Url::parse("http://127.0.0.1:1/hubspot/").unwrap();
        assert_eq!(address(&base, "/crm/x", &[]).as_str(), "http://127.0.0.1:1/hubspot/crm/x");
    }
}
