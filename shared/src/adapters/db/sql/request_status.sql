-- How a request is doing: what the event says that carries its decision now, which is the newest replay if there are any.
-- $1 request id.
with recursive
carried as (
    select r.event_id, 0 as step from hubferry.subscription_requests r where r.request_id = $1
    union all
    select e.event_id, c.step + 1 from carried c join hubferry.outbox_events e on e.replays = c.event_id
)
select r.brand, r.accepted_at, e.sequence, e.event_id, e.status, e.last_error_code, e.finished_at,
       -- An event that is dead for a property has been carried over all the same.
       e.status = 'synced' or coalesce(a.event_id = e.event_id and a.applied_state = e.payload ->> 'desired_state', false) as applied
from hubferry.subscription_requests r
cross join lateral (select c.event_id from carried c order by c.step desc limit 1) as newest
join hubferry.outbox_events e on e.event_id = newest.event_id
left join hubferry.applied_states a on a.stream_id = e.stream_id
where r.request_id = $1
