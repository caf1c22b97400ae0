-- Notifications of the deliveries received from $1 until $2 by state, reason and type, the largest number first. $3 only in
-- these states, $4 only of this portal, $5 only of this type (each null: of all).
select e.state, e.reason, e.subscription_type, count(*) as notifications, count(distinct e.delivery_id) as deliveries
from hubferry.webhook_deliveries d
join hubferry.webhook_events e using (delivery_id)
where d.received_at >= $1 and d.received_at < $2
  and ($3::text[] is null or e.state = any ($3)) and ($4::bigint is null or e.portal_id = $4)
  and ($5::text is null or e.subscription_type = $5)
group by 1, 2, 3
order by 4 desc, 1, 2, 3
limit 100
