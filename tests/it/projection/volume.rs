//! Large deliveries, and tables that have grown.

use std::time::{Duration, Instant};

use hubferry::adapters::db::Db;

use super::{Crm, T, work};
use crate::postgres_proxy::PostgresProxy;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_notifications_in_a_delivery_are_applied_at_once() {
    let crm = Crm::new().await;
    let notes: Vec<_> =
        (0..10_000).map(|n| crm.change_of(1 + n % 2_500, &format!("p{}", n / 2_500), "value", T + n)).collect();
    let event = crm.receive(&notes).await.expect("an event");
    // As an invocation has it: applied within the time limit of a statement.
    let (summary, _) = crm.world.worker.work(&[event], Instant::now() + Duration::from_mins(1)).await.unwrap();
    assert_eq!(summary.synced, 1, "{:?}", crm.world.statuses().await);
    assert_eq!(crm.count("crm_values").await, 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn round_trips_do_not_grow_with_the_deliveries_of_a_batch() {
    let crm = Crm::new().await;
    let proxy = PostgresProxy::before(&crm.world.database.url).await;
    let mut worker = crm.world.worker.clone();
    worker.db = Db::new(&proxy.url(&crm.world.database.url).into(), 1).unwrap();
    worker.db.connection().await.unwrap();
    let mut trips = Vec::new();
    for size in [1_i64, 40] {
        let mut events = Vec::new();
        for n in 0..size {
            let notes: Vec<_> =
                (0..20).map(|m| crm.change_of(1 + m, "city", &format!("{size} {n}"), T + n + size)).collect();
            events.push(crm.receive(&notes).await.expect("an event"));
        }
        let before = proxy.round_trips();
        assert_eq!(work(&worker, &events).await.synced, size.unsigned_abs());
        trips.push(proxy.round_trips() - before);
    }
    assert_eq!(trips[0], trips[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn applying_walks_over_no_table_that_grows() {
    let crm = Crm::new().await;
    let portal = crm.world.portal.0;
    crm.world
        .sql(&format!(
            "insert into hubferry.crm_records (portal_id, object_type, object_id) select {portal}, 'contact', n from generate_series(1, 20000) n;
             insert into hubferry.crm_values select {portal}, 'contact', n, 'city', 'Delft', to_timestamp(0) from generate_series(1, 20000) n;
             insert into hubferry.crm_associations select {portal}, 'contact', n, 'company', n, 'CONTACT_TO_COMPANY', false, false, to_timestamp(0)
             from generate_series(1, 20000) n"
        ))
        .await;
    for n in 0..30 {
        let notes: Vec<_> = (0..100).map(|m| crm.change_of(30_000 + n * 100 + m, "city", "Gouda", T)).collect();
        crm.receive(&notes).await;
    }
    let mut notes: Vec<_> = (1..=90).map(|n| crm.change_of(n * 7, "city", "Utrecht", T)).collect();
    notes.push(crm.merge(&[1_001, 1_002], 25_000, T));
    notes.push(crm.note("privacyDeletion", T, serde_json::json!({"objectId": 1_003})));
    notes.push(crm.note("deletion", T, serde_json::json!({"objectId": 1_004})));
    let event = crm.receive(&notes).await.expect("an event");
    let mut worker = crm.world.worker.clone();
    worker.db = Db::new(&crm.world.database.url.clone().into(), 1).unwrap();
    let before = crm.world.rows_read_by_scans(&worker.db).await;
    let summary = work(&worker, &[event]).await;
    assert_eq!(summary.synced, 1, "{:?}", crm.world.statuses().await);
    let read = crm.world.rows_read_by_scans(&worker.db).await - before;
    assert!(read < 5_000, "{read} rows were read from end to end for one delivery");
}
