//! What HubSpot is told.

use std::time::{Duration, Instant};

use hubferry::adapters::db::{self, NewPortal};
use hubferry::adapters::hubspot::{HubSpot, HubSpotConfig, NewProperty};
use hubferry::model::ids::{EventId, PortalId};
use hubferry::model::plan::WriteMode;
use hubspot_simulator::{AccountConfig, Action, Fault, Simulator, SimulatorConfig};
use serde_json::json;

use super::{GDPR_DELETE, KEY, erase, erasures, kept, keyed, nothing_is_leased, subscribed, synced};
use crate::world::{World, newsletter_targets, with};

#[tokio::test(flavor = "multi_thread")]
async fn the_record_of_an_erased_contact_is_deleted_for_good_and_its_link_forgotten() {
    let world = World::new().await;
    subscribed(&world, "user-1", "ada@example.test").await;
    subscribed(&world, "user-2", "bob@example.test").await;
    world.hubspot.reset_stats();
    let erased = erase(&world, "user-1").await;
    assert_eq!((erased.replayed, erased.events.len()), (false, 1));
    let summary = world.drain().await;

    assert_eq!((summary.synced, summary.calls), (1, 4));
    assert_eq!(erasures(&world, "user-1").await, synced());
    assert_eq!(world.hubspot.stats().calls(GDPR_DELETE), 1);
    assert!(world.hubspot.contact_by_email("ada@example.test").is_none());
    assert!(world.hubspot.contact_by_email("bob@example.test").is_some());
    let connection = world.db.connection().await.unwrap();
    let sql = "select record_id from hubferry.contact_links where contact_key = 'user-1'";
    assert_eq!(connection.query_one(sql, &[]).await.unwrap().get::<_, Option<i64>>(0), None);
    nothing_is_leased(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_hubspot_does_not_know_is_not_given_to_it() {
    let world = World::new().await;
    world.accept(vec![keyed("user-1", "ada@example.test", "subscribed")]).await;
    erase(&world, "user-1").await;
    world.drain().await;

    assert_eq!(erasures(&world, "user-1").await, synced());
    assert_eq!(world.hubspot.stats().calls(GDPR_DELETE), 0);
    // HubSpot would refuse an address for ever that it was asked to delete.
    world.hubspot.seed_contact(&[("email", "ada@example.test")]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_found_by_address_or_key_where_no_link_is_known() {
    let world = World::new().await;
    for (key, property) in [("user-1", ("email", "ada@example.test")), ("user-2", (KEY, "user-2"))] {
        world.hubspot.seed_contact(&[property]).unwrap();
        world.accept(vec![keyed(key, "ada@example.test", "subscribed")]).await;
        erase(&world, key).await;
        world.drain().await;
        assert_eq!(erasures(&world, key).await, synced(), "{key}");
        assert!(world.hubspot.contacts().is_empty(), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_was_merged_or_deleted_is_erased_as_what_it_is_now() {
    let world = World::new().await;
    subscribed(&world, "user-1", "ada@example.test").await;
    let own = world.hubspot.contact_by_email("ada@example.test").unwrap().id;
    let other = world.hubspot.seed_contact(&[("email", "ada@old.example.test")]).unwrap();
    world.hubspot.merge(other, own).unwrap();
    erase(&world, "user-1").await;
    world.drain().await;
    assert!(world.hubspot.contacts().is_empty());
    assert_eq!(erasures(&world, "user-1").await, synced());

    subscribed(&world, "user-2", "bob@example.test").await;
    world.hubspot.delete(world.hubspot.contacts()[0].id).unwrap();
    erase(&world, "user-2").await;
    world.drain().await;
    assert_eq!(erasures(&world, "user-2").await, synced());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_record_of_a_contact_that_is_not_erased_stays() {
    let world = World::new().await;
    subscribed(&world, "user-1", "ada@example.test").await;
    subscribed(&world, "user-2", "ada@example.test").await;
    let record = &world.hubspot.contacts()[0];
    assert_eq!((world.hubspot.contacts().len(), record.get(KEY)), (1, Some("user-1")));
    erase(&world, "user-1").await;
    world.drain().await;

    assert_eq!(erasures(&world, "user-1").await, kept());
    assert_eq!(world.hubspot.stats().calls(GDPR_DELETE), 0);
    assert_eq!(world.hubspot.contacts()[0].get(KEY), None, "its key is taken off");
    // The other one is the owner from now on.
    subscribed(&world, "user-2", "ada@example.test").await;
    assert_eq!(world.hubspot.contacts()[0].get(KEY), Some("user-2"));

    // Once nobody else is on it, it goes.
    erase(&world, "user-2").await;
    world.drain().await;
    assert_eq!(erasures(&world, "user-2").await, synced());
    assert!(world.hubspot.contacts().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_leaves_the_owners_key_on_the_record() {
    let world = World::new().await;
    subscribed(&world, "user-1", "ada@example.test").await;
    subscribed(&world, "user-2", "ada@example.test").await;
    erase(&world, "user-2").await;
    world.drain().await;
    assert_eq!(erasures(&world, "user-2").await, kept());
    assert_eq!(world.hubspot.contacts()[0].get(KEY), Some("user-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn contacts_of_one_record_that_are_all_erased_take_it_with_them() {
    let world = World::new().await;
    subscribed(&world, "user-1", "ada@example.test").await;
    subscribed(&world, "user-2", "ada@example.test").await;
    erase(&world, "user-1").await;
    erase(&world, "user-2").await;
    world.drain().await;
    assert!(world.hubspot.contacts().is_empty());
    assert_eq!([erasures(&world, "user-1").await, erasures(&world, "user-2").await], [synced(), synced()]);
    nothing_is_leased(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_signs_up_again_before_hubspot_is_told_keeps_the_record() {
    let world = World::new().await;
    subscribed(&world, "user-1", "ada@example.test").await;
    erase(&world, "user-1").await;
    world.accept(vec![keyed("user-9", "ada@example.test", "subscribed")]).await;
    world.drain().await;

    assert_eq!(erasures(&world, "user-1").await, kept());
    let contacts = world.hubspot.contacts();
    assert_eq!((contacts.len(), contacts[0].get(KEY)), (1, Some("user-9")), "{:?}", world.statuses().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_address_that_signs_up_again_is_refused_by_hubspot_and_named() {
    let world = World::new().await;
    subscribed(&world, "user-1", "ada@example.test").await;
    erase(&world, "user-1").await;
    world.drain().await;
    let back =
        vec![keyed("user-2", "ada@example.test", "subscribed"), keyed("user-3", "bob@example.test", "subscribed")];
    let accepted = world.accept(back).await;
    world.drain().await;
    assert_eq!(world.status_of(&accepted[0]).await, ("dead".to_owned(), Some("address_blocked".to_owned())));
    assert_eq!(world.status_of(&accepted[1]).await, ("synced".to_owned(), None));
    let connection = world.db.connection().await.unwrap();
    let shown = db::request_status(&*connection, accepted[0].request_id).await.unwrap().unwrap();
    assert_eq!((shown.status.as_str(), shown.applied), ("dead", false));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_portal_that_knows_the_contact_is_told() {
    let mut world = World::new().await;
    let other = PortalId(world.portal.0 + 1);
    two_portals(&mut world, other).await;
    subscribed(&world, "user-1", "ada@example.test").await;
    world.accept(vec![with(keyed("user-1", "ada@example.test", "subscribed"), json!({"brand": "other"}))]).await;
    world.drain().await;
    let account = |portal: PortalId| world.hubspot.account(portal.0.unsigned_abs());
    assert_eq!([world.portal, other].map(|portal| account(portal).contacts().len()), [1, 1]);
    let erased = erase(&world, "user-1").await;
    assert_eq!(erased.events.iter().map(|event| event.portal_id).collect::<Vec<_>>(), [world.portal, other]);
    world.drain().await;
    assert_eq!([world.portal, other].map(|portal| account(portal).contacts().len()), [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contact_with_the_same_address_in_another_portal_keeps_its_own_record_and_saves_no_other() {
    let mut world = World::new().await;
    let other = PortalId(world.portal.0 + 1);
    two_portals(&mut world, other).await;
    subscribed(&world, "user-1", "ada@example.test").await;
    world.accept(vec![with(keyed("guest-7", "ada@example.test", "subscribed"), json!({"brand": "other"}))]).await;
    world.drain().await;
    erase(&world, "user-1").await;
    world.drain().await;
    // Next door its key is taken off, should it have come there.
    assert_eq!(erasures(&world, "user-1").await, [synced(), kept()].concat());
    let account = |portal: PortalId| world.hubspot.account(portal.0.unsigned_abs());
    assert_eq!([world.portal, other].map(|portal| account(portal).contacts().len()), [0, 1]);
    assert_ne!(account(other).contacts()[0].get(KEY), Some("user-1"));
}

/// A second portal, in which the brand `other` lives.
async fn two_portals(world: &mut World, other: PortalId) {
    let accounts = [(world.portal, "simulator-token"), (other, "other-token")];
    let accounts = accounts.map(|(portal, token)| AccountConfig::new(portal.0.unsigned_abs(), token)).to_vec();
    world.hubspot = Simulator::start(SimulatorConfig { accounts, ..SimulatorConfig::default() }).await.unwrap();
    world.worker.hubspot = HubSpot::new(HubSpotConfig::new(world.hubspot.base_url().parse().unwrap())).unwrap();
    world.worker.tokens.by_portal.insert(other, "other-token".into());
    let connection = world.db.connection().await.unwrap();
    let portal = NewPortal {
        portal_id: other,
        name: "other".into(),
        call_limit: 150,
        call_window: Duration::from_secs(10),
        write_mode: WriteMode::Batch,
        unique_property: KEY.into(),
        api_version: None,
    };
    db::ensure_portal(&*connection, &portal).await.unwrap();
    let targets = serde_json::from_value(newsletter_targets()).unwrap();
    db::ensure_product(&*connection, other, "other", "newsletter").await.unwrap();
    db::push_mapping(&*connection, "other", "newsletter", &targets).await.unwrap();
    db::activate_mapping(&*connection, "other", "newsletter", None).await.unwrap();
    for portal in [world.portal, other] {
        let property = NewProperty {
            name: KEY.into(),
            label: "Contact key".into(),
            group: "contactinformation".into(),
            description: "The contact's key".into(),
            unique: true,
        };
        let account = world.worker.hubspot.account(portal, world.worker.tokens.of(portal));
        account.create_property(&property).await.result.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_a_lock_and_a_throttle_are_waited_for_and_it_is_done_all_the_same() {
    let world = World::new().await;
    let actions = [
        Action::LoseAnswer,
        Action::Cut,
        Action::locked(),
        Action::Html(502),
        Action::respond(
            404,
            json!({"status": "error", "category": "OBJECT_NOT_FOUND", "message": "resource not found"}),
        ),
    ];
    for (number, action) in actions.into_iter().enumerate() {
        let (key, email) = (format!("user-{number}"), format!("p{number}@example.test"));
        subscribed(&world, &key, &email).await;
        world.hubspot.add_fault(Fault::next(1, action).on_endpoint(GDPR_DELETE));
        erase(&world, &key).await;
        world.drain().await;
        assert_eq!(erasures(&world, &key).await, synced(), "{key}");
    }
    // A record that HubSpot says is not there is taken for gone; here it lied.
    assert_eq!(world.hubspot.contacts().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_that_died_is_tried_anew_when_it_is_asked_for_again() {
    let world = World::new().await;
    subscribed(&world, "user-1", "ada@example.test").await;
    let scope = json!({"status": "error", "category": "MISSING_SCOPES", "message": "no"});
    world.hubspot.add_fault(Fault::next(1, Action::respond(403, scope)).on_endpoint(GDPR_DELETE));
    erase(&world, "user-1").await;
    assert_eq!(world.drain().await.dead, 1);
    assert_eq!(erasures(&world, "user-1").await, [("dead".to_owned(), Some("missing_scopes".to_owned()))]);

    let again = erase(&world, "user-1").await;
    assert_eq!((again.replayed, again.events.len(), again.events[0].status.as_str()), (false, 1, "pending"));
    world.drain().await;
    assert_eq!(erasures(&world, "user-1").await, synced());
    assert!(world.hubspot.contacts().is_empty());
    assert!(erase(&world, "user-1").await.replayed);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_erasures_share_their_look_ups_and_a_bad_one_fails_alone() {
    let world = World::new().await;
    let people = (0..12).map(|n| keyed(&format!("user-{n}"), &format!("p{n}@example.test"), "subscribed"));
    world.accept(people.collect()).await;
    world.drain().await;
    for n in 0..12 {
        erase(&world, &format!("user-{n}")).await;
    }
    world.hubspot.reset_stats();
    let bad = json!({"status": "error", "category": "VALIDATION_ERROR", "message": "Invalid input JSON"});
    world.hubspot.add_fault(Fault::always(Action::respond(400, bad)).on_path("batch/read").on_body("\"user-7\""));
    world.dispatcher.run_once().await.unwrap();
    let connection = world.db.connection().await.unwrap();
    let rows = connection.query("select event_id from hubferry.outbox_events where contact_key is not null", &[]).await;
    let events: Vec<EventId> = rows.unwrap().iter().map(|row| EventId(row.get(0))).collect();
    drop(connection);
    let (summary, _) = world.worker.work(&events, Instant::now() + Duration::from_mins(1)).await.unwrap();
    assert_eq!((summary.claimed, summary.synced, summary.dead), (12, 11, 1), "{:?}", world.statuses().await);
    assert_eq!(world.hubspot.contacts().len(), 1);

    world.hubspot.clear_faults();
    erase(&world, "user-7").await;
    let summary = world.drain().await;
    assert_eq!((summary.synced, summary.calls), (1, 4));
}
