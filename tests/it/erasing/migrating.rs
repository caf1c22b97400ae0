//! The schema of erasures over a database that was in use before.

use serde_json::Value;

use crate::world::World;

const EARLIER: [&str; 5] = [
    include_str!("../../../migrations/V1__configuration.sql"),
    include_str!("../../../migrations/V2__contacts_streams_outbox.sql"),
    include_str!("../../../migrations/V3__accepting.sql"),
    include_str!("../../../migrations/V4__replay.sql"),
    include_str!("../../../migrations/V5__identity.sql"),
];
const ERASURE: &str = include_str!("../../../migrations/V6__erasure.sql");

/// A contact with an event in each state, as the versions before left them, and one that somebody marked as erased by hand.
const SAMPLES: &str = r#"
    insert into hubferry.portals (portal_id, name) values (4711, 'sample');
    insert into hubferry.brands values ('acme', 4711);
    insert into hubferry.products values ('acme', 'newsletter');
    insert into hubferry.mappings (brand, product, version, state, targets, activated_at)
    values ('acme', 'newsletter', 1, 'active', '{"subscription_type": 1001}', now());
    select hubferry.accept_subscription('acme', 'newsletter', 'k' || n, '{"key": "user-1", "email": "ada@example.test"}', 'unsubscribed',
                                        '{"legal_basis": "NON_GDPR", "explanation": "said ada"}')
    from generate_series(1, 9) as n;
    select hubferry.accept_subscription('acme', 'newsletter', 'other', '{"key": "user-2", "email": "bob@example.test"}', 'unsubscribed');
    update hubferry.contacts set erased_at = now() where contact_key = 'user-2';
    update hubferry.outbox_events e
    set status = s.status, queued_at = now(), last_error_code = 'x',
        lease_token = case when s.status in ('publishing', 'processing') then gen_random_uuid() end,
        lease_expires_at = case when s.status in ('publishing', 'processing') then now() end,
        finished_at = case when s.status in ('synced', 'superseded', 'dead', 'cancelled') then now() end
    from (select event_id, ('{pending,publishing,queued,processing,retry,synced,superseded,dead,cancelled,pending}'::text[])[row_number() over ()] as status
          from hubferry.outbox_events) as s
    where s.event_id = e.event_id;
"#;

#[tokio::test(flavor = "multi_thread")]
async fn events_from_before_are_what_they_were_and_their_contact_can_be_erased() {
    let world = World::new().await;
    world.sql("drop schema hubferry cascade; create schema hubferry").await;
    for migration in EARLIER {
        world.sql(migration).await;
    }
    world.sql(SAMPLES).await;
    let before = world.statuses().await;
    world.sql(ERASURE).await;
    assert_eq!(world.statuses().await, before);

    let connection = world.db.connection().await.unwrap();
    let row = connection.query_one("select replayed, events from hubferry.erase_contact('user-1')", &[]).await.unwrap();
    assert_eq!((row.get::<_, bool>(0), row.get::<_, Value>(1).as_array().unwrap().len()), (false, 1));
    let sql = "select array_agg(distinct e.status order by e.status) filter (where e.payload ? 'consent'),
                      array_agg(distinct e.status order by e.status) filter (where not e.payload ? 'consent')
               from hubferry.outbox_events e join hubferry.subscription_streams s using (stream_id) where s.contact_key = 'user-1'";
    let row = connection.query_one(sql, &[]).await.unwrap();
    // What a dispatcher or a worker has is theirs until they come for it.
    assert_eq!(row.get::<_, Vec<String>>(0), ["processing", "publishing", "queued"]);
    assert_eq!(row.get::<_, Vec<String>>(1), ["cancelled", "superseded", "synced"]);
}
