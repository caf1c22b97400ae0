-- Rescues events whose owner did not come back: they wait again, due at once.
-- A worker that died on an event may have died of it, so that counts as an attempt. $1 most events.
with
expired as (
    select e.event_id, e.status
    from hubferry.outbox_events e
    where e.status in ('publishing', 'processing') and e.lease_expires_at < (select clock_timestamp())
    order by e.lease_expires_at
    limit $1::bigint
    for update skip locked
)
update hubferry.outbox_events e
set status = case expired.status when 'publishing' then 'pending' else 'retry' end,
    process_attempts = e.process_attempts + (expired.status = 'processing')::integer,
    next_attempt_at = clock_timestamp(),
    last_error_code = 'lease_expired', last_error_summary = 'its owner did not come back before the lease ended',
    lease_token = null, lease_expires_at = null
from expired
where e.event_id = expired.event_id
returning expired.status
