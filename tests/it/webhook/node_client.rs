//! Signatures of HubSpot's own client library for Node, against ours: what it makes verifies here, and what we make there.
//!
//! The library signs an address as it is given and decodes none of its escapes, though HubSpot's documentation names twelve
//! that are. So the requests have other escapes only, and one test holds on to the difference.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use axum::body::Body;
use axum::http::Request;
use hubferry::flows::webhook::{LOCAL_PATH, SecretSource, Webhook, WebhookSettings};
use hubferry::model::hubspot_signature::{
    OldSignatures, SignatureHeaders, SignatureVersion, SignedRequest, sign_v3, signed_url, verify,
};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::{Hooks, PORTAL, SECRET, URL, app, change, now, send, settings};

/// The folder into which `make test` installs the library.
const MODULES_VARIABLE: &str = "HUBFERRY_TEST_NODE_MODULES";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/it/webhook/node_client.js");

/// A request to be signed.
struct Signable {
    method: &'static str,
    url: String,
    body: String,
    secret: &'static str,
}

/// What the library says of one.
struct Said {
    v1: String,
    v2: String,
    v3: String,
    genuine: bool,
}

fn requests() -> Vec<Signable> {
    let with = |method, url: &str, body: &str, secret| Signable { method, url: url.into(), body: body.into(), secret };
    let plain = json!([change(json!({}))]).to_string();
    let unicode = json!([change(json!({"propertyValue": "Zoë 🦊 naïve — İstanbul, 東京\u{200d}"}))]).to_string();
    let spaced = "[ {\"eventId\" : 1 ,\r\n\t\"propertyValue\":\"\\u00eb \\/\"} ]\n";
    vec![
        with("POST", URL, &plain, SECRET),
        with("POST", URL, &unicode, SECRET),
        with("POST", URL, spaced, SECRET),
        with("GET", URL, "", SECRET),
        with("POST", &format!("{URL}?src=hs&n=1"), &plain, SECRET),
        with("POST", &format!("{URL}?sp=a%20b&plus=a+b&amp=%26&eq=%3D&pct=%25&e=&e="), &plain, SECRET),
        with("POST", &format!("{URL}?name=Zo%C3%AB&raw=Zoë&fox=🦊"), &unicode, SECRET),
        with("PUT", &format!("{URL}/?a:b/c@d!$'()*,;=?x"), &plain, SECRET),
        with("POST", &format!("{URL}?a=1"), &unicode, "geheim-🔑-ë"),
    ]
}

#[tokio::test]
async fn what_hubspots_node_client_signs_verifies_here_and_what_is_signed_here_verifies_there() {
    let Some(modules) = modules() else { return };
    let (requests, timestamp) = (requests(), now().as_millisecond().to_string());
    let sign = |request: &Signable| {
        sign_v3(&request.secret.into(), request.method, &request.url, request.body.as_bytes(), &timestamp)
    };
    let said = ask(&modules, &requests, &timestamp, requests.iter().map(sign).collect()).await;
    for (request, said) in requests.iter().zip(said) {
        let url = &request.url;
        assert!(said.genuine, "{url}: the library takes our signature");
        assert_eq!(verified(request, &timestamp, &said.v3, None), Some(SignatureVersion::V3), "{url}");
        assert_eq!(verified(request, &timestamp, &said.v1, Some("v1")), Some(SignatureVersion::V1), "{url}");
        assert_eq!(verified(request, &timestamp, &said.v2, Some("v2")), Some(SignatureVersion::V2), "{url}");
        let other = Signable { body: format!("{} ", request.body), url: url.clone(), ..*request };
        assert_eq!(verified(&other, &timestamp, &said.v3, None), None, "{url}: another body");
    }
}

#[tokio::test]
async fn a_signature_over_something_else_is_refused_by_both() {
    let Some(modules) = modules() else { return };
    let (requests, timestamp) = (requests(), now().as_millisecond().to_string());
    let longer = |request: &Signable| {
        sign_v3(
            &request.secret.into(),
            request.method,
            &request.url,
            format!("{} ", request.body).as_bytes(),
            &timestamp,
        )
    };
    let signatures: Vec<String> = requests.iter().map(longer).collect();
    let said = ask(&modules, &requests, &timestamp, signatures.clone()).await;
    for ((request, said), signature) in requests.iter().zip(said).zip(signatures) {
        assert!(!said.genuine, "{}", request.url);
        assert_eq!(verified(request, &timestamp, &signature, None), None, "{}", request.url);
    }
}

#[tokio::test]
async fn the_library_decodes_no_escape_and_signs_the_decoded_address_as_we_do() {
    let Some(modules) = modules() else { return };
    let escaped = format!("{URL}?src=hs%3Aapp%2Fv1&tag=%28blue%29");
    let request = |url: String| Signable { method: "POST", url, body: "[]".into(), secret: SECRET };
    let requests = [request(escaped.clone()), request(signed_url(&escaped))];
    let timestamp = now().as_millisecond().to_string();
    let ours = sign_v3(&SECRET.into(), "POST", &escaped, b"[]", &timestamp);
    let said = ask(&modules, &requests, &timestamp, vec![ours.clone(), ours.clone()]).await;
    assert_eq!((said[0].genuine, said[1].genuine), (false, true));
    assert_ne!(said[0].v3, ours);
    assert_eq!(said[1].v3, ours);
}

#[tokio::test]
async fn a_delivery_that_the_library_signed_is_stored() {
    let Some(modules) = modules() else { return };
    let hooks = Hooks::new().await;
    let source = SecretSource::Environment(vec![app(SECRET, None)]);
    let router = Webhook::new(hooks.setting.db.clone(), WebhookSettings { ..settings(source) }).router();
    let queries = ["", "?src=hs&sp=a%20b&name=Zo%C3%AB"];
    let delivery = |(event_id, query): (usize, &&str)| Signable {
        method: "POST",
        url: format!("{URL}{query}"),
        body: json!([change(json!({"eventId": event_id, "portalId": PORTAL, "propertyValue": "Zoë 🦊"}))]).to_string(),
        secret: SECRET,
    };
    let deliveries: Vec<Signable> = queries.iter().enumerate().map(delivery).collect();
    let timestamp = now().as_millisecond().to_string();
    let said = ask(&modules, &deliveries, &timestamp, vec![String::new(); deliveries.len()]).await;
    for ((query, delivery), said) in queries.iter().zip(deliveries).zip(said) {
        let request = Request::post(format!("{LOCAL_PATH}{query}"))
            .header("x-hubspot-request-timestamp", &timestamp)
            .header("x-hubspot-signature-v3", said.v3);
        let answer = send(&router, request.body(Body::from(delivery.body)).expect("a request")).await;
        assert_eq!((answer.status, answer.counts()), (200, [1, 0, 0]), "{query:?}: {}", answer.body);
    }
    assert_eq!(hooks.count("webhook_events where property_value = 'Zoë 🦊'").await, 2);
}

/// Which version the signature is taken for, if it is taken.
fn verified(request: &Signable, timestamp: &str, signature: &str, old: Option<&str>) -> Option<SignatureVersion> {
    let (signatures, versions) = ([signature], old.map(|version| [version]));
    let headers = match &versions {
        None => SignatureHeaders { signature: &signatures, timestamp: &[timestamp], ..SignatureHeaders::default() },
        Some(versions) => {
            SignatureHeaders { old_signature: &signatures, old_version: versions, ..SignatureHeaders::default() }
        }
    };
    let signed = SignedRequest { method: request.method, url: &request.url, body: request.body.as_bytes(), headers };
    let accepted = OldSignatures { v1: true, v2: true };
    let apps = [app(request.secret, None)];
    verify(&signed, &apps, accepted, now().as_millisecond()).ok().map(|verified| verified.version)
}

/// Has the library sign these, and check a signature of each.
async fn ask(modules: &PathBuf, requests: &[Signable], timestamp: &str, signatures: Vec<String>) -> Vec<Said> {
    let timestamp: i64 = timestamp.parse().expect("milliseconds");
    let ask = |(request, signature): (&Signable, String)| {
        json!({"method": request.method, "url": request.url, "body": request.body, "secret": request.secret,
               "timestamp": timestamp, "signature": signature})
    };
    let input = Value::from(requests.iter().zip(signatures).map(ask).collect::<Vec<Value>>()).to_string();
    let mut command = Command::new("node");
    command.arg(SCRIPT).env("NODE_PATH", modules).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut node = command.spawn().expect("node starts");
    node.stdin.take().expect("its input").write_all(input.as_bytes()).await.expect("it reads");
    let output = node.wait_with_output().await.expect("it ends");
    assert!(output.status.success(), "the script failed");
    let said: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(said.len(), requests.len());
    let text = |said: &Value, name: &str| said[name].as_str().expect("a signature").to_owned();
    let said = said.iter().map(|said| Said {
        v1: text(said, "v1"),
        v2: text(said, "v2"),
        v3: text(said, "v3"),
        genuine: said["genuine"] == json!(true),
    });
    said.collect()
}

/// Where the library is. Without it the test is left out, and says so where the test runner does not swallow it.
#[expect(clippy::disallowed_methods, reason = "the test's own setting, which no function of hubferry knows")]
fn modules() -> Option<PathBuf> {
    let folder = std::env::var_os(MODULES_VARIABLE).map(PathBuf::from);
    let found = folder.filter(|folder| folder.join("@hubspot/api-client").is_dir());
    if found.is_none() {
        let note = "LEFT OUT: a comparison with HubSpot's client for Node, which `make test` installs where Node and npm are\n";
        let _ = std::io::stderr().write_all(note.as_bytes());
    }
    found
}
