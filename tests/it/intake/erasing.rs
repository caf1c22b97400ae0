//! `DELETE /v1/contacts/{key}`, held against the description of the interface.

use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::json;

use super::{Answer, BRAND, Intaking, send, subscribing, with};
use crate::accepting::setting::OTHER_BRAND;

async fn delete(intake: &Intaking, key: &str) -> Answer {
    let call = intake.call(Method::DELETE, &format!("/v1/contacts/{key}"));
    intake.send(call.body(Body::empty()).expect("a request")).await
}

#[tokio::test]
async fn an_erasure_is_accepted_once_and_repeated_as_often_as_one_likes() {
    let intake = Intaking::new().await;
    let request = with(subscribing("ada@example.test"), "/contact/key", json!("user-1"));
    intake.accept("k", &request).await.expect_accepted();
    let first = delete(&intake, "user-1").await;
    assert_eq!((first.status, &first.body["replayed"]), (StatusCode::ACCEPTED, &json!(false)));
    let second = delete(&intake, "user-1").await;
    assert_eq!(second.status, StatusCode::OK);
    assert_eq!(second.body, with(first.body, "/replayed", json!(true)));
    // Neither anew nor as a repeat.
    for key in ["k", "l"] {
        intake.accept(key, &request).await.expect_problem(409, "contact_erased", Some("contact.key"));
    }
}

#[tokio::test]
async fn nobody_erases_whom_it_may_not_know_or_who_belongs_to_others_too() {
    let mut intake = Intaking::new().await;
    let request = with(subscribing("ada@example.test"), "/contact/key", json!("user-1"));
    intake.accept("k", &request).await.expect_accepted();
    delete(&intake, "user-2").await.expect_problem(404, "not_found", None);
    let own = std::mem::take(&mut intake.token);
    delete(&intake, "user-1").await.expect_problem(401, "unauthorised", None);

    intake.token = intake.setting.token(&[OTHER_BRAND]).await;
    delete(&intake, "user-1").await.expect_problem(404, "not_found", None);
    intake.accept("k", &with(request, "/brand", json!(OTHER_BRAND))).await.expect_accepted();
    for token in [own, intake.token.clone()] {
        intake.token = token;
        delete(&intake, "user-1").await.expect_problem(403, "foreign_brand", None);
    }
    intake.token = intake.setting.token(&[BRAND, OTHER_BRAND]).await;
    assert_eq!(delete(&intake, "user-1").await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn a_contact_is_not_read_or_written_at_its_own_path() {
    let intake = Intaking::new().await;
    for method in [Method::GET, Method::PUT, Method::POST] {
        let call = intake.call(method, "/v1/contacts/user-1").body(Body::empty()).expect("a request");
        send(&intake.router, call).await.expect_problem(405, "method_not_allowed", None);
    }
}
