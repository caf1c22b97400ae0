-- Notifications of the deliveries received from $1 until $2, the newest delivery first. $3 only in these states, $4 only of this
-- portal, $5 only of this type (each null: of all), $6 most deliveries looked at, $7 most rows.
with
deliveries as (
    select d.delivery_id, d.received_at from hubferry.webhook_deliveries d
    where d.received_at >= $1 and d.received_at < $2
    order by d.received_at desc, d.delivery_id desc
    limit $6
)
select encode(n.notification_key, 'hex') as notification, d.delivery_id, n.position, d.received_at, n.occurred_at, n.portal_id,
       n.subscription_type, n.object_type, n.object_id, n.property_name, n.state, n.reason
from deliveries d
cross join lateral (
    select * from hubferry.webhook_events e
    where e.delivery_id = d.delivery_id and ($3::text[] is null or e.state = any ($3)) and ($4::bigint is null or e.portal_id = $4)
      and ($5::text is null or e.subscription_type = $5)
) as n
order by d.received_at desc, d.delivery_id desc, n.position
limit $7
