//! A worker that stood still for longer than its lease, and goes on.

use std::time::Duration;

use hubferry::model::ids::EventId;
use hubferry::model::pacing::RENEW_EVERY;
use hubspot_simulator::{Action, Fault, SubscriptionState};

use super::{publish_silently, soon};
use crate::world::{World, request};

/// A contact is taken with whichever of its events comes first: then another event of it may still be in the hands of the owner
/// before, who must not take that for the contact.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_contact_was_taken_writes_nothing_more_though_it_still_has_the_event() {
    let world = World::new().await;
    let accepted = world.accept(vec![request("ada@example.test", "subscribed")]).await;
    publish_silently(&world).await;
    // Long enough for a renewal that finds the contact gone.
    let slow = RENEW_EVERY + Duration::from_secs(1);
    let slow = Action::DelayMs(u64::try_from(slow.as_millis()).unwrap());
    world.hubspot.add_fault(Fault::next(1, slow).on_endpoint("contacts.batch_upsert"));
    let ids = [EventId(accepted[0].event_id)];
    let taking = async {
        while world.hubspot.stats().total == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        world
            .sql(
                "update hubferry.contact_links
                 set lease_token = gen_random_uuid(), lease_expires_at = clock_timestamp() + interval '1 minute'",
            )
            .await;
    };
    let (worked, ()) = tokio::join!(world.worker.work(&ids, soon()), taking);
    let summary = worked.unwrap().0;
    assert_eq!((summary.synced, summary.snoozed), (0, 1));
    assert_eq!(world.hubspot.status_of("ada@example.test", 1001), SubscriptionState::NotSpecified);
}
