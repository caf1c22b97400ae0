-- How a request is doing: what the event says that carries its decision now, which is the newest replay if there are any.
-- $1 request id.
with recursive
carried as (
    select r.event_id, 0 as step from hubferry.subscription_requests r where r.request_id = $1
    union all
    select e.event_id, c.step + 1 from carried c join hubferry.outbox_events e on e.replays = c.event_id
)
select r.brand, r.accepted_at, e.sequence, e.event_id, e.status, e.last_error_code, e.finished_at
from hubferry.subscription_requests r
cross join lateral (select c.event_id from carried c order by c.step desc limit 1) as newest
join hubferry.outbox_events e on e.event_id = newest.event_id
where r.request_id = $1
