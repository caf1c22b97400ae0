-- Stores a delivery, each of its notifications that is not known yet, and one event a portal for the worker.
-- $1 delivery, $2 headers, $3 body, $4 app, $5 secret, $6 version, $7 why it is unreadable, $8… one array a column of
-- the notifications, all of one length. Nothing is known already when two deliveries of the same arrive at once: the second
-- waits for the first at the keys, in their order, and finds them taken.
with
given as (
    select g.*
    from unnest($8::bytea[], $9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::bigint[], $14::text[], $15::text[],
                $16::timestamptz[], $17::text[], $18::text[], $19::jsonb[], $20::text[], $21::text[]) with ordinality
        as g (notification_key, portal_id, app_id, subscription_type, object_type, object_id, property_name, property_value,
              occurred_at, event_id, change_source, details, raw, reason, position)
),
-- A portal that nobody registered here: kept, and nothing follows from it.
judged as (
    select g.*, coalesce(g.reason, case when p.portal_id is null then 'unknown_portal' end) as found
    from given g left join hubferry.portals p using (portal_id)
),
fresh as (
    insert into hubferry.webhook_events (notification_key, delivery_id, position, portal_id, app_id, subscription_type, object_type,
                                         object_id, property_name, property_value, occurred_at, event_id, change_source,
                                         details, raw, state, reason)
    select j.notification_key, $1, j.position, j.portal_id, j.app_id, j.subscription_type, j.object_type,
           j.object_id, j.property_name, j.property_value, j.occurred_at, j.event_id, j.change_source,
           j.details, j.raw, case when j.found is null then 'received' else 'quarantined' end, j.found
    from judged j
    order by j.notification_key
    on conflict (notification_key) do nothing
    returning portal_id, state
),
counted as (
    select count(*)::integer as fresh,
           (count(*) filter (where state = 'received'))::integer as received,
           (count(*) filter (where state = 'quarantined'))::integer as quarantined
    from fresh
),
-- The body of a delivery that says nothing new is not kept: HubSpot may send it ten times.
delivery as (
    insert into hubferry.webhook_deliveries (delivery_id, headers, body, body_bytes, app_id, secret, signature_version,
                                             notifications, fresh, unreadable)
    select $1, $2, case when c.fresh > 0 or $7 is not null then $3::bytea end, length($3), $4, $5, $6,
           cardinality($8), c.fresh, $7
    from counted c
),
events as (
    insert into hubferry.outbox_events (event_id, kind, portal_id, lane, payload, dedupe_key)
    select gen_random_uuid(), 'webhook.delivery.v1', f.portal_id, 'inbound',
           jsonb_build_object('delivery_id', $1, 'portal_id', f.portal_id), $1::text || ':' || f.portal_id::text
    from fresh f
    where f.state = 'received'
    group by f.portal_id
    order by f.portal_id
    returning 1
)
select c.received, c.quarantined, cardinality($8) - c.fresh as repeated, (select count(*) from events)::integer as events
from counted c
