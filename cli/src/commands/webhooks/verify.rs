//! `hubferry webhooks verify`: which part of a signature differs.

use std::io::Read as _;

use anyhow::Context as _;
use hubferry::clock;
use hubferry::config::Environment;
use hubferry::flows::webhook::SecretSource;
use hubferry::model::hubspot_signature::{
    OLD_SIGNATURE_HEADER, OLD_VERSION_HEADER, OldSignatures, SIGNATURE_HEADER, SecretUsed, SignatureError,
    SignatureHeaders, SignatureVersion, SignedRequest, TIMESTAMP_HEADER, Verified, WebhookApp, parse_apps, signed_url,
    verify,
};
use serde_json::{Value, json};

use super::capture::Capture;
use crate::arguments::VerifyArgs;
use crate::end::{End, Misuse};
use crate::output;

/// Largest capture, bytes: a delivery at its largest, as text in JSON.
const MOST_BYTES: u64 = 32 * 1024 * 1024;

pub(super) fn run(args: &VerifyArgs, mut environment: Environment, json: bool) -> anyhow::Result<End> {
    if let Some(url) = &args.url {
        environment.set("HUBFERRY_WEBHOOK_URL", url);
    }
    let settings = environment.webhook();
    environment.finish()?;
    let settings = settings.context("the address of the webhooks is not known")?;
    let apps = apps(settings.secrets)?;
    let capture = Capture::read(&read(args)?).map_err(|fault| Misuse(fault.into()))?;
    let now_ms = args.at.unwrap_or_else(clock::now).as_millisecond();
    let finding = find(&capture, &settings.url, &apps, settings.old_signatures, now_ms);
    let value = json!({"verified": finding.verified, "code": finding.code, "findings": finding.sentences});
    output::result(json, &value, &finding.sentences.join("\n"));
    Ok(if finding.verified { End::Done } else { End::Failed })
}

/// What was found out.
struct Finding {
    verified: bool,
    code: &'static str,
    sentences: Vec<String>,
}

fn find(capture: &Capture, url: &str, apps: &[WebhookApp], accepted: OldSignatures, now_ms: i64) -> Finding {
    let address = address(url, capture.query());
    let found = check(capture, &address, &capture.body, apps, accepted, now_ms);
    let mut sentences = Vec::new();
    let code = match found {
        Ok(verified) => {
            sentences.push(format!("The signature is genuine: {}.", which(verified)));
            return Finding { verified: true, code: "verified", sentences };
        }
        Err(error) => {
            sentences.push(format!("The signature does not verify: {error}."));
            error.code()
        }
    };
    // The age apart: whether the rest fits is worth knowing of an old capture, too.
    let at_ms = capture.all(TIMESTAMP_HEADER).first().and_then(|text| text.parse().ok()).unwrap_or(now_ms);
    let tried = |address: &str, body: &[u8]| check(capture, address, body, apps, accepted, at_ms).ok();
    if let Some(verified) = tried(&address, &capture.body) {
        sentences.push(format!("Everything but the time fits: {}.", which(verified)));
        sentences.push("Say with --at when it arrived; if it was on time then, nothing is wrong with it.".into());
    } else if found == Err(SignatureError::NoSecretMatches) || at_ms != now_ms {
        sentences.extend(differing(capture, url, &address, &tried));
    }
    if let Some(hint) = hint(code) {
        sentences.push(hint.into());
    }
    Finding { verified: false, code, sentences }
}

/// Tries what usually goes wrong, one part at a time.
fn differing(
    capture: &Capture,
    url: &str,
    address: &str,
    tried: &impl Fn(&str, &[u8]) -> Option<Verified>,
) -> Vec<String> {
    let mut sentences = vec![format!("Expected to be signed for {}", signed_url(address))];
    for (what, other) in other_addresses(capture, url) {
        if other != address && tried(&other, &capture.body).is_some() {
            sentences.push(format!("It is signed for {what}: {other}"));
            sentences.push("Give HubSpot and HUBFERRY_WEBHOOK_URL the same address, letter by letter.".into());
            return sentences;
        }
    }
    for (what, body) in other_bodies(&capture.body) {
        if body != capture.body && tried(address, &body).is_some() {
            sentences.push(format!("The body was changed on its way: it fits {what}."));
            return sentences;
        }
    }
    sentences.push("No secret fits, for this address or a similar one, with this body or a similar one.".into());
    sentences.push("So the secret is another app's or was renewed, or the body differs from what HubSpot sent.".into());
    sentences
}

fn other_addresses(capture: &Capture, url: &str) -> Vec<(&'static str, String)> {
    let plain = url.split_once('?').map_or(url, |(plain, _)| plain);
    let query = capture.query();
    let swapped = match plain.split_once("://") {
        Some(("https", rest)) => format!("http://{rest}"),
        Some((_, rest)) => format!("https://{rest}"),
        None => plain.into(),
    };
    let slash = plain.strip_suffix('/').map_or_else(|| format!("{plain}/"), str::to_owned);
    let host = capture.all("host").first().copied().unwrap_or_default();
    let path = match capture.target.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or_else(String::new, |(_, path)| format!("/{path}")),
        None => capture.target.clone(),
    };
    let mut others = vec![
        ("the address without its query", plain.to_owned()),
        ("the other scheme", address(&swapped, query)),
        ("the address with or without a slash at its end", address(&slash, query)),
        ("the host and path of the request", format!("https://{host}{path}")),
        ("the host and path of the request", format!("http://{host}{path}")),
    ];
    if capture.target.contains("://") {
        others.push(("the address of the request", capture.target.clone()));
    }
    others
}

/// What becomes of a body in logs and middleware, undone.
fn other_bodies(body: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let text = String::from_utf8_lossy(body);
    let mut others = vec![
        ("the body without white space around it", text.trim().as_bytes().to_vec()),
        ("the body with the line breaks of Unix", text.replace("\r\n", "\n").into_bytes()),
        ("an empty body", Vec::new()),
    ];
    if let Ok(parsed) = serde_json::from_slice::<Value>(body) {
        others.push(("compact JSON, so something has written it anew", parsed.to_string().into_bytes()));
    }
    others.push(("the body's JSON without white space, so something has formatted it", compact(&text).into_bytes()));
    others
}

/// JSON without the white space between its parts; everything else, and the order of names, stays.
fn compact(text: &str) -> String {
    let (mut within, mut escaped) = (false, false);
    text.chars()
        .filter(|character| {
            let is_space = !within && character.is_ascii_whitespace();
            match (escaped, character) {
                (true, _) => escaped = false,
                (false, '\\') => escaped = within,
                (false, '"') => within = !within,
                _ => {}
            }
            !is_space
        })
        .collect()
}

fn check(
    capture: &Capture,
    address: &str,
    body: &[u8],
    apps: &[WebhookApp],
    accepted: OldSignatures,
    now_ms: i64,
) -> Result<Verified, SignatureError> {
    let (signature, timestamp) = (capture.all(SIGNATURE_HEADER), capture.all(TIMESTAMP_HEADER));
    let (old_signature, old_version) = (capture.all(OLD_SIGNATURE_HEADER), capture.all(OLD_VERSION_HEADER));
    let headers = SignatureHeaders {
        signature: &signature,
        timestamp: &timestamp,
        old_signature: &old_signature,
        old_version: &old_version,
    };
    verify(&SignedRequest { method: &capture.method, url: address, body, headers }, apps, accepted, now_ms)
}

fn which(verified: Verified) -> String {
    let secret = match verified.secret {
        SecretUsed::Current => "current",
        SecretUsed::Next => "next",
    };
    let version = match verified.version {
        SignatureVersion::V1 => "v1",
        SignatureVersion::V2 => "v2",
        SignatureVersion::V3 => "v3",
    };
    format!("{version}, with the {secret} secret of app {} in the list", verified.app + 1)
}

fn hint(code: &str) -> Option<&'static str> {
    match code {
        "missing_header" => {
            Some("HubSpot sends X-HubSpot-Signature-v3 and X-HubSpot-Request-Timestamp: does a proxy take them away?")
        }
        "repeated_header" => Some("A proxy has doubled the header, or joined two requests."),
        "timestamp_malformed" => Some("It counts by its text: seconds, decimals or spaces are not what HubSpot sends."),
        "in_the_future" => Some("Is the clock of this machine slow?"),
        "old_version" => {
            Some("HUBFERRY_WEBHOOK_OLD_SIGNATURES accepts v1 or v2, which have no protection against replays.")
        }
        _ => None,
    }
}

fn address(url: &str, query: Option<&str>) -> String {
    let plain = url.split_once('?').map_or(url, |(plain, _)| plain);
    query.filter(|query| !query.is_empty()).map_or_else(|| plain.to_owned(), |query| format!("{plain}?{query}"))
}

fn apps(secrets: SecretSource) -> anyhow::Result<Vec<WebhookApp>> {
    match secrets {
        SecretSource::Environment(apps) => Ok(apps),
        SecretSource::File(path) => {
            let text = std::fs::read_to_string(&path).with_context(|| format!("{} can't be read", path.display()))?;
            parse_apps(&text).map_err(|error| anyhow::anyhow!("{} {error}", path.display()))
        }
    }
}

fn read(args: &VerifyArgs) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match &args.file {
        Some(path) => {
            let file = std::fs::File::open(path).with_context(|| format!("{} can't be read", path.display()))?;
            file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        }
        None => {
            std::io::stdin().lock().take(MOST_BYTES).read_to_end(&mut bytes)?;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use hubferry::model::hubspot_signature::{ClientSecrets, sign_v3};

    use super::*;

    const SECRET: &str = "a-client-secret-for-tests";
    const URL: &str = "https://hooks.example.test/hubspot";
    const AT: &str = "1790000001000";
    const AT_MS: i64 = 1_790_000_001_000;

    fn app(current: &str, next: Option<&str>) -> WebhookApp {
        let secrets = ClientSecrets { current: current.into(), next: next.map(Into::into) };
        WebhookApp { app_id: None, portal_id: None, secrets }
    }

    /// A request that was signed over this address and body, and arrived with another body.
    fn capture(signed_for: &str, signed_body: &str, body: &str) -> Capture {
        let signature = sign_v3(&SECRET.into(), "POST", signed_for, signed_body.as_bytes(), AT);
        let headers =
            [(SIGNATURE_HEADER, signature.as_str()), (TIMESTAMP_HEADER, AT), ("host", "inner.example.test:8080")];
        Capture {
            method: "POST".into(),
            target: "/hubspot".into(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            body: body.as_bytes().to_vec(),
        }
    }

    fn found(capture: &Capture, now_ms: i64) -> (&'static str, String) {
        let finding =
            find(capture, URL, &[app("the-secret-of-another-app", Some(SECRET))], OldSignatures::default(), now_ms);
        let text = finding.sentences.join("\n");
        let right = sign_v3(&SECRET.into(), "POST", URL, &capture.body, AT);
        assert!(!text.contains(SECRET) && (finding.verified || !text.contains(&right)), "{text}");
        (finding.code, text)
    }

    #[test]
    fn a_genuine_signature_names_the_secret_by_its_place() {
        let (code, text) = found(&capture(URL, "[1]", "[1]"), AT_MS);
        assert_eq!(code, "verified");
        assert!(text.contains("the next secret of app 1"), "{text}");
    }

    #[test]
    fn an_old_capture_is_checked_for_all_but_its_age() {
        let (code, text) = found(&capture(URL, "[1]", "[1]"), AT_MS + 3_600_000);
        assert_eq!(code, "too_old");
        assert!(text.contains("3600000 ms old") && text.contains("Everything but the time fits"), "{text}");
        let (code, text) = found(&capture(&format!("{URL}/"), "[1]", "[1]"), AT_MS + 3_600_000);
        assert_eq!(code, "too_old");
        assert!(text.contains("slash at its end"), "{text}");
    }

    #[test]
    fn another_address_is_named() {
        for (signed_for, expected) in [
            ("https://hooks.example.test/hubspot/", "slash at its end"),
            ("http://hooks.example.test/hubspot", "the other scheme"),
            ("http://inner.example.test:8080/hubspot", "host and path of the request"),
        ] {
            let (code, text) = found(&capture(signed_for, "[1]", "[1]"), AT_MS);
            assert_eq!(code, "no_secret_matches");
            assert!(text.contains(expected) && text.contains(signed_for), "{text}");
        }
        let mut with_query = capture(URL, "[1]", "[1]");
        with_query.target = "/hubspot?a=b".into();
        assert!(found(&with_query, AT_MS).1.contains("without its query"));
    }

    #[test]
    fn a_body_that_was_written_anew_is_named() {
        let compact = r#"[{"b":"x y","a":"\"q\" {"}]"#;
        for (body, expected) in [
            ("[ {\n \"b\": \"x y\", \"a\": \"\\\"q\\\" {\"\n} ]", "JSON without white space"),
            (&format!("{compact}\n")[..], "white space around it"),
        ] {
            let (_, text) = found(&capture(URL, compact, body), AT_MS);
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn what_fits_nothing_is_said_to_be_the_secret_or_the_body() {
        let mut foreign = capture(URL, "[1]", "[1]");
        foreign.headers[0].1 = sign_v3(&"a-secret-nobody-has-here".into(), "POST", URL, b"[1]", AT);
        let (code, text) = found(&foreign, AT_MS);
        assert_eq!(code, "no_secret_matches");
        assert!(text.contains("the secret is another app's"), "{text}");
        foreign.headers.remove(0);
        assert_eq!(found(&foreign, AT_MS).0, "missing_header");
    }
}
