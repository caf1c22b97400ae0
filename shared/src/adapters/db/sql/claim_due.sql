-- Claims events that are due for publishing, under a lease.
-- $1 lease token, $2 lease in ms, $3 most events a portal and lane, $4 how far ahead bulk work may be published in ms,
-- $5 bulk events that 100 calls carry in batch mode, $6 the same in single mode.
with
-- Portals that may be written to now, and how many bulk events their budget can use up in the time ahead.
open_portals as (
    select p.portal_id,
           greatest(1, p.call_limit * $4::bigint / p.call_window_ms
                       * case p.subscription_write_mode when 'batch' then $5::bigint else $6::bigint end / 100) as bulk_window
    from hubferry.portals p
    where p.mode = 'live' and (p.paused_until is null or p.paused_until <= (select clock_timestamp()))
),
-- Room for more: bulk work fills its window and no more; everything else has somebody waiting for it.
room as (
    select o.portal_id, lane.name as lane,
           case when lane.name <> 'bulk' then $3::bigint
                else least($3::bigint, o.bulk_window - (
                    select count(*) from hubferry.outbox_events e
                    where e.portal_id = o.portal_id and e.lane = 'bulk' and e.status in ('publishing', 'queued', 'processing')))
           end as events
    from open_portals o
    cross join (values ('interactive'), ('inbound'), ('effects'), ('bulk')) as lane (name)
),
-- Each portal and lane by itself, the longest due first, so that a loud tenant delays only itself.
due as (
    select picked.event_id
    from room r
    cross join lateral (
        select e.event_id from hubferry.outbox_events e
        where e.portal_id = r.portal_id and e.lane = r.lane and e.status in ('pending', 'retry')
          and e.next_attempt_at <= (select clock_timestamp())
        order by e.next_attempt_at
        limit greatest(0, r.events)
        for update skip locked
    ) as picked
)
update hubferry.outbox_events e
set status = 'publishing', lease_token = $1, lease_expires_at = clock_timestamp() + $2::bigint * interval '1 ms'
from due
where e.event_id = due.event_id
returning e.event_id, e.lane, e.brand, e.traceparent, e.publish_attempts
