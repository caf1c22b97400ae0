//! What is no request at all: bodies, headers, paths and methods.

use axum::body::{Body, Bytes};
use axum::http::{Method, header};
use serde_json::json;

use super::{BATCH, Intaking, SINGLE, document, subscribing, with};

/// The largest body of a single request and of a batch.
const MOST_BYTES: usize = 256 * 1024;
const MOST_BATCH_BYTES: usize = 5 * 1024 * 1024;

#[tokio::test]
async fn malformed_json_is_named_by_line_and_column() {
    let intake = Intaking::new().await;
    let deep = format!("{{\"brand\": {}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let before = intake.setting.rows().await;
    for path in [SINGLE, BATCH] {
        for (body, place) in [
            ("", "line 1 column 0"),
            ("{\n  \"brand\": }", "line 2 column 12"),
            ("{\"brand\": \"acme\"", "line 1 column 16"),
            ("{} {}", "line 1 column 4"),
            ("\u{feff}{}", "line 1 column 1"),
            ("{\"brand\": \"a\nb\"}", "line 2 column 0"),
            ("{\"brand\": \"\\ud800\"}", "line 1 column"),
            ("{\"brand\": \"\\udc00\\ud800\"}", "line 1 column"),
            ("{\"visits\": 1e400}", "line 1 column"),
            ("{\"visits\": NaN}", "line 1 column 12"),
            (&deep, "line 1 column"),
        ] {
            let answer = intake.send_body(path, body.to_owned()).await;
            answer.expect_problem(400, "malformed_json", None);
            let detail = answer.body["detail"].as_str().expect("a sentence");
            assert!(detail.contains(place), "{path}: {detail} instead of {place}");
            assert!(detail.len() < 200, "{detail}");
        }
        intake.send_body(path, Bytes::from_static(b"{\"brand\": \"\xff\"}")).await.expect_problem(
            400,
            "malformed_json",
            None,
        );
    }
    assert_eq!(intake.setting.rows().await, before);
}

#[tokio::test]
async fn json_that_is_no_object_is_refused_as_a_whole() {
    let intake = Intaking::new().await;
    for path in [SINGLE, BATCH] {
        for body in ["null", "[]", "\"acme\"", "5", "true", "[{}]"] {
            intake.send_body(path, body).await.expect_problem(422, "invalid_request", Some(""));
        }
    }
}

#[tokio::test]
async fn a_body_may_be_as_large_as_said_and_not_a_byte_larger() {
    let intake = Intaking::new().await;
    for (path, most) in [(SINGLE, MOST_BYTES), (BATCH, MOST_BATCH_BYTES)] {
        let large = "{}".to_owned() + &" ".repeat(most - 2);
        assert_eq!(intake.send_body(path, large.clone()).await.status.as_u16(), 422, "{path}");
        intake.send_body(path, large.clone() + " ").await.expect_problem(413, "body_too_large", None);

        let announced = intake.call(Method::POST, path).header(header::CONTENT_LENGTH, most + 1);
        let answer = intake.send(announced.body(Body::from(large.clone() + " ")).expect("a request")).await;
        answer.expect_problem(413, "body_too_large", None);

        let pieces = vec![Ok::<_, std::io::Error>(Bytes::from(large)), Ok(Bytes::from_static(b" "))];
        let unannounced = intake.send_body(path, Body::from_stream(futures::stream::iter(pieces))).await;
        unannounced.expect_problem(413, "body_too_large", None);
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_the_callers_to_repeat() {
    let intake = Intaking::new().await;
    let pieces = vec![Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("the connection broke"))];
    let answer = intake.send_body(SINGLE, Body::from_stream(futures::stream::iter(pieces))).await;
    answer.expect_problem(400, "unreadable_body", None);
}

#[tokio::test]
async fn a_request_has_exactly_one_key_and_it_comes_by_header() {
    let intake = Intaking::new().await;
    let body = || Body::from(subscribing("ada@example.test").to_string());
    let key_fault = (422, "invalid_idempotency_key", Some("Idempotency-Key"));

    let none = intake.send(intake.call(Method::POST, SINGLE).body(body()).expect("a request")).await;
    none.expect_problem(key_fault.0, key_fault.1, key_fault.2);
    let two = intake.call(Method::POST, SINGLE).header("idempotency-key", "a").header("idempotency-key", "b");
    let two = intake.send(two.body(body()).expect("a request")).await;
    two.expect_problem(key_fault.0, key_fault.1, key_fault.2);
    for bad in ["", "two words", "k\u{e9}y", "tab\there", &"k".repeat(256)] {
        let call = intake.call(Method::POST, SINGLE).header("idempotency-key", bad.as_bytes());
        let answer = intake.send(call.body(body()).expect("a request")).await;
        answer.expect_problem(key_fault.0, key_fault.1, key_fault.2);
    }
    let in_body = with(subscribing("ada@example.test"), "/idempotency_key", json!("k"));
    intake.refuse(&in_body, 422, "unknown_field", "idempotency_key").await;
    assert!(intake.setting.rows().await.iter().all(|(_, rows)| *rows == 0));

    let longest: String = ('!'..='~').cycle().take(255).collect();
    intake.accept(&longest, &subscribing("ada@example.test")).await.expect_accepted();
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_not_found() {
    let intake = Intaking::new().await;
    for path in
        ["/", "/v1", "/v1/subscriptions/", "/v2/subscriptions", "/v1/requests", "/v1/requests/", "/V1/subscriptions"]
    {
        intake.get(path).await.expect_problem(404, "not_found", None);
        intake.send_body(path, "{}").await.expect_problem(404, "not_found", None);
    }
}

#[tokio::test]
async fn a_method_that_a_path_does_not_take_is_refused_with_those_it_takes() {
    let intake = Intaking::new().await;
    let documented = document::operations();
    for (method, path) in &documented {
        for other in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
            if !documented.contains(&(other.clone(), path.clone())) {
                let call = intake.call(other.clone(), path).body(Body::empty()).expect("a request");
                let answer = intake.send(call).await;
                answer.expect_problem(405, "method_not_allowed", None);
                let allowed = answer.headers[header::ALLOW].to_str().expect("methods");
                assert!(allowed.contains(method.as_str()), "{other} {path}: {allowed}");
            }
        }
    }
}

#[tokio::test]
async fn every_documented_operation_answers_as_documented() {
    let intake = Intaking::new().await;
    for (method, path) in document::operations() {
        // The answer is held against the document wherever it is sent; here it need only be there.
        let known = intake.send(intake.call(method.clone(), &path).body(Body::from("{}")).expect("a request")).await;
        assert_ne!(known.status.as_u16(), 405, "{method} {path}");
        let stranger = axum::http::Request::builder().method(method).uri(path).body(Body::empty()).expect("a request");
        intake.send(stranger).await.expect_problem(401, "unauthorised", None);
    }
}
