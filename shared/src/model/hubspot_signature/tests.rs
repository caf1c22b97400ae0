use proptest::prelude::*;

use super::*;

/// The secret of the published examples.
const SECRET: &str = "yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy";
const URL: &str = "https://www.example.com/webhook_uri";
const BODY: &[u8] = b"{'example_field':'example_value'}";
const AT: &str = "1693657560000";
const AT_MS: i64 = 1_693_657_560_000;
const SIGNATURE: &str = "K36dawei4A+QBNolUOqo7s91KQDWQ5MXZ/QufNYuk/Y=";

fn secrets(current: &str, next: Option<&str>) -> Vec<WebhookApp> {
    let secrets = ClientSecrets { current: current.into(), next: next.map(SecretString::from) };
    vec![WebhookApp { app_id: None, portal_id: None, secrets }]
}

fn check(
    url: &str,
    body: &[u8],
    signature: &[&str],
    timestamp: &[&str],
    now_ms: i64,
) -> Result<Verified, SignatureError> {
    let headers = SignatureHeaders { signature, timestamp, ..SignatureHeaders::default() };
    let request = SignedRequest { method: "POST", url, body, headers };
    verify(&request, &secrets(SECRET, None), OldSignatures::default(), now_ms)
}

fn check_old(
    method: &str,
    body: &[u8],
    version: &str,
    signature: &str,
    accepted: OldSignatures,
) -> Result<Verified, SignatureError> {
    let headers =
        SignatureHeaders { old_signature: &[signature], old_version: &[version], ..SignatureHeaders::default() };
    let request = SignedRequest { method, url: "https://www.example.com/webhook_uri", body, headers };
    verify(&request, &secrets(SECRET, None), accepted, AT_MS)
}

#[test]
fn the_published_examples_of_v3_verify() {
    let examples = [(AT, SIGNATURE), ("1700000300000", "RnbPH7+UMKVkbV32P8bz450N4M56aPmcru1+D3kSDtw=")];
    for (timestamp, signature) in examples {
        let now = timestamp.parse().unwrap();
        let verified = check(URL, BODY, &[signature], &[timestamp], now);
        assert_eq!(verified, Ok(Verified { app: 0, secret: SecretUsed::Current, version: SignatureVersion::V3 }));
        assert_eq!(sign_v3(&SECRET.into(), "POST", URL, BODY, timestamp), signature);
    }
}

#[test]
fn an_address_with_escapes_and_a_body_beyond_ascii_verify() {
    let arrived = "https://hooks.example.test/hubspot?src=a%3Ab%2Fc&n=%20x";
    let body = "[{\"propertyValue\":\"Zoë 🎉\"}]".as_bytes();
    let signature = sign_v3(&"test-secret".into(), "POST", arrived, body, "1767225600000");
    assert_eq!(signature, "+WN3q+I653y+qR3FPyH4R2yK/oPidKqc241qFTKEzPw=");
}

#[test]
fn the_published_examples_of_v1_and_v2_verify_only_where_they_are_accepted() {
    let v1_body = br#"[{"eventId":1,"subscriptionId":12345,"portalId":62515,"occurredAt":1564113600000,"subscriptionType":"contact.creation","attemptNumber":0,"objectId":123,"changeSource":"CRM","changeFlag":"NEW","appId":54321}]"#;
    let v1 = "232db2615f3d666fe21a8ec971ac7b5402d33b9a925784df3ca654d05f4817de";
    let get = "eee2dddcc73c94d699f5e395f4b9d454a069a6855fbfa152e91e88823087200e";
    let post = "9569219f8ba981ffa6f6f16aa0f48637d35d728c7e4d93d0d52efaa512af7900";
    let post_body = br#"{"example_field":"example_value"}"#;
    let (only_v1, only_v2) = (OldSignatures { v1: true, v2: false }, OldSignatures { v1: false, v2: true });
    assert_eq!(check_old("POST", v1_body, "v1", v1, only_v1).map(|found| found.version), Ok(SignatureVersion::V1));
    assert_eq!(check_old("GET", b"", "v2", get, only_v2).map(|found| found.version), Ok(SignatureVersion::V2));
    assert_eq!(check_old("POST", post_body, "v2", post, only_v2).map(|found| found.version), Ok(SignatureVersion::V2));
    assert_eq!(check_old("POST", v1_body, "v1", v1, only_v2), Err(SignatureError::OldVersion));
    assert_eq!(check_old("POST", post_body, "v2", post, OldSignatures::default()), Err(SignatureError::OldVersion));
    assert_eq!(check_old("POST", b"x", "v1", v1, only_v1), Err(SignatureError::NoSecretMatches));
    assert_eq!(check_old("POST", v1_body, "v1", &v1.to_uppercase(), only_v1), Err(SignatureError::SignatureMalformed));
}

#[test]
fn an_older_signature_beside_a_wrong_newer_one_does_not_help() {
    let headers = SignatureHeaders {
        signature: &["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="],
        timestamp: &[AT],
        old_signature: &["eee2dddcc73c94d699f5e395f4b9d454a069a6855fbfa152e91e88823087200e"],
        old_version: &["v2"],
    };
    let request = SignedRequest { method: "GET", url: "https://www.example.com/webhook_uri", body: b"", headers };
    let accepted = OldSignatures { v1: true, v2: true };
    assert_eq!(verify(&request, &secrets(SECRET, None), accepted, AT_MS), Err(SignatureError::NoSecretMatches));
}

#[test]
fn exactly_twelve_escapes_are_decoded_and_each_once() {
    for byte in 0..=u8::MAX {
        let decoded = ":/?@!$'(),*;".contains(char::from(byte)) && byte.is_ascii();
        for escape in [format!("%{byte:02X}"), format!("%{byte:02x}")] {
            let expected = if decoded { char::from(byte).to_string() } else { escape.clone() };
            assert_eq!(signed_url(&escape), expected);
        }
    }
    assert_eq!(signed_url("/a?b=%253A&c=%25%33A&d=+%"), "/a?b=%253A&c=%25%33A&d=+%");
    assert_eq!(signed_url("%3"), "%3");
    assert_eq!(signed_url("%é%3a"), "%é:");
}

#[test]
fn the_window_is_five_minutes_back_and_one_ahead() {
    let at = |now_ms| check(URL, BODY, &[SIGNATURE], &[AT], now_ms).map(|_| ());
    assert_eq!(at(AT_MS + MOST_AGE_MS), Ok(()));
    assert_eq!(at(AT_MS + MOST_AGE_MS + 1), Err(SignatureError::TooOld { age_ms: 300_001 }));
    assert_eq!(at(AT_MS - MOST_AHEAD_MS), Ok(()));
    assert_eq!(at(AT_MS - MOST_AHEAD_MS - 1), Err(SignatureError::InTheFuture { ahead_ms: 60_001 }));
}

#[test]
fn a_timestamp_is_thirteen_digits_and_nothing_else_however_it_was_signed() {
    let odd = [
        "1693657560",
        "1693657560000.0",
        " 1693657560000",
        "+1693657560000",
        "abc",
        "99999999999999999999",
        "१६९३६५७५६००००",
    ];
    for timestamp in odd {
        let signature = sign_v3(&SECRET.into(), "POST", URL, BODY, timestamp);
        let found = check(URL, BODY, &[&signature], &[timestamp], AT_MS);
        assert_eq!(found, Err(SignatureError::TimestampMalformed), "{timestamp}");
    }
}

#[test]
fn headers_that_are_missing_repeated_or_malformed_are_named() {
    let with = |signature: &[&str], timestamp: &[&str]| check(URL, BODY, signature, timestamp, AT_MS).unwrap_err();
    assert_eq!(with(&[], &[AT]), SignatureError::MissingHeader(SIGNATURE_HEADER));
    assert_eq!(with(&[""], &[AT]), SignatureError::MissingHeader(SIGNATURE_HEADER));
    assert_eq!(with(&[SIGNATURE], &[]), SignatureError::MissingHeader(TIMESTAMP_HEADER));
    assert_eq!(with(&[SIGNATURE, SIGNATURE], &[AT]), SignatureError::RepeatedHeader(SIGNATURE_HEADER));
    assert_eq!(with(&[SIGNATURE], &[AT, AT]), SignatureError::RepeatedHeader(TIMESTAMP_HEADER));
    let joined = format!("{SIGNATURE}, {SIGNATURE}");
    for malformed in ["abc", "%%%", "eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eA==", &joined] {
        assert_eq!(with(&[malformed], &[AT]), SignatureError::SignatureMalformed, "{malformed}");
    }
}

#[test]
fn the_next_secret_and_any_app_of_the_list_verify_and_are_named() {
    let mut list = secrets("other", Some(SECRET));
    let headers = SignatureHeaders { signature: &[SIGNATURE], timestamp: &[AT], ..SignatureHeaders::default() };
    let request = SignedRequest { method: "POST", url: URL, body: BODY, headers };
    let found = verify(&request, &list, OldSignatures::default(), AT_MS).unwrap();
    assert_eq!((found.app, found.secret), (0, SecretUsed::Next));
    list.splice(0..0, secrets("third", None));
    let found = verify(&request, &list, OldSignatures::default(), AT_MS).unwrap();
    assert_eq!((found.app, found.secret), (1, SecretUsed::Next));
    assert_eq!(verify(&request, &[], OldSignatures::default(), AT_MS), Err(SignatureError::NoSecretMatches));
}

#[test]
fn no_error_shows_a_secret_or_the_right_signature() {
    let wrong = check(URL, b"x", &[SIGNATURE], &[AT], AT_MS).unwrap_err();
    let right = sign_v3(&SECRET.into(), "POST", URL, b"x", AT);
    let shown = format!("{wrong} {wrong:?} {:?}", secrets(SECRET, Some(SECRET)));
    assert!(!shown.contains(SECRET) && !shown.contains(&right), "{shown}");
}

proptest! {
    #[test]
    fn what_was_signed_verifies_and_any_other_byte_does_not(
        path in "[a-zA-Z0-9/?&=%+ ]{0,60}", body in prop::collection::vec(any::<u8>(), 0..200), place: prop::sample::Index, flip in 1_u8..,
    ) {
        let url = format!("https://hooks.example.test/{path}");
        let signature = sign_v3(&SECRET.into(), "POST", &url, &body, AT);
        prop_assert!(check(&url, &body, &[&signature], &[AT], AT_MS).is_ok());
        let mut other = body.clone();
        other.push(0);
        prop_assert!(check(&url, &other, &[&signature], &[AT], AT_MS).is_err());
        if !body.is_empty() {
            other = body;
            let place = place.index(other.len());
            other[place] ^= flip;
            prop_assert!(check(&url, &other, &[&signature], &[AT], AT_MS).is_err());
        }
    }

    #[test]
    fn no_header_whatever_panics(signature in ".*", timestamp in ".*", old in ".*", version in "v1|v2|.*", url in ".*") {
        let headers = SignatureHeaders { signature: &[&signature], timestamp: &[&timestamp], ..SignatureHeaders::default() };
        let request = SignedRequest { method: "POST", url: &url, body: b"", headers };
        let accepted = OldSignatures { v1: true, v2: true };
        prop_assert!(verify(&request, &secrets(SECRET, None), accepted, AT_MS).is_err());
        let headers = SignatureHeaders { old_signature: &[&old], old_version: &[&version], ..SignatureHeaders::default() };
        let request = SignedRequest { headers, ..request };
        prop_assert!(verify(&request, &secrets(SECRET, None), accepted, AT_MS).is_err());
    }

    #[test]
    fn decoding_only_ever_touches_the_twelve(url in "[a-z%0-9A-F:/?&=]{0,80}") {
        let decoded = signed_url(&url);
        prop_assert!(decoded.len() <= url.len());
        prop_assert_eq!(decoded.contains('%') || !url.contains('%') || decoded.len() < url.len(), true);
    }
}
