//! Whatever JSON a caller sends, each request gets an answer of its own, twice the same, and none that blames the database.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use super::{BATCH, Intaking, document};
use crate::accepting::setting::{BRAND, UNMAPPED_PRODUCT, with};

const BATCHES: usize = 12;
const REQUESTS: usize = 100;

/// Where a request can be changed.
const PATHS: [&str; 16] = [
    "/idempotency_key",
    "/brand",
    "/product",
    "/lane",
    "/desired_state",
    "/contact",
    "/contact/key",
    "/contact/email",
    "/contact/properties",
    "/contact/properties/firstname",
    "/contact/properties/\u{0}",
    "/contact/properties/näme",
    "/consent",
    "/consent/explanation",
    "/consent/given_at",
    "/surprise",
];

fn request(random: &mut StdRng, name: &str) -> Value {
    let request = json!({
        "idempotency_key": name, "brand": BRAND, "product": "newsletter", "lane": "bulk", "desired_state": "subscribed",
        "contact": {
            "key": if random.random() { Some(format!("user-{}", random.random_range(0..20))) } else { None },
            "email": format!("person-{}@example.test", random.random_range(0..20)),
            "properties": {"firstname": "Ada"},
        },
        "consent": {"legal_basis": "NON_GDPR", "explanation": "asked", "given_at": "2026-05-04T09:30:00Z"},
    });
    (0..random.random_range(0..3)).fold(request, |request, _| change(random, request))
}

/// Puts some value somewhere, unless an earlier change took the place away.
fn change(random: &mut StdRng, request: Value) -> Value {
    let path = *PATHS.choose(random).expect("some paths");
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    match request.pointer(parent) {
        Some(Value::Object(_)) => with(request, path, value(random, 0)),
        _ => request,
    }
}

fn value(random: &mut StdRng, depth: usize) -> Value {
    match random.random_range(0..if depth < 4 { 9 } else { 7 }) {
        0 => Value::Null,
        1 => json!(random.random::<bool>()),
        2 => [json!(u64::MAX), json!(i64::MIN), json!(0), json!(-0.0), json!(f64::MAX), json!(5e-324)]
            .choose(random)
            .cloned()
            .unwrap_or_default(),
        3 => json!(f64::from_bits(random.random())),
        7 => (0..random.random_range(0..4)).map(|_| value(random, depth + 1)).collect(),
        8 => (0..random.random_range(0..4)).map(|_| (text(random), value(random, depth + 1))).collect(),
        _ => json!(text(random)),
    }
}

fn text(random: &mut StdRng) -> String {
    let known = [
        "",
        " ",
        "subscribed",
        "unsubscribed",
        "interactive",
        "bulk",
        BRAND,
        UNMAPPED_PRODUCT,
        "newsletter",
        "key",
        "email",
        "firstname",
        "2026-05-04T09:30:00+15:59",
        "2026-05-04T09:30:00-15:60",
        "9999-12-31T23:59:60Z",
        "0001-01-01T00:00:00+14:00",
        "2016-02-30T23:59:60Z",
        "294277-01-01T00:00:00Z",
        "infinity",
        "epoch",
        "a@b.example.test",
        "a@xn--.example.test",
        "ü@exämple.example.test",
        "NaN",
        "\\u0000",
        "'; --",
    ];
    match random.random_range(0..4) {
        0 => (0..random.random_range(1..300)).map(|_| random.random::<char>()).collect(),
        1 => (0..random.random_range(1..40)).map(|_| random.random_range('\0'..='\u{7f}')).collect(),
        _ => (*known.choose(random).expect("some texts")).to_owned(),
    }
}

#[tokio::test]
async fn any_json_is_answered_request_by_request_and_the_same_way_when_it_is_repeated() {
    let seed: u64 = rand::random();
    let mut random = StdRng::seed_from_u64(seed);
    let intake = Intaking::new().await;
    let mut accepted = 0;
    for batch in 0..BATCHES {
        let requests: Vec<Value> =
            (0..REQUESTS).map(|index| request(&mut random, &format!("{batch}-{index}"))).collect();
        let body = json!({"requests": requests}).to_string();
        let first = intake.send_body(BATCH, body.clone()).await;
        let second = intake.send_body(BATCH, body).await;
        let results = |answer: &super::Answer| {
            answer.body["results"].as_array().cloned().unwrap_or_else(|| panic!("seed {seed}: {}", answer.body))
        };
        for ((request, first), second) in requests.iter().zip(results(&first)).zip(results(&second)) {
            let replayed = if first.get("replayed").is_some() {
                with(first.clone(), "/replayed", json!(true))
            } else {
                first.clone()
            };
            assert_eq!(second, replayed, "seed {seed}: {request}");
            assert_ne!(first["code"], "unavailable", "seed {seed}: {request}");
            let fault = first["code"].as_str().map(|code| (code, first["field"].as_str().unwrap_or_default()));
            accepted += usize::from(fault.is_none());
            document::check_agreement(BATCH, request, fault);
        }
    }
    assert!((BATCHES * REQUESTS / 5..BATCHES * REQUESTS).contains(&accepted), "seed {seed}: {accepted} accepted");
}
