//! The portal: properties, usage, limits, versions and tokens.

use std::time::Duration;

use hubferry::adapters::hubspot::{
    ApiVersions, Class, CredentialProblem, Family, LimitPolicy, NewProperty, NewPropertyGroup, Sent,
};
use hubferry::model::ids::PortalId;
use hubspot_simulator::{AccountConfig, BurstLimit};
use secrecy::SecretString;

use super::{World, by_email};

#[tokio::test]
async fn creating_a_property_twice_is_a_conflict_that_a_read_can_settle() {
    let world = World::new().await;
    let account = world.account();
    assert_eq!(account.read_property("hubferry_key").await.result.unwrap_err().class, Class::Gone);
    let group = NewPropertyGroup { name: "hubferry".to_owned(), label: "hubferry".to_owned() };
    account.create_property_group(&group).await.result.unwrap();
    assert_eq!(account.create_property_group(&group).await.result.unwrap_err().class, Class::Conflict);
    let property = NewProperty {
        name: "hubferry_key".to_owned(),
        label: "Key".to_owned(),
        group: "hubferry".to_owned(),
        description: "Stable key of the contact".to_owned(),
        unique: true,
    };
    account.create_property(&property).await.result.unwrap();
    assert_eq!(account.create_property(&property).await.result.unwrap_err().class, Class::Conflict);
    let read = account.read_property("hubferry_key").await.result.unwrap();
    assert_eq!((read.name.as_str(), read.unique, read.archived), ("hubferry_key", true, false));
}

#[tokio::test]
async fn usage_and_details_of_the_account_are_read() {
    let world = World::new().await;
    world.account().upsert_contacts("email", &by_email(&["ann@example.test"])).await.result.unwrap();
    let usage = world.account().daily_usage().await.result.unwrap().unwrap();
    assert_eq!(usage.limit, Some(625_000));
    assert!(usage.used.is_some_and(|used| used >= 1) && usage.resets_at.is_some());
    let details = world.account().account_details().await.result.unwrap();
    assert_eq!((details.portal_id, details.time_zone.as_deref()), (PortalId(4711), Some("UTC")));
}

#[tokio::test]
async fn headers_tell_the_window_and_the_day_and_a_refusal_tells_the_limit() {
    let burst = Some(BurstLimit { calls: 1, window_ms: 10_000 });
    let world = World::with(AccountConfig { burst, ..AccountConfig::default() }).await;
    let rows = by_email(&["ann@example.test"]);
    let call = world.account().upsert_contacts("email", &rows).await;
    assert_eq!((call.rate.max, call.rate.remaining), (Some(1), Some(0)));
    assert_eq!(call.rate.interval, Some(Duration::from_secs(10)));
    assert_eq!(call.daily.limit, Some(625_000));
    assert!(call.correlation_id.is_some());
    let call = world.account().upsert_contacts("email", &rows).await;
    let refusal = call.result.unwrap_err();
    assert_eq!(refusal.class, Class::RateLimited(LimitPolicy::TenSecondly));
    assert_eq!((refusal.policy, refusal.status), (Some(LimitPolicy::TenSecondly), Some(429)));
    assert_eq!(world.calls(), 2);
}

#[tokio::test]
async fn numbered_and_dated_versions_reach_the_same_endpoints() {
    let world = World::new().await;
    let numbered = ApiVersions::default()
        .with(Family::Objects, "v3")
        .and_then(|versions| versions.with(Family::CommunicationPreferences, "v4"))
        .and_then(|versions| versions.with(Family::Lists, "v3"))
        .and_then(|versions| versions.with(Family::Properties, "v3"))
        .and_then(|versions| versions.with(Family::AccountInfo, "v3"))
        .unwrap();
    for versions in [ApiVersions::default(), numbered, ApiVersions::all("2026-03").unwrap()] {
        let account = world.account().with_versions(versions);
        account.upsert_contacts("email", &by_email(&["ann@example.test"])).await.result.unwrap();
        account.read_status("ann@example.test", None).await.result.unwrap();
        account.add_to_list("101", &["1"]).await.result.unwrap();
        account.read_property("email").await.result.unwrap();
        account.account_details().await.result.unwrap();
    }
}

#[tokio::test]
async fn a_wrong_token_is_a_credential_problem_and_a_malformed_one_is_never_sent() {
    let world = World::new().await;
    let wrong = SecretString::from("wrong-token");
    let call = world.hubspot.account(PortalId(4711), &wrong).account_details().await;
    let refusal = call.result.unwrap_err();
    assert_eq!((refusal.class, refusal.status), (Class::Credential(CredentialProblem::Invalid), Some(401)));
    let before = world.calls();
    let malformed = SecretString::from("two\nlines");
    let call = world.hubspot.account(PortalId(4711), &malformed).account_details().await;
    assert_eq!((call.sent, call.result.unwrap_err().code.as_str()), (Sent::No, "token_malformed"));
    assert_eq!(world.calls(), before);
}

#[tokio::test]
async fn a_token_shows_in_no_debug_text() {
    let world = World::new().await;
    let shown = format!("{:?} {:?}", world.account(), world.hubspot);
    assert!(!shown.contains("simulator-token"), "{shown}");
}
