//! Many people at once, through several instances of the worker.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use sqs_emulator::event_source;
use tokio::sync::watch;

use super::{Deployed, handler_of, side_by_side};
use crate::servers::redis_url;
use crate::world::WorldConfig;

/// People of the import.
const PEOPLE: usize = 10_000;

/// What one request may hold.
const PEOPLE_PER_REQUEST: usize = 500;

/// Workers of a queue at once.
const WORKERS: usize = 3;

/// Time of a worker's invocation; below the time for which the queues hide a message that is worked on.
const INVOCATION_TIME: Duration = Duration::from_secs(30);

/// Between two rounds of publishing.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(200);

/// An import that does not end within this does not end.
const PATIENCE: Duration = Duration::from_mins(5);

/// The portal's limit is not the subject: at HubSpot's own, so many people take the better part of a minute.
const CALLS_PER_WINDOW: u32 = 2_000;

#[tokio::test(flavor = "multi_thread")]
async fn an_import_of_ten_thousand_through_several_workers_converges() {
    let config =
        WorldConfig { call_limit: CALLS_PER_WINDOW, hubspot_limit: CALLS_PER_WINDOW, ..WorldConfig::default() };
    let deployed = Deployed::with(config, &redis_url()).await;
    let everybody: Vec<usize> = (0..PEOPLE).collect();
    for some in everybody.chunks(PEOPLE_PER_REQUEST) {
        let requests: Vec<Value> = some.iter().map(|person| subscribing(*person)).collect();
        let (status, answer) =
            deployed.post("/v1/subscriptions/batch", "unused", &json!({ "requests": requests })).await;
        assert_eq!(status, 200, "{answer}");
    }
    let (stop, stopped) = watch::channel(false);
    let mappings = deployed.world.mappings.iter().map(|mapping| {
        let mut mapping = side_by_side(mapping, WORKERS);
        mapping.function_timeout = INVOCATION_TIME;
        let mut stopped = stopped.clone();
        let stop = async move {
            // An error: whoever stops them is gone, which is a stop too.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        event_source::run(deployed.world.queues.client(), mapping, handler_of(&deployed.worker), stop)
    });
    let publishing = async {
        while deployed.world.unfinished().await > 0 {
            deployed.publish().await;
            tokio::time::sleep(BETWEEN_ROUNDS).await;
        }
        stop.send(true).unwrap();
    };
    let all = async { tokio::join!(join_all(mappings), publishing) };
    let Ok((summaries, ())) = tokio::time::timeout(PATIENCE, all).await else {
        panic!("not finished after {PATIENCE:?}: {:?}", deployed.world.statuses().await);
    };

    let failed: usize = summaries.into_iter().map(|summary| summary.unwrap().failed).sum();
    assert_eq!(failed, 0, "messages that no worker finished");
    assert_eq!(deployed.world.statuses().await, [("synced".into(), None, i64::try_from(PEOPLE).unwrap())]);
    assert_eq!(deployed.world.hubspot.list_members(101).len(), PEOPLE);
    assert_eq!(deployed.world.hubspot.stats().answered_429, 0);
    assert!(deployed.worker.started() > 1, "one worker did it all");
    deployed.assert_nothing_is_left_open().await;
    deployed.end().await;
}

fn subscribing(person: usize) -> Value {
    json!({
        "idempotency_key": format!("person-{person}"), "brand": "acme", "product": "newsletter",
        "contact": {"email": format!("person-{person}@example.test"), "properties": {"firstname": "Ada"}},
        "desired_state": "subscribed", "lane": "bulk",
        "consent": {"legal_basis": "CONSENT_WITH_NOTICE", "explanation": "trade fair"},
    })
}
