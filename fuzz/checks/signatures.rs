//! What holds for any request whatsoever whose signature is checked.

use hubferry::model::hubspot_signature::{
    ClientSecrets, OldSignatures, SecretUsed, SignatureHeaders, SignedRequest, WebhookApp, sign_v3, signed_url, verify,
};
use secrecy::SecretString;

/// The instant at which all requests come in, ms since 1970.
const NOW_MS: i64 = 1_790_000_000_000;

const OLD_SIGNATURES: [OldSignatures; 2] =
    [OldSignatures { v1: false, v2: false }, OldSignatures { v1: true, v2: true }];

/// The only characters whose escapes are decoded.
const DECODED: [char; 12] = [':', '/', '?', '@', '!', '$', '\'', '(', ')', '*', ',', ';'];

/// Takes the bytes for a request: method, address, timestamp, signature, older signature and its version, a line each, then
/// the body. An empty line is a header that is missing.
pub(crate) fn check(request: &[u8]) {
    let mut lines = request.splitn(7, |byte| *byte == b'\n');
    let mut line = || std::str::from_utf8(lines.next().unwrap_or_default()).unwrap_or_default();
    let (method, url, timestamp, signature, old, version) = (line(), line(), line(), line(), line(), line());
    let body = lines.next().unwrap_or_default();
    check_address(url);
    let apps = [app("first", None), app("second", Some("third"))];
    let (signatures, timestamps) = (values(signature), values(timestamp));
    let (olds, versions) = (values(old), values(version));
    let headers = SignatureHeaders {
        signature: &signatures,
        timestamp: &timestamps,
        old_signature: &olds,
        old_version: &versions,
    };
    for accepted in OLD_SIGNATURES {
        let verified = verify(&SignedRequest { method, url, body, headers }, &apps, accepted, NOW_MS);
        assert!(verified.is_err(), "a signature by nobody");
    }
    check_genuine(method, url, body, &apps);
}

/// A genuine request is taken, and nothing that differs from it by a byte.
fn check_genuine(method: &str, url: &str, body: &[u8], apps: &[WebhookApp]) {
    let timestamp = NOW_MS.to_string();
    let signature = sign_v3(&SecretString::from("third"), method, url, body, &timestamp);
    let headers =
        SignatureHeaders { signature: &[&signature], timestamp: &[&timestamp], ..SignatureHeaders::default() };
    let request = SignedRequest { method, url, body, headers };
    let verified = verify(&request, apps, OldSignatures::default(), NOW_MS).expect("a genuine request");
    assert_eq!((verified.app, verified.secret), (1, SecretUsed::Next));
    let longer = [body, b"x"].concat();
    assert!(verify(&SignedRequest { body: &longer, ..request }, apps, OldSignatures::default(), NOW_MS).is_err());
    let mut changed = body.to_vec();
    if let Some(byte) = changed.first_mut() {
        *byte ^= 1;
        assert!(verify(&SignedRequest { body: &changed, ..request }, apps, OldSignatures::default(), NOW_MS).is_err());
    }
}

fn values(line: &str) -> Vec<&str> {
    if line.is_empty() { Vec::new() } else { vec![line] }
}

/// Decoding, against another way to do it: each escape by itself, everywhere.
fn check_address(url: &str) {
    let decoded = signed_url(url);
    let mut expected = url.to_owned();
    for character in DECODED {
        for escape in [format!("%{:02X}", u32::from(character)), format!("%{:02x}", u32::from(character))] {
            expected = expected.replace(&escape, &character.to_string());
        }
    }
    assert_eq!(decoded, expected);
    assert_eq!(signed_url(&decoded), decoded);
}

fn app(current: &str, next: Option<&str>) -> WebhookApp {
    let secrets = ClientSecrets { current: current.into(), next: next.map(SecretString::from) };
    WebhookApp { app_id: None, portal_id: None, secrets }
}
