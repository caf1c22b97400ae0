//! The reads of other types than contacts, over a projection that was in use before.

use super::Crm;

const EARLIER: [&str; 13] = [
    include_str!("../../../migrations/V1__configuration.sql"),
    include_str!("../../../migrations/V2__contacts_streams_outbox.sql"),
    include_str!("../../../migrations/V3__accepting.sql"),
    include_str!("../../../migrations/V4__replay.sql"),
    include_str!("../../../migrations/V5__identity.sql"),
    include_str!("../../../migrations/V6__erasure.sql"),
    include_str!("../../../migrations/V7__webhooks.sql"),
    include_str!("../../../migrations/V8__crashes.sql"),
    include_str!("../../../migrations/V9__projection.sql"),
    include_str!("../../../migrations/V10__rules.sql"),
    include_str!("../../../migrations/V11__value_length.sql"),
    include_str!("../../../migrations/V12__webhook_erasure.sql"),
    include_str!("../../../migrations/V13__earlier_starts.sql"),
];
const READS: &str = include_str!("../../../migrations/V14__reads_of_every_type.sql");

/// A contact whose read is owed and a company that is uncertain for ever, as the versions before left them, and the delivery of
/// the latter's notification. A worker holds the events of both.
const SAMPLES: &str = r#"
    insert into hubferry.portals (portal_id, name) values (4711, 'sample');
    insert into hubferry.projected_types values (4711, 'company');
    insert into hubferry.outbox_events (event_id, kind, portal_id, lane, payload, status, lease_token, lease_expires_at)
    select id::uuid, 'webhook.delivery.v1', 4711, 'inbound', '{"delivery_id": "00000000-0000-0000-0000-00000000000a"}', 'processing',
           '00000000-0000-0000-0000-0000000000ff', clock_timestamp() + interval '1 hour'
    from unnest(array['00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000002']) as id;
    insert into hubferry.crm_records (portal_id, object_type, object_id, read_event_id, read_key)
    values (4711, 'contact', 77, '00000000-0000-0000-0000-000000000001', sha256('x')), (4711, 'company', 77, null, null);
    insert into hubferry.crm_values (portal_id, object_type, object_id, property, value, occurred_at, tied)
    select 4711, object_type, 77, 'city', 'Utrecht', '2026-09-21Z', true from unnest(array['contact', 'company']) as object_type;
    insert into hubferry.webhook_deliveries (delivery_id, headers, body_bytes, secret, signature_version, notifications, fresh)
    values ('00000000-0000-0000-0000-00000000000a', '{}', 0, 'current', 'v3', 1, 1);
    insert into hubferry.webhook_events (notification_key, delivery_id, position, portal_id, subscription_type, object_type, object_id,
                                         property_name, property_value, occurred_at, details)
    values (sha256('y'), '00000000-0000-0000-0000-00000000000a', 1, 4711, 'company.propertyChange', 'company', 77,
            'city', 'Utrecht', '2026-09-21Z', '{}');
"#;

const APPLY: &str = "select what, object_type, read_key from (
    select what, object_type, notification_key as read_key
    from hubferry.apply_webhook_deliveries('00000000-0000-0000-0000-0000000000ff', 4711,
        array['00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000002']::uuid[],
        array['00000000-0000-0000-0000-00000000000b', '00000000-0000-0000-0000-00000000000a']::uuid[])) as applied order by what";

/// What a worker of before writes, and one of now.
const SETTLE: [&str; 2] = [
    "select hubferry.settle_crm_reads('00000000-0000-0000-0000-0000000000ff', 4711,
        array['00000000-0000-0000-0000-000000000001']::uuid[], array[77::bigint], array[sha256('x')], array[77::bigint], array['city'],
        array['Delft'], array['2026-09-21Z'::timestamptz])",
    "select hubferry.settle_crm_reads('00000000-0000-0000-0000-0000000000ff', 4711,
        array['00000000-0000-0000-0000-000000000002']::uuid[], array['company'], array[77::bigint], array[sha256('y')], array['company'],
        array[77::bigint], array['city'], array['Gouda'], array['2026-09-21Z'::timestamptz])",
];

#[tokio::test(flavor = "multi_thread")]
async fn what_was_owed_before_is_still_owed_and_what_was_uncertain_for_ever_is_read_when_it_is_told_again() {
    let crm = Crm::new().await;
    crm.world.sql("drop schema hubferry cascade; create schema hubferry").await;
    for migration in EARLIER {
        crm.world.sql(migration).await;
    }
    crm.world.sql(SAMPLES).await;
    crm.world.sql(READS).await;
    let owed = crm.ask(APPLY).await;
    let owed: Vec<(&str, &str)> = owed.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(owed, [("read", "contact"), ("read_other", "company")]);
    for settle in SETTLE {
        crm.world.sql(settle).await;
    }
    let values = crm.ask("select value, tied from hubferry.crm_values order by object_type desc").await;
    let values: Vec<(&str, bool)> = values.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(values, [("Delft", false), ("Gouda", false)]);
    assert_eq!(crm.count("crm_records where read_event_id is not null").await, 0);
}
