-- Sets notifications of the next page of deliveries back to what they were when they came, and writes an event for each
-- delivery and portal of them. From $1 until $2, in the states $3, of portal $4 and type $5 (null: of all), behind the delivery $7
-- received at $6, $8 deliveries. Tells where the page ends; no instant: there was none left.
with
page as materialized (
    select d.delivery_id, d.received_at from hubferry.webhook_deliveries d
    where d.received_at >= $1 and d.received_at < $2
      and ($6::timestamptz is null or (d.received_at, d.delivery_id) > ($6, $7::uuid))
    order by d.received_at, d.delivery_id
    limit $8
),
chosen as (
    select e.notification_key
    from page p
    join hubferry.webhook_events e using (delivery_id)
    join hubferry.portals t on t.portal_id = e.portal_id
    where e.state = any ($3::text[]) and e.state <> 'received' and ($4::bigint is null or e.portal_id = $4)
      and ($5::text is null or e.subscription_type = $5)
      and e.occurred_at is not null and e.subscription_type is not null and e.details is not null
    order by e.notification_key
    for no key update of e
),
back as (
    update hubferry.webhook_events e set state = 'received', reason = null, settled_at = null
    from chosen c where e.notification_key = c.notification_key
    returning e.delivery_id, e.portal_id
),
events as (
    insert into hubferry.outbox_events (event_id, kind, portal_id, lane, payload, dedupe_key)
    select gen_random_uuid(), 'webhook.delivery.v1', b.portal_id, 'inbound',
           jsonb_build_object('delivery_id', b.delivery_id, 'portal_id', b.portal_id),
           b.delivery_id || ':' || b.portal_id || ':replay:' || $9::uuid
    from (select distinct delivery_id, portal_id from back) as b
    order by b.delivery_id, b.portal_id
    returning 1
)
select (select count(*) from page) as deliveries, (select count(*) from back) as notifications, (select count(*) from events) as events,
       l.received_at, l.delivery_id
from (values (1)) as one
left join lateral (select p.received_at, p.delivery_id from page p order by p.received_at desc, p.delivery_id desc limit 1) as l on true
