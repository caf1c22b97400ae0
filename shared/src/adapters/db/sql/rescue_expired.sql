-- Rescues events whose owner did not come back: they wait again.
-- A worker that died on an event may have died of it, so that counts as an attempt. Once or twice is an accident, and the event
-- is due at once; from then on it waits longer each time, so that a version that crashes on everything is noticed before it has
-- used up all attempts. The last attempt is the end, here and not in a worker: that would crash again.
-- $1 most events, $2 attempts in all, $3 crashes that are no accident any more, $4 the first wait and $5 the longest in ms.
with
expired as (
    select e.event_id, e.status,
           e.crashes + (e.status = 'processing')::integer as crashes,
           e.process_attempts + (e.status = 'processing')::integer as attempts
    from hubferry.outbox_events e
    where e.status in ('publishing', 'processing') and e.lease_expires_at < (select clock_timestamp())
    order by e.lease_expires_at
    limit $1::bigint
    for update skip locked
),
judged as (
    select x.*,
           case when x.status = 'publishing' then 'pending' when x.attempts >= $2::integer then 'dead' else 'retry' end as now_is,
           case when x.status = 'processing' and x.crashes >= $3::integer
                then least($5::bigint, $4::bigint * 3 ^ least(x.crashes - $3::integer, 20)) else 0 end as wait_ms
    from expired x
)
update hubferry.outbox_events e
set status = j.now_is, crashes = j.crashes, process_attempts = j.attempts,
    next_attempt_at = clock_timestamp() + j.wait_ms * interval '1 ms',
    finished_at = case when j.now_is = 'dead' then clock_timestamp() end,
    last_error_code = case when j.now_is <> 'dead' then 'lease_expired' when j.crashes >= $3::integer then 'worker_crashed' else 'attempts_exhausted' end,
    last_error_summary = 'its owner did not come back before the lease ended',
    lease_token = null, lease_expires_at = null
from judged j
where e.event_id = j.event_id
returning e.event_id, j.status, j.now_is
