//! From bytes to the document that the database's door takes.
//!
//! Only what JSON and HTTP demand is looked at here. What a request must hold is said in one place, the door itself.

use axum::http::HeaderMap;
use rand::Rng as _;
use serde_json::{Value, json};

use super::problem::Problem;
use super::tokens::Brands;
use crate::adapters::db::AcceptFault;
use crate::model::email::with_ascii_domain;

/// A request that the database is not shown, and why.
pub(super) struct Faulty(pub(super) AcceptFault);

/// The header that carries the key of a single request.
const KEY_HEADER: &str = "Idempotency-Key";

/// The member that carries it in a batch, and at the database's door.
const KEY_MEMBER: &str = "idempotency_key";

/// Characters of a caller's own name for a field that an answer repeats.
const MOST_SHOWN: usize = 100;

/// Reads JSON; says line and column when it is none. The reader's messages name no values.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, Problem> {
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::malformed(format!("the body can't be read as JSON: {error}")))
}

/// The key comes by header, so that proxies and client libraries can see it.
pub(super) fn add_idempotency_key(request: &mut Value, headers: &HeaderMap) -> Result<(), Problem> {
    let Value::Object(members) = request else {
        return Err(Problem::invalid("invalid_request", "", "the body must be an object"));
    };
    if members.contains_key(KEY_MEMBER) {
        return Err(Problem::invalid(
            "unknown_field",
            KEY_MEMBER,
            "idempotency_key goes into the header Idempotency-Key",
        ));
    }
    let mut keys = headers.get_all("idempotency-key").iter();
    let (Some(key), None) = (keys.next(), keys.next()) else {
        return Err(Problem::invalid(
            "invalid_idempotency_key",
            KEY_HEADER,
            "send one header Idempotency-Key of 1 to 255 visible ASCII characters, a new one for each new request",
        ));
    };
    members.insert(KEY_MEMBER.into(), json!(String::from_utf8_lossy(key.as_bytes())));
    Ok(())
}

/// A fault of the key names the header, since that is where the caller of a single request has put it.
pub(super) fn name_header(mut fault: AcceptFault) -> AcceptFault {
    if fault.field == KEY_MEMBER {
        KEY_HEADER.clone_into(&mut fault.field);
    }
    fault
}

/// Takes the requests out of a batch's body.
pub(super) fn batch(body: Value, most: usize) -> Result<Vec<Value>, Problem> {
    let Value::Object(mut members) = body else {
        return Err(Problem::invalid("invalid_request", "", "the body must be an object with a member `requests`"));
    };
    let requests = members.remove("requests");
    if let Some(name) = members.keys().next() {
        let shown: String = name.chars().take(MOST_SHOWN).collect();
        return Err(Problem::invalid("unknown_field", &shown, "a batch has one member, `requests`"));
    }
    match requests {
        Some(Value::Array(requests)) if (1..=most).contains(&requests.len()) => Ok(requests),
        _ => Err(Problem::invalid(
            "invalid_request",
            "requests",
            format!("requests must be an array of 1 to {most} requests"),
        )),
    }
}

/// A caller acts for its own brands. A request without a readable brand is left to the door, which names the field.
pub(super) fn check_brand(request: &Value, brands: &Brands) -> Result<(), Problem> {
    match request.get("brand").and_then(Value::as_str) {
        Some(brand) if !brands.contains(brand) => Err(Problem::foreign_brand(
            Some("brand"),
            "this token may not act for the brand; use one that was created for it",
        )),
        _ => Ok(()),
    }
}

/// Makes a request fit for the database: an international domain in its ASCII form, and no U+0000, which PostgreSQL can't
/// hold. A request that has one becomes null and is answered by the fault that is returned.
pub(super) fn prepare(request: &mut Value) -> Option<Faulty> {
    if let Some(field) = nul_field(request, "") {
        *request = Value::Null;
        let detail = "holds the character U+0000, which can't be stored".to_owned();
        return Some(Faulty(AcceptFault { code: "invalid_request".into(), field, detail }));
    }
    if request.is_null() {
        let detail = "must be an object".to_owned();
        return Some(Faulty(AcceptFault { code: "invalid_request".into(), field: String::new(), detail }));
    }
    if let Some(Value::String(email)) = request.pointer_mut("/contact/email")
        && let Some(ascii) = with_ascii_domain(email)
    {
        *email = ascii;
    }
    None
}

/// The path of the first string or name that holds U+0000.
fn nul_field(value: &Value, path: &str) -> Option<String> {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::String(text) => text.contains('\0').then(|| path.to_owned()),
        Value::Array(items) => items.iter().find_map(|item| nul_field(item, path)),
        Value::Object(members) => members.iter().find_map(|(name, member)| {
            if name.contains('\0') { Some(path.to_owned()) } else { nul_field(member, &below(name)) }
        }),
        _ => None,
    }
}

/// The caller's W3C trace context, or a new one: one trace from here to HubSpot's answer.
pub(super) fn traceparent(headers: &HeaderMap) -> String {
    let given = headers.get("traceparent").and_then(|value| value.to_str().ok()).filter(|value| is_traceparent(value));
    given.map_or_else(new_traceparent, str::to_owned)
}

fn is_traceparent(value: &str) -> bool {
    let parts: Vec<&str> = value.split('-').collect();
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    matches!(parts[..], [version, trace, parent, flags]
        if version == "00" && hex(trace, 32) && hex(parent, 16) && hex(flags, 2)
            && trace.bytes().any(|byte| byte != b'0') && parent.bytes().any(|byte| byte != b'0'))
}

fn new_traceparent() -> String {
    let mut random = rand::rng();
    format!("00-{:032x}-{:016x}-01", random.random_range(1..=u128::MAX), random.random_range(1..=u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn malformed_json_is_named_by_line_and_column() {
        let problem = parse(b"{\n  \"brand\": }").unwrap_err().to_json();
        assert_eq!(problem["detail"], "the body can't be read as JSON: expected value at line 2 column 12");
    }

    #[test]
    fn a_nul_character_is_named_by_its_field() {
        let mut request = json!({"contact": {"properties": {"firstname": "A\u{0}da"}}});
        let Faulty(fault) = prepare(&mut request).unwrap();
        assert_eq!(fault.field, "contact.properties.firstname");
        assert!(request.is_null());
    }

    #[test]
    fn a_genuine_trace_context_is_kept_and_anything_else_replaced() {
        let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let headers = |value: &'static str| {
            HeaderMap::from_iter([("traceparent".parse().unwrap(), HeaderValue::from_static(value))])
        };
        assert_eq!(traceparent(&headers(given)), given);
        for bad in ["", "00-0-0-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "zz"] {
            let new = traceparent(&headers(bad));
            assert!(is_traceparent(&new), "{new}");
            assert_ne!(new, bad);
        }
    }
}
