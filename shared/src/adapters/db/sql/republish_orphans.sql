-- Republishes events that SQS took but no worker claimed in time: they wait again, due at once.
-- $1 how long queued is too long in ms, $2 most events.
with
orphans as (
    select e.event_id
    from hubferry.outbox_events e
    where e.status = 'queued' and e.queued_at < (select clock_timestamp()) - $1::bigint * interval '1 ms'
    order by e.queued_at
    limit $2::bigint
    for update skip locked
)
update hubferry.outbox_events e
set status = 'retry', next_attempt_at = clock_timestamp()
from orphans
where e.event_id = orphans.event_id
