//! 423: HubSpot locks records under bursts, so who has met a lock goes slower.

use hubspot_simulator::{Action, Fault};

use super::{Scene, people};

#[tokio::test(flavor = "multi_thread")]
async fn after_a_lock_calls_are_made_one_at_a_time() {
    for locked in [true, false] {
        let scene = Scene::single().await;
        if locked {
            scene.world.hubspot.add_fault(Fault::next(1, Action::locked()).on_endpoint("contacts.batch_upsert"));
        }
        scene.world.hubspot.add_fault(Fault::always(Action::SlowAnswerMs(20)).on_endpoint("preferences.write"));
        let emails = people("slower", 12);
        let accepted = scene.subscribe(&emails).await;
        scene.world.step().await;
        let at_once = scene.world.hubspot.stats().at_once["preferences.write"];
        assert_eq!(at_once > 1, !locked, "{at_once} statuses were written at once");
        for seen in scene.all_seen(&accepted).await {
            assert_eq!((seen.status.as_str(), seen.attempts), (if locked { "retry" } else { "synced" }, 0));
        }
        scene.converges(&emails, &accepted).await;
    }
}
