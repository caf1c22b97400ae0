-- Lets suspects come again, since they are not worked together. $1 event ids, $2 shortest and $3 longest wait in ms.
with
-- In the order of the id, as a claim locks them.
published as (
    select e.event_id
    from hubferry.outbox_events e join unnest($1::uuid[]) as asked (event_id) using (event_id)
    where e.status in ('publishing', 'queued')
    order by e.event_id
    for update of e
)
update hubferry.outbox_events e
set status = 'retry', lease_token = null, lease_expires_at = null,
    next_attempt_at = clock_timestamp() + ($2::bigint + random() * ($3::bigint - $2::bigint)) * interval '1 ms'
from published
where e.event_id = published.event_id
