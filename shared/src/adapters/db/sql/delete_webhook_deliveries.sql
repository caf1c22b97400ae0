-- Deletes deliveries that are older than $1 with their notifications, the oldest first and at most $2 of them. One that
-- still has something to be applied stays.
delete from hubferry.webhook_deliveries d
where d.delivery_id in (
    select o.delivery_id from hubferry.webhook_deliveries o
    where o.received_at < clock_timestamp() - $1::bigint * interval '1 ms'
      and not exists (select from hubferry.webhook_events e where e.delivery_id = o.delivery_id and e.state = 'received')
    order by o.received_at
    limit $2
    for update skip locked)
