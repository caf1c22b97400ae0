-- Events that are not finished or dead, counted by what a person decides by.
-- $1 statuses, $2 filter of hubferry.event_matches and "unreplayed": without the dead ones that were replayed.
with
matching as (
    select e.status, e.brand, e.last_error_code
    from hubferry.outbox_events e left join hubferry.subscription_streams s using (stream_id)
    where e.finished_at is null and e.status = any ($1::text[]) and hubferry.event_matches(e, s.product, $2)
    union all
    select e.status, e.brand, e.last_error_code
    from hubferry.outbox_events e left join hubferry.subscription_streams s using (stream_id)
    where e.status = 'dead' and 'dead' = any ($1::text[]) and hubferry.event_matches(e, s.product, $2)
      and ($2 ->> 'unreplayed' is distinct from 'true' or not exists (select from hubferry.outbox_events r where r.replays = e.event_id))
)
select status, brand, last_error_code, count(*) as events
from matching
group by status, brand, last_error_code
order by events desc, status, brand, last_error_code
