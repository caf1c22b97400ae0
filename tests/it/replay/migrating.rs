//! The schema of replays over a database that was in use before.

use hubferry::adapters::db::{self, ReplayedMapping};
use hubferry::model::ids::EventId;
use uuid::Uuid;

use crate::world::World;

const EARLIER: [&str; 3] = [
    include_str!("../../../migrations/V1__configuration.sql"),
    include_str!("../../../migrations/V2__contacts_streams_outbox.sql"),
    include_str!("../../../migrations/V3__accepting.sql"),
];
const REPLAY: &str = include_str!("../../../migrations/V4__replay.sql");

/// An event in each state, as the versions before left them.
const SAMPLES: &str = r#"
    insert into hubferry.portals (portal_id, name) values (4711, 'sample');
    insert into hubferry.brands values ('acme', 4711);
    insert into hubferry.products values ('acme', 'newsletter');
    insert into hubferry.mappings (brand, product, version, state, targets, activated_at)
    values ('acme', 'newsletter', 1, 'active', '{"subscription_type": 1001}', now());
    select hubferry.accept_subscription('acme', 'newsletter', 'k' || n, jsonb_build_object('email', 'p' || n || '@example.test'), 'unsubscribed')
    from generate_series(1, 9) as n;
    update hubferry.outbox_events e
    set status = s.status, queued_at = now(), last_error_code = 'x',
        lease_token = case when s.status in ('publishing', 'processing') then gen_random_uuid() end,
        lease_expires_at = case when s.status in ('publishing', 'processing') then now() end,
        finished_at = case when s.status in ('synced', 'superseded', 'dead', 'cancelled') then now() end
    from (select event_id, ('{pending,publishing,queued,processing,retry,synced,superseded,dead,cancelled}'::text[])[row_number() over ()] as status
          from hubferry.outbox_events) as s
    where s.event_id = e.event_id;
"#;

#[tokio::test(flavor = "multi_thread")]
async fn events_from_before_are_what_they_were_and_a_dead_one_can_be_replayed() {
    let world = World::new().await;
    world.sql("drop schema hubferry cascade; create schema hubferry").await;
    for migration in EARLIER {
        world.sql(migration).await;
    }
    world.sql(SAMPLES).await;
    let before = world.statuses().await;
    assert_eq!(before.len(), 9, "{before:?}");
    world.sql(REPLAY).await;

    assert_eq!(world.statuses().await, before);
    let connection = world.db.connection().await.unwrap();
    let sql = "select event_id, (select count(*) from hubferry.outbox_events where replays is not null or replayed_at is not null)
               from hubferry.outbox_events where status = 'dead'";
    let row = connection.query_one(sql, &[]).await.unwrap();
    let (dead, replays): (Uuid, i64) = (row.get(0), row.get(1));
    assert_eq!((replays, db::status_counts(&*connection).await.unwrap()[0].dead), (0, 1));
    let answer = db::replay_events(&*connection, &[EventId(dead)], ReplayedMapping::Current, None).await.unwrap();
    assert_eq!((answer[0].refusal, answer[0].sequence), (None, Some(2)));
    assert_eq!(db::status_counts(&*connection).await.unwrap()[0].dead, 0);
}
