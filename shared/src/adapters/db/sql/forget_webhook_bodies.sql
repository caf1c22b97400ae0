-- Takes the bytes from deliveries that are older than $1, the oldest first and at most $2 of them.
update hubferry.webhook_deliveries d set body = null
where d.delivery_id in (
    select o.delivery_id from hubferry.webhook_deliveries o
    where o.body is not null and o.received_at < clock_timestamp() - $1::bigint * interval '1 ms'
    order by o.received_at
    limit $2
    for update skip locked)
