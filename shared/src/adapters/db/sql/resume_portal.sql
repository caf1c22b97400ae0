-- Ends the pause of a portal now, and makes due what waits for its time. $1 portal id.
with
portal as (
    select p.portal_id, p.call_limit, p.call_window_ms, coalesce(p.paused_until > clock_timestamp(), false) as was_paused
    from hubferry.portals p where p.portal_id = $1
    for no key update
),
-- The end stays on the row: by it the dispatcher sees that the portal is just coming back.
resumed as (
    update hubferry.portals p set paused_until = clock_timestamp(), updated_at = clock_timestamp()
    from portal where p.portal_id = portal.portal_id and portal.was_paused
),
-- In the order of the id, as a claim locks them.
waiting as (
    select e.event_id
    from hubferry.outbox_events e join portal using (portal_id)
    where e.status = 'retry' and e.next_attempt_at > (select clock_timestamp())
    order by e.event_id
    for update of e
),
due as (
    update hubferry.outbox_events e set next_attempt_at = clock_timestamp()
    from waiting where e.event_id = waiting.event_id
    returning 1
)
select was_paused, call_limit, call_window_ms, (select count(*) from due) as events from portal
