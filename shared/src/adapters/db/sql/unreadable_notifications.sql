-- Quarantined notifications whose JSON was kept, of the next page of deliveries: see replay_notifications. What was signed
-- by somebody else's secret stays where it is.
with
page as (
    select d.delivery_id, d.app_id, d.received_at from hubferry.webhook_deliveries d
    where d.received_at >= $1 and d.received_at < $2
      and ($6::timestamptz is null or (d.received_at, d.delivery_id) > ($6, $7::uuid))
    order by d.received_at, d.delivery_id
    limit $8
)
select e.notification_key, e.raw, p.app_id, p.received_at
from page p
join hubferry.webhook_events e using (delivery_id)
where e.state = 'quarantined' and 'quarantined' = any ($3::text[]) and e.raw is not null
  and e.reason not in ('foreign_portal', 'foreign_app')
  and ($4::bigint is null or e.portal_id is null or e.portal_id = $4)
  and ($5::text is null or e.subscription_type is null or e.subscription_type = $5)
