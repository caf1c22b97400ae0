-- Events that are not finished or dead, the oldest first, behind a place in that order.
-- $1 statuses, $2 filter of hubferry.event_matches and "unreplayed": without the dead ones that were replayed; the place: $3 created_at, $4 event id (null: the beginning); $5 most rows.
with
-- Status by status, each by its index and no further than needed.
waiting as (
    select found.event_id, found.created_at
    from unnest($1::text[]) as wanted (status)
    cross join lateral (
        select e.event_id, e.created_at
        from hubferry.outbox_events e left join hubferry.subscription_streams s using (stream_id)
        where e.status = wanted.status and e.finished_at is null
          and (e.created_at, e.event_id) > (coalesce($3::timestamptz, '-infinity'), coalesce($4::uuid, '00000000-0000-0000-0000-000000000000'))
          and hubferry.event_matches(e, s.product, $2)
        order by e.created_at, e.event_id
        limit $5::bigint
    ) as found
),
dead as (
    select e.event_id, e.created_at
    from hubferry.outbox_events e left join hubferry.subscription_streams s using (stream_id)
    where e.status = 'dead' and 'dead' = any ($1::text[])
      and (e.created_at, e.event_id) > (coalesce($3::timestamptz, '-infinity'), coalesce($4::uuid, '00000000-0000-0000-0000-000000000000'))
      and hubferry.event_matches(e, s.product, $2)
      and ($2 ->> 'unreplayed' is distinct from 'true' or not exists (select from hubferry.outbox_events r where r.replays = e.event_id))
    order by e.created_at, e.event_id
    limit $5::bigint
),
page as (
    select * from waiting union all select * from dead order by created_at, event_id limit $5::bigint
)
select e.event_id, e.kind, e.portal_id, e.brand, s.product, e.lane, e.sequence, e.status, e.publish_attempts, e.process_attempts,
       e.last_error_code, e.last_error_summary, e.created_at, e.next_attempt_at, e.finished_at, e.replays, r.event_id as replayed_as
from page
join hubferry.outbox_events e using (event_id)
left join hubferry.subscription_streams s on s.stream_id = e.stream_id
left join hubferry.outbox_events r on r.replays = e.event_id
order by e.created_at, e.event_id
