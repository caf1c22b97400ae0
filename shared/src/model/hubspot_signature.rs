//! HubSpot's signatures on what it sends: v3, and by explicit permission the older ones.
//!
//! v3 is base64 of HMAC-SHA256, keyed with the app's client secret, over method, address, body and timestamp, nothing in
//! between. Source: HubSpot's developer documentation, "Validating requests"
//! (<https://developers.hubspot.com/docs/apps/developer-platform/build-apps/authentication/request-validation>).
//!
//! The address is the one HubSpot was given, with the query as it came: behind a gateway, what arrives names another host,
//! and often another path.

mod apps;
mod error;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

pub use apps::{AppsError, WebhookApp, parse_apps};
pub use error::SignatureError;

/// Header of the signature.
pub const SIGNATURE_HEADER: &str = "x-hubspot-signature-v3";

/// Header of the instant it was made, milliseconds since 1970.
pub const TIMESTAMP_HEADER: &str = "x-hubspot-request-timestamp";

/// Header of the older signatures.
pub const OLD_SIGNATURE_HEADER: &str = "x-hubspot-signature";

/// Header that says which of the older signatures it is: `v1` or `v2`.
pub const OLD_VERSION_HEADER: &str = "x-hubspot-signature-version";

/// HubSpot's rule: what is older is a replay, ms.
pub const MOST_AGE_MS: i64 = 300_000;

/// Clocks differ; what is further ahead than this was made up, ms.
pub const MOST_AHEAD_MS: i64 = 60_000;

/// Milliseconds since 1970 have this many digits from 2001 to 2286. Ten digits are seconds: malformed, not old.
const TIMESTAMP_DIGITS: usize = 13;

/// What SHA-256 yields, bytes.
const DIGEST_BYTES: usize = 32;

/// The only escapes that HubSpot decodes before it signs, the digits in either case. Each once: `%253A` stays.
const DECODED_ESCAPES: [(&str, char); 12] = [
    ("3A", ':'),
    ("2F", '/'),
    ("3F", '?'),
    ("40", '@'),
    ("21", '!'),
    ("24", '$'),
    ("27", '\''),
    ("28", '('),
    ("29", ')'),
    ("2A", '*'),
    ("2C", ','),
    ("3B", ';'),
];

/// A request whose signature is to be checked. Nothing in it is trusted.
#[derive(Debug, Clone, Copy)]
pub struct SignedRequest<'a> {
    /// The method, upper case.
    pub method: &'a str,
    /// The public address as it is configured at HubSpot, and the query as it came.
    pub url: &'a str,
    /// The bytes of the body, as they came.
    pub body: &'a [u8],
    /// The headers.
    pub headers: SignatureHeaders<'a>,
}

/// The headers that have to do with signatures: each value that came under a name.
#[derive(Debug, Clone, Copy, Default)]
pub struct SignatureHeaders<'a> {
    /// [`SIGNATURE_HEADER`].
    pub signature: &'a [&'a str],
    /// [`TIMESTAMP_HEADER`].
    pub timestamp: &'a [&'a str],
    /// [`OLD_SIGNATURE_HEADER`].
    pub old_signature: &'a [&'a str],
    /// [`OLD_VERSION_HEADER`].
    pub old_version: &'a [&'a str],
}

/// The client secrets of one app.
#[derive(Debug, Clone)]
pub struct ClientSecrets {
    /// The secret that HubSpot signs with.
    pub current: SecretString,
    /// The one it will sign with, while secrets are being changed.
    pub next: Option<SecretString>,
}

/// Which of an app's secrets a signature was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretUsed {
    /// The current one.
    Current,
    /// The next one.
    Next,
}

/// Which version a signature is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureVersion {
    /// Over the body alone; can be replayed for ever.
    V1,
    /// Over method, address and body; can be replayed for ever.
    V2,
    /// With a timestamp.
    V3,
}

/// The older signatures that are accepted when there is no v3.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OldSignatures {
    /// Accept v1.
    pub v1: bool,
    /// Accept v2.
    pub v2: bool,
}

/// A signature that is genuine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Place in the list of apps.
    pub app: usize,
    /// Which of the app's secrets.
    pub secret: SecretUsed,
    /// Which version.
    pub version: SignatureVersion,
}

/// Checks a request at this instant (ms since 1970). Where v3 came, v3 has to be right.
///
/// Every secret is tried, so that the time it takes does not depend on which one fits.
pub fn verify(
    request: &SignedRequest<'_>,
    apps: &[WebhookApp],
    accepted: OldSignatures,
    now_ms: i64,
) -> Result<Verified, SignatureError> {
    let has_v3 = !request.headers.signature.is_empty();
    if has_v3 || request.headers.old_signature.is_empty() {
        return verify_v3(request, apps, now_ms);
    }
    let version = match only(OLD_VERSION_HEADER, request.headers.old_version)? {
        "v1" if accepted.v1 => SignatureVersion::V1,
        "v2" if accepted.v2 => SignatureVersion::V2,
        _ => return Err(SignatureError::OldVersion),
    };
    let given = from_hex(only(OLD_SIGNATURE_HEADER, request.headers.old_signature)?)?;
    first_match(apps, version, |secret| is_old_signature(secret, version, request, &given))
}

fn verify_v3(request: &SignedRequest<'_>, apps: &[WebhookApp], now_ms: i64) -> Result<Verified, SignatureError> {
    let given = only(SIGNATURE_HEADER, request.headers.signature)?;
    let timestamp = only(TIMESTAMP_HEADER, request.headers.timestamp)?;
    check_age(timestamp, now_ms)?;
    let given = STANDARD.decode(given).map_err(|_| SignatureError::SignatureMalformed)?;
    if given.len() != DIGEST_BYTES {
        return Err(SignatureError::SignatureMalformed);
    }
    let url = signed_url(request.url);
    first_match(apps, SignatureVersion::V3, |secret| {
        v3(secret, request.method, &url, request.body, timestamp).verify_slice(&given).is_ok()
    })
}

/// The signature of a request, as HubSpot makes it. `timestamp` is the header's text.
pub fn sign_v3(secret: &SecretString, method: &str, url: &str, body: &[u8], timestamp: &str) -> String {
    STANDARD.encode(v3(secret, method, &signed_url(url), body, timestamp).finalize().into_bytes())
}

/// The address as HubSpot signs it.
pub fn signed_url(url: &str) -> String {
    let mut decoded = String::with_capacity(url.len());
    let mut rest = url;
    while let Some((before, behind)) = rest.split_once('%') {
        decoded.push_str(before);
        let digits = behind.get(..2).unwrap_or_default();
        if let Some((_, character)) = DECODED_ESCAPES.iter().find(|(escape, _)| escape.eq_ignore_ascii_case(digits)) {
            decoded.push(*character);
            rest = &behind[2..];
        } else {
            decoded.push('%');
            rest = behind;
        }
    }
    decoded.push_str(rest);
    decoded
}

/// Checks the text of a timestamp against this instant (ms since 1970). Returns its age, ms.
pub fn check_age(timestamp: &str, now_ms: i64) -> Result<i64, SignatureError> {
    let is_number = timestamp.len() == TIMESTAMP_DIGITS && timestamp.bytes().all(|byte| byte.is_ascii_digit());
    let at_ms: i64 = timestamp.parse().ok().filter(|_| is_number).ok_or(SignatureError::TimestampMalformed)?;
    match now_ms.saturating_sub(at_ms) {
        age_ms if age_ms > MOST_AGE_MS => Err(SignatureError::TooOld { age_ms }),
        age_ms if age_ms < -MOST_AHEAD_MS => Err(SignatureError::InTheFuture { ahead_ms: -age_ms }),
        age_ms => Ok(age_ms),
    }
}

/// The one value of a header.
fn only<'a>(name: &'static str, values: &[&'a str]) -> Result<&'a str, SignatureError> {
    match values {
        [] | [""] => Err(SignatureError::MissingHeader(name)),
        [value] => Ok(value),
        _ => Err(SignatureError::RepeatedHeader(name)),
    }
}

/// Tries all of them, also behind the one that fits.
fn first_match(
    apps: &[WebhookApp],
    version: SignatureVersion,
    fits: impl Fn(&SecretString) -> bool,
) -> Result<Verified, SignatureError> {
    let mut found = None;
    for (app, WebhookApp { secrets: pair, .. }) in apps.iter().enumerate() {
        let current = fits(&pair.current);
        let next = pair.next.as_ref().is_some_and(&fits);
        let secret = match (current, next) {
            (true, _) => SecretUsed::Current,
            (false, true) => SecretUsed::Next,
            (false, false) => continue,
        };
        found = found.or(Some(Verified { app, secret, version }));
    }
    found.ok_or(SignatureError::NoSecretMatches)
}

fn v3(secret: &SecretString, method: &str, signed_url: &str, body: &[u8], timestamp: &str) -> Hmac<Sha256> {
    let mut mac = keyed(secret);
    for part in [method.as_bytes(), signed_url.as_bytes(), body, timestamp.as_bytes()] {
        mac.update(part);
    }
    mac
}

fn is_old_signature(
    secret: &SecretString,
    version: SignatureVersion,
    request: &SignedRequest<'_>,
    given: &[u8; DIGEST_BYTES],
) -> bool {
    let mut digest = Sha256::new();
    digest.update(secret.expose_secret());
    if version == SignatureVersion::V2 {
        digest.update(request.method);
        digest.update(request.url);
    }
    digest.update(request.body);
    // Both under a key that the caller does not have: how long comparing takes tells nothing about the digest itself.
    let expected = keyed(secret).chain_update(digest.finalize()).finalize().into_bytes();
    keyed(secret).chain_update(given).verify_slice(&expected).is_ok()
}

fn keyed(secret: &SecretString) -> Hmac<Sha256> {
    #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
    Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes()).expect("any length is a key")
}

fn from_hex(text: &str) -> Result<[u8; DIGEST_BYTES], SignatureError> {
    let malformed = SignatureError::SignatureMalformed;
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * DIGEST_BYTES || !text.bytes().all(is_hex) {
        return Err(malformed);
    }
    let mut bytes = [0; DIGEST_BYTES];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).map_err(|_| malformed)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
