//! Who may ask, and for whom.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use uuid::Uuid;

use super::{Answer, BRAND, Intaking, SINGLE, subscribing, with};
use crate::accepting::setting::OTHER_BRAND;
use serde_json::json;

/// Sends a request for the brand with these `Authorization` headers.
async fn ask(intake: &Intaking, authorizations: &[&str]) -> Answer {
    let mut call = Request::builder().method(Method::POST).uri(SINGLE).header("idempotency-key", "k");
    for authorization in authorizations {
        call = call.header(header::AUTHORIZATION, *authorization);
    }
    intake.send(call.body(Body::from(subscribing("ada@example.test").to_string())).expect("a request")).await
}

#[tokio::test]
async fn without_exactly_one_known_token_nobody_is_let_in() {
    let intake = Intaking::new().await;
    let token = intake.token.clone();
    let bearer = format!("Bearer {token}");
    let refused: &[&[&str]] = &[
        &[],
        &["Bearer"],
        &["Bearer "],
        &[&token],
        &["Bearer unknown"],
        &[&format!("Basic {token}")],
        &[&format!("Bearer {token}x")],
        &[&format!("Bearer {}", token.to_uppercase())],
        &[&bearer, &bearer],
        &[&bearer, "Bearer unknown"],
    ];
    for authorizations in refused {
        let answer = ask(&intake, authorizations).await;
        answer.expect_problem(401, "unauthorised", None);
        assert_eq!(answer.headers[header::WWW_AUTHENTICATE], "Bearer");
        assert!(!answer.body.to_string().contains(&token));
    }
    assert!(intake.setting.rows().await.iter().all(|(_, rows)| *rows == 0));
    assert_eq!(ask(&intake, &[&format!("bearer   {token}")]).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn a_revoked_token_is_not_let_in() {
    let intake = Intaking::new().await;
    let revoke = "update hubferry.api_tokens set revoked_at = now()";
    intake.setting.application().await.batch_execute(revoke).await.expect("an update");
    ask(&intake, &[&format!("Bearer {}", intake.token)]).await.expect_problem(401, "unauthorised", None);
}

#[tokio::test]
async fn a_token_acts_for_its_own_brands_only() {
    let intake = Intaking::new().await;
    for brand in [OTHER_BRAND, "nobody", "", "ACME"] {
        let request = with(subscribing("ada@example.test"), "/brand", json!(brand));
        intake.refuse(&request, 403, "foreign_brand", "brand").await;
    }
}

#[tokio::test]
async fn keys_of_different_brands_are_independent() {
    let mut intake = Intaking::new().await;
    intake.token = intake.setting.token(&[BRAND, OTHER_BRAND]).await;
    intake.accept("k", &subscribing("ada@example.test")).await.expect_accepted();
    let other = with(subscribing("grace@example.test"), "/brand", json!(OTHER_BRAND));
    intake.accept("k", &other).await.expect_accepted();
}

#[tokio::test]
async fn a_request_of_another_brand_does_not_exist() {
    let mut intake = Intaking::new().await;
    let own_token = std::mem::take(&mut intake.token);
    intake.token = intake.setting.token(&[OTHER_BRAND]).await;
    let other = with(subscribing("ada@example.test"), "/brand", json!(OTHER_BRAND));
    let answer = intake.accept("k", &other).await;
    let path = format!("/v1/requests/{}", answer.expect_accepted()["request_id"].as_str().expect("an id"));
    assert_eq!(intake.get(&path).await.status, StatusCode::OK);

    intake.token = own_token;
    let foreign = intake.get(&path).await;
    foreign.expect_problem(404, "not_found", None);
    let absent = intake.get(&format!("/v1/requests/{}", Uuid::from_u128(1))).await;
    assert_eq!(foreign.body, absent.body, "the answer tells a foreign request from one that is not there");
}

#[tokio::test]
async fn an_id_that_is_no_uuid_is_not_found() {
    let intake = Intaking::new().await;
    for id in ["1", "%20", "%00", "%ff", "%2e%2e", "00000000-0000-0000-0000-00000000000g", "null", &"9".repeat(2000)] {
        intake.get(&format!("/v1/requests/{id}")).await.expect_problem(404, "not_found", None);
    }
}
