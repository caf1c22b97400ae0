-- Returns events that SQS did not take to the waiting line, or ends those it will never take.
-- $1 lease token; in the same order: $2 event ids, $3 due in ms (null: dead), $4 counts as an attempt, $5 error codes.
with
-- In the order of the id, as a claim locks them.
mine as (
    select e.event_id, refused.due_in_ms, refused.charged, refused.code
    from hubferry.outbox_events e
    join unnest($2::uuid[], $3::bigint[], $4::boolean[], $5::text[]) as refused (event_id, due_in_ms, charged, code) using (event_id)
    where e.status = 'publishing' and e.lease_token = $1
    order by e.event_id
    for update of e
)
update hubferry.outbox_events e
set status = case when mine.due_in_ms is null then 'dead' else 'pending' end,
    publish_attempts = e.publish_attempts + mine.charged::integer,
    next_attempt_at = clock_timestamp() + coalesce(mine.due_in_ms, 0) * interval '1 ms',
    finished_at = case when mine.due_in_ms is null then clock_timestamp() end,
    last_error_code = mine.code, last_error_summary = 'SQS did not take the message',
    lease_token = null, lease_expires_at = null
from mine
where e.event_id = mine.event_id
