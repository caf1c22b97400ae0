//! Subscription statuses and list members.

use hubferry::adapters::hubspot::{
    Class, ConsentState, Membership, Row, StatusWrite, StatusWriteReason, SubscriptionState, SubscriptionStatus,
};
use hubspot_simulator::{AccountConfig, SubscriptionState as Held};

use super::World;

const NEWSLETTER: i64 = 1001;
const EVENTS: i64 = 1003;

fn write(email: &str, subscription_id: i64, state: ConsentState) -> StatusWrite {
    StatusWrite {
        email: email.to_owned(),
        subscription_id,
        state,
        legal_basis: Some("CONSENT_WITH_NOTICE".to_owned()),
        explanation: Some("Asked on the site".to_owned()),
    }
}

fn of(statuses: &[SubscriptionStatus], subscription_id: i64) -> &SubscriptionState {
    let found = statuses.iter().find(|status| status.subscription_id == subscription_id);
    found.map_or(&SubscriptionState::NotSpecified, |status| &status.status)
}

#[tokio::test]
async fn many_statuses_are_written_and_read_in_the_order_asked_for() {
    let world = World::new().await;
    let account = world.account();
    let writes = [
        write("Ann@Example.test", NEWSLETTER, ConsentState::Subscribed),
        write("bob@example.test", NEWSLETTER, ConsentState::Unsubscribed),
        write("ann@example.test", EVENTS, ConsentState::Unsubscribed),
    ];
    let rows = account.write_statuses(&writes).await.result.unwrap();
    for (row, write) in rows.iter().zip(&writes) {
        let Row::Done(status) = row else { panic!("{row:?}") };
        assert_eq!(status.subscription_id, write.subscription_id);
        assert_eq!(status.success_reason, Some(StatusWriteReason::Changed));
        assert!(status.timestamp.is_some());
    }
    let read = account.read_statuses(&["bob@example.test", "ANN@example.test"], None).await.result.unwrap();
    let statuses: Vec<_> = read.into_iter().map(|row| row.done().unwrap()).collect();
    assert_eq!(of(&statuses[0], NEWSLETTER), &SubscriptionState::Unsubscribed);
    assert_eq!(of(&statuses[1], NEWSLETTER), &SubscriptionState::Subscribed);
    assert_eq!(of(&statuses[1], EVENTS), &SubscriptionState::Unsubscribed);
    assert_eq!(world.calls(), 2);
}

#[tokio::test]
async fn an_address_in_a_path_reaches_hubspot_as_it_is() {
    let world = World::new().await;
    let account = world.account();
    for email in ["a+b@example.test", "o'neil/x@example.test", "q?#@example.test", "ü@example.test"] {
        let call = account.write_status(&write(email, NEWSLETTER, ConsentState::Subscribed)).await;
        let written = call.result.unwrap_or_else(|refusal| panic!("{email}: {refusal:?}"));
        assert_eq!(written.status, SubscriptionState::Subscribed, "{email}");
        assert_eq!(world.simulator.status_of(email, 1001), Held::Subscribed, "{email}");
        let read = account.read_status(email, None).await.result.unwrap();
        assert_eq!(of(&read, NEWSLETTER), &SubscriptionState::Subscribed, "{email}");
    }
}

#[tokio::test]
async fn a_refusal_to_subscribe_again_is_an_opt_out_of_that_row_alone() {
    let world = World::with(AccountConfig { refuse_resubscribe: true, ..AccountConfig::default() }).await;
    world.simulator.opt_out("out@example.test", Some(1001), None).unwrap();
    let subscribe = |email| write(email, NEWSLETTER, ConsentState::Subscribed);
    let refusal = world.account().write_status(&subscribe("out@example.test")).await.result.unwrap_err();
    assert_eq!((refusal.class, refusal.code.as_str()), (Class::OptedOut, "opted_out"));
    let writes = [subscribe("out@example.test"), subscribe("in@example.test")];
    let rows = world.account().write_statuses(&writes).await.result.unwrap();
    assert!(matches!(&rows[0], Row::Refused(refusal) if refusal.class == Class::OptedOut), "{:?}", rows[0]);
    assert!(matches!(&rows[1], Row::Done(_)), "{:?}", rows[1]);
}

#[tokio::test]
async fn a_subscription_type_that_does_not_exist_is_configuration() {
    let world = World::new().await;
    let unknown = write("ann@example.test", 999, ConsentState::Subscribed);
    let refusal = world.account().write_status(&unknown).await.result.unwrap_err();
    assert_eq!(refusal.class, Class::Configuration, "{refusal:?}");
}

#[tokio::test]
async fn an_address_that_is_none_is_an_invalid_row() {
    let world = World::new().await;
    let refusal = world.account().write_status(&write("nobody", NEWSLETTER, ConsentState::Subscribed)).await.result;
    let refusal = refusal.unwrap_err();
    assert_eq!((refusal.class, refusal.code.as_str()), (Class::RowInvalid, "invalid_email"));
}

#[tokio::test]
async fn batches_that_the_account_may_not_call_are_configuration() {
    let world = World::with(AccountConfig { batch_consent: false, ..AccountConfig::default() }).await;
    let refusal = world.account().read_statuses(&["ann@example.test"], None).await.result.unwrap_err();
    assert_eq!((refusal.class, refusal.status), (Class::Configuration, Some(403)));
}

#[tokio::test]
async fn members_are_settled_and_records_that_do_not_exist_are_missing() {
    let world = World::new().await;
    let account = world.account();
    let ann = world.simulator.seed_contact(&[("email", "ann@example.test")]).unwrap().0.to_string();
    for _ in 0..2 {
        let rows = account.add_to_list("101", &["90299", &ann]).await.result.unwrap();
        assert_eq!(rows, [Row::Done(Membership::Missing), Row::Done(Membership::Settled)]);
    }
    assert_eq!(world.simulator.list_members(101).len(), 1);
    let rows = account.remove_from_list("101", &[&ann]).await.result.unwrap();
    assert_eq!(rows, [Row::Done(Membership::Settled)]);
    assert!(world.simulator.list_members(101).is_empty());
}

#[tokio::test]
async fn a_list_that_cannot_be_changed_is_configuration() {
    let world = World::new().await;
    let ann = world.simulator.seed_contact(&[("email", "ann@example.test")]).unwrap().0.to_string();
    for list in ["103", "999"] {
        let refusal = world.account().add_to_list(list, &[&ann, "2"]).await.result.unwrap_err();
        assert_eq!(refusal.class, Class::Configuration, "{refusal:?}");
    }
}
