-- Events that ended, the newest first: what matches among the last ones. Reads outbox_events_finished.
-- $1 statuses, $2 filter of hubferry.event_matches, $3 how many to look at, $4 most rows.
with
last_ones as (
    select e.event_id, e.finished_at
    from hubferry.outbox_events e
    where e.finished_at is not null and e.status = any ($1::text[])
    order by e.finished_at desc
    limit $3::bigint
)
select e.event_id, e.kind, e.portal_id, e.brand, s.product, e.lane, e.sequence, e.status, e.publish_attempts, e.process_attempts,
       e.last_error_code, e.last_error_summary, e.created_at, e.next_attempt_at, e.finished_at, e.replays, r.event_id as replayed_as
from last_ones
join hubferry.outbox_events e using (event_id)
left join hubferry.subscription_streams s on s.stream_id = e.stream_id
left join hubferry.outbox_events r on r.replays = e.event_id
where hubferry.event_matches(e, s.product, $2)
order by last_ones.finished_at desc
limit $4::bigint
