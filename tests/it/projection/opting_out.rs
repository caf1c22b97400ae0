//! People who opt out in HubSpot: on its preference page, or by the hand of a user.

use hubspot_simulator::SubscriptionState;
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};

use super::{Crm, RECORD};
use crate::world::{request, with};

const ADA: &str = "ada@example.test";
const GLOBAL: &str = "hs_email_optout";
const OF_NEWSLETTER: &str = "hs_email_optout_1001";

fn ada(product: &str, state: &str) -> Value {
    with(request(ADA, state), json!({"product": product, "contact": {"key": "user-1", "email": ADA}}))
}

/// Ada is in HubSpot, subscribed to both products; her record.
async fn subscribed(crm: &Crm) -> i64 {
    crm.world.accept(vec![ada("newsletter", "subscribed"), ada("events", "subscribed")]).await;
    crm.world.drain().await;
    crm.link("user-1").await.expect("a record")
}

async fn reported(crm: &Crm, record: i64, property: &str, value: &str, at: Timestamp) {
    crm.deliver(&[crm.change_of(record, property, value, at.as_millisecond())]).await;
}

/// What is known of her streams: product, state, and whether she opted out in HubSpot.
async fn states(crm: &Crm) -> Vec<(String, Option<String>, bool)> {
    let sql = "select product, state, remote_opt_out_at is not null from hubferry.stream_states order by product";
    crm.ask(sql).await.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

fn state(product: &str, state: &str, opted_out: bool) -> (String, Option<String>, bool) {
    (product.into(), Some(state.into()), opted_out)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_consent_does_not_undo_a_reported_opt_out_even_where_the_status_lags() {
    for (property, of_events) in [(OF_NEWSLETTER, "subscribed"), (GLOBAL, "unsubscribed")] {
        let crm = Crm::new().await;
        let record = subscribed(&crm).await;
        let delayed = crm.world.accept(vec![ada("newsletter", "subscribed")]).await;
        reported(&crm, record, property, "true", hubferry::clock::now()).await;
        let expected =
            [state("events", of_events, of_events == "unsubscribed"), state("newsletter", "unsubscribed", true)];
        assert_eq!(states(&crm).await, expected, "the local state learns it at once");

        // HubSpot's status endpoint has not heard of it.
        assert_eq!(crm.world.hubspot.status_of(ADA, 1001), SubscriptionState::Subscribed);
        crm.world.drain().await;
        assert_eq!(
            crm.world.status_of(&delayed[0]).await,
            ("superseded".into(), Some("remote_opt_out".into())),
            "{property}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_subscription_type_and_a_newer_consent_are_written() {
    let crm = Crm::new().await;
    let record = subscribed(&crm).await;
    reported(&crm, record, OF_NEWSLETTER, "true", hubferry::clock::now()).await;
    crm.world.hubspot.opt_out(ADA, Some(1001), Some(hubferry::clock::now())).unwrap();
    let accepted = crm.world.accept(vec![ada("newsletter", "subscribed"), ada("events", "subscribed")]).await;
    crm.world.drain().await;
    for accepted in &accepted {
        assert_eq!(crm.world.status_of(accepted).await.0, "synced");
    }
    assert_eq!(crm.world.hubspot.status_of(ADA, 1001), SubscriptionState::Subscribed);
    assert_eq!(states(&crm).await[1], state("newsletter", "subscribed", true), "what was written since counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_report_that_comes_after_a_newer_one_says_nothing() {
    let crm = Crm::new().await;
    let record = subscribed(&crm).await;
    let delayed = crm.world.accept(vec![ada("newsletter", "subscribed")]).await;
    let now = hubferry::clock::now();
    reported(&crm, record, OF_NEWSLETTER, "false", now + 2.seconds()).await;
    reported(&crm, record, OF_NEWSLETTER, "true", now + 1.second()).await;
    crm.world.drain().await;
    assert_eq!(crm.world.status_of(&delayed[0]).await.0, "synced");
    assert_eq!(states(&crm).await[1], state("newsletter", "subscribed", false));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opt_out_of_our_own_that_comes_back_as_a_report_is_not_a_remote_one() {
    let crm = Crm::new().await;
    let record = subscribed(&crm).await;
    crm.world.accept(vec![ada("newsletter", "unsubscribed")]).await;
    crm.world.drain().await;
    let sql = "select remote_at from hubferry.operation_receipts where operation_key = 'status:1001:unsubscribed'";
    let written: Timestamp = crm.ask(sql).await[0].get(0);
    reported(&crm, record, OF_NEWSLETTER, "true", written + 300.milliseconds()).await;
    assert_eq!(states(&crm).await[1], state("newsletter", "unsubscribed", false));

    // Signed up on paper before that, entered now: the decision is newer than our own opt-out.
    let consent =
        json!({"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "paper", "given_at": "2024-01-01T00:00:00Z"});
    let accepted = crm.world.accept(vec![with(ada("newsletter", "subscribed"), json!({"consent": consent}))]).await;
    crm.world.drain().await;
    assert_eq!(crm.world.status_of(&accepted[0]).await.0, "synced");
    assert_eq!(crm.world.hubspot.status_of(ADA, 1001), SubscriptionState::Subscribed);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opt_out_on_a_record_of_nobody_is_kept_and_nothing_else() {
    let crm = Crm::new().await;
    subscribed(&crm).await;
    reported(&crm, RECORD, GLOBAL, "true", hubferry::clock::now()).await;
    assert_eq!(states(&crm).await, [state("events", "subscribed", false), state("newsletter", "subscribed", false)]);
    assert_eq!(crm.value(GLOBAL).await.as_deref(), Some("true"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opt_out_on_a_merged_record_is_one_of_whoever_it_became() {
    let crm = Crm::new().await;
    let record = subscribed(&crm).await;
    crm.world.sql("update hubferry.portals set mode = 'off'").await;
    let now = hubferry::clock::now();
    let notes = [
        crm.change_of(record, OF_NEWSLETTER, "true", now.as_millisecond()),
        crm.merge(&[record, 77], 78, (now + 1.second()).as_millisecond()),
    ];
    let event = crm.receive(&notes).await.expect("an event");
    crm.work(&[event]).await;
    assert_eq!(crm.link("user-1").await, Some(78));
    assert_eq!(states(&crm).await[1], state("newsletter", "unsubscribed", true));
}
