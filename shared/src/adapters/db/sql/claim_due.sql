-- Claims events that are due for publishing, under a lease.
-- $1 lease token, $2 lease in ms, $3 most events a portal and lane, $4 how far ahead bulk work may be published in ms,
-- $5 bulk events that 100 calls carry in batch mode, $6 the same in single mode,
-- $7 how long a portal takes to come back after a pause in ms, $8 events of a lane with which it begins.
with
-- How many bulk events a portal's budget can use up in the time ahead.
portals as (
    select p.portal_id,
           -- Whether it may be written to now. What it reported is applied here all the same.
           p.mode = 'live' and (p.paused_until is null or p.paused_until <= (select clock_timestamp())) as is_open,
           greatest(1, p.call_limit * $4::bigint / p.call_window_ms
                       * case p.subscription_write_mode when 'batch' then $5::bigint else $6::bigint end / 100) as bulk_window,
           -- What stopped the portal may stop it again: the instant at which its last pause ended tells how far it is back, from
           -- 0 to 1. Null: it was not paused lately.
           nullif(least(1, extract(epoch from (select clock_timestamp()) - p.paused_until) * 1000 / $7::bigint), 1) as back
    from hubferry.portals p
),
-- Room for more: bulk work fills its window and no more; everything else has somebody waiting for it. Of a portal that comes
-- back from a pause, a few events of each lane are under way at first, and more from moment to moment: slowly, then fast.
room as (
    select o.portal_id, lane.name as lane, least($3::bigint, w.window_of_lane - (
               select count(*) from hubferry.outbox_events e
               where w.window_of_lane is not null
                 and e.portal_id = o.portal_id and e.lane = lane.name and e.status in ('publishing', 'queued', 'processing'))) as events
    from portals o
    -- Effects wait: no worker carries them out yet, and one that did not know them would give them up.
    cross join (values ('interactive'), ('inbound'), ('bulk')) as lane (name)
    -- Null: no window, and nothing to count.
    cross join lateral (select case
        when lane.name = 'inbound' then null
        when o.back is not null then least(o.bulk_window, greatest($8::bigint, (o.bulk_window * o.back * o.back)::bigint))
        when lane.name = 'bulk' then o.bulk_window end as window_of_lane) as w
    where o.is_open or lane.name = 'inbound'
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
returning e.event_id, e.lane, coalesce(e.brand, 'portal-' || e.portal_id) as brand, e.traceparent, e.publish_attempts
