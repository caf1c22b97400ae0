//! A request as somebody captured it: as HTTP writes it, as JSON, or as an event of API Gateway.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

/// A captured request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Capture {
    pub(super) method: String,
    /// Path or address, with its query.
    pub(super) target: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Capture {
    /// Reads what was captured. The fault says what is missing, in words.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        match serde_json::from_slice::<Value>(bytes) {
            Ok(value) if value["requestContext"].is_object() => Ok(Self::of_event(&value)?),
            Ok(value) => Self::of_json(&value),
            Err(_) => Self::of_http(bytes),
        }
    }

    /// The values that came under a header's name.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(header, _)| header == name).map(|(_, value)| value.as_str()).collect()
    }

    /// The query, without the question mark.
    pub(super) fn query(&self) -> Option<&str> {
        self.target.split_once('?').map(|(_, query)| query)
    }

    fn of_json(value: &Value) -> Result<Self, &'static str> {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        Ok(Self {
            method: text("method").unwrap_or_else(|| "POST".into()).to_uppercase(),
            target: text("url").ok_or("the JSON has no url")?,
            headers: headers(&value["headers"]),
            body: text("body").ok_or("the JSON has no body: write it as text, not as JSON in JSON")?.into_bytes(),
        })
    }

    fn of_event(value: &Value) -> Result<Self, &'static str> {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let query = text("/rawQueryString");
        let target = if query.is_empty() { text("/rawPath").into() } else { format!("{}?{query}", text("/rawPath")) };
        let body = text("/body");
        let body = match value["isBase64Encoded"].as_bool() {
            Some(true) => BASE64_STANDARD.decode(body).map_err(|_| "the body is no base64")?,
            _ => body.as_bytes().to_vec(),
        };
        let headers = headers(&value["headers"]);
        Ok(Self { method: text("/requestContext/http/method").to_uppercase(), target, headers, body })
    }

    fn of_http(bytes: &[u8]) -> Result<Self, &'static str> {
        const EXPECTED: &str =
            "it is neither JSON nor a request as HTTP writes it: request line, headers, empty line, body";
        let (head, body) = split(bytes).ok_or(EXPECTED)?;
        let head = std::str::from_utf8(head).map_err(|_| EXPECTED)?;
        let mut lines = head.lines();
        let mut first = lines.next().ok_or(EXPECTED)?.split_whitespace();
        let (method, target) = first.next().zip(first.next()).ok_or(EXPECTED)?;
        let headers = lines.map(|line| line.split_once(':').ok_or(EXPECTED));
        let headers =
            headers.map(|pair| pair.map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned())));
        Ok(Self {
            method: method.to_uppercase(),
            target: target.to_owned(),
            headers: headers.collect::<Result<Vec<_>, _>>()?,
            body: body.to_vec(),
        })
    }
}

/// Head and body, at the first empty line.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = |mark: &[u8]| bytes.windows(mark.len()).position(|window| window == mark).map(|at| (at, at + mark.len()));
    let (head, body) = [at(b"\r\n\r\n"), at(b"\n\n")].into_iter().flatten().min()?;
    Some((&bytes[..head], &bytes[body..]))
}

/// A value, or a list of them, by name.
fn headers(value: &Value) -> Vec<(String, String)> {
    let of = |(name, value): (&String, &Value)| -> Vec<(String, String)> {
        let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        let texts = values.into_iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        texts.map(|text| (name.to_lowercase(), text)).collect()
    };
    value.as_object().into_iter().flatten().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_request_is_read_in_every_form() {
        let http = b"post /hook?a=b HTTP/1.1\r\nHost: hooks.example.test\r\nX-HubSpot-Signature-v3: abc=\r\n\r\n[1]\n";
        let found = Capture::read(http).unwrap();
        assert_eq!((found.method.as_str(), found.query(), found.body.as_slice()), ("POST", Some("a=b"), &b"[1]\n"[..]));
        assert_eq!(found.all("x-hubspot-signature-v3"), ["abc="]);
        let json =
            br#"{"url": "/hook?a=b", "headers": {"X-HubSpot-Signature-v3": ["abc=", "d"], "n": 17}, "body": "[1]\n"}"#;
        let found = Capture::read(json).unwrap();
        assert_eq!((found.all("x-hubspot-signature-v3"), found.all("n")), (vec!["abc=", "d"], vec!["17"]));
        let event = br#"{"rawPath": "/hook", "rawQueryString": "a=b", "requestContext": {"http": {"method": "POST"}},
                         "headers": {}, "body": "WzFd", "isBase64Encoded": true}"#;
        let found = Capture::read(event).unwrap();
        assert_eq!((found.target.as_str(), found.body.as_slice()), ("/hook?a=b", &b"[1]"[..]));
    }

    #[test]
    fn what_is_no_request_is_named() {
        for bytes in [&b""[..], b"[1]", b"{}", b"POST /\n", br#"{"url": "/", "body": []}"#, b"\xff\n\n"] {
            assert!(Capture::read(bytes).is_err(), "{bytes:?}");
        }
    }
}
