-- What waits, what is under way, what ended in the last hour, and what a person has to look at, a row a portal.
select p.portal_id, p.name, p.mode,
       case when p.paused_until > clock_timestamp() then p.paused_until end as paused_until,
       case when p.paused_until > clock_timestamp() then p.paused_reason end as paused_reason,
       coalesce(u.pending, 0) as pending, coalesce(u.publishing, 0) as publishing, coalesce(u.queued, 0) as queued,
       coalesce(u.processing, 0) as processing, coalesce(u.retry, 0) as retry,
       (extract(epoch from clock_timestamp() - u.oldest) * 1000)::bigint as oldest_age_ms,
       coalesce(f.synced, 0) as synced, coalesce(f.superseded, 0) as superseded, coalesce(f.cancelled, 0) as cancelled,
       coalesce(d.dead, 0) as dead
from hubferry.portals p
left join (
    select e.portal_id,
           count(*) filter (where e.status = 'pending') as pending, count(*) filter (where e.status = 'publishing') as publishing,
           count(*) filter (where e.status = 'queued') as queued, count(*) filter (where e.status = 'processing') as processing,
           count(*) filter (where e.status = 'retry') as retry, min(e.created_at) as oldest
    from hubferry.outbox_events e where e.finished_at is null group by e.portal_id
) as u using (portal_id)
left join (
    select e.portal_id,
           count(*) filter (where e.status = 'synced') as synced, count(*) filter (where e.status = 'superseded') as superseded,
           count(*) filter (where e.status = 'cancelled') as cancelled
    from hubferry.outbox_events e where e.finished_at >= (select clock_timestamp()) - interval '1 hour' group by e.portal_id
) as f using (portal_id)
left join (
    -- What was replayed needs nobody's attention any more: its replay does, if that one dies too.
    select e.portal_id, count(*) as dead
    from hubferry.outbox_events e
    where e.status = 'dead' and not exists (select from hubferry.outbox_events r where r.replays = e.event_id)
    group by e.portal_id
) as d using (portal_id)
order by p.portal_id
