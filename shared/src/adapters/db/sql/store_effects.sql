-- Writes down what follows from changes, and what the changes were. $1 portal, $2 kinds, $3 dedupe keys, $4 payloads, $5 codes of
-- those that can't be carried out, $6 their summaries, one array a column; $7 notifications of our own writes,
-- $8 of other values than we wrote. An effect that is there already is left as it is.
with
given as (
    select * from unnest($2::text[], $3::text[], $4::jsonb[], $5::text[], $6::text[])
        as g (kind, dedupe_key, payload, code, summary)
),
stored as (
    insert into hubferry.outbox_events (event_id, kind, portal_id, lane, payload, dedupe_key, status, last_error_code,
                                        last_error_summary, finished_at)
    select gen_random_uuid(), g.kind, $1, 'effects', g.payload, g.dedupe_key,
           case when g.code is null then 'pending' else 'dead' end, g.code, g.summary,
           case when g.code is not null then clock_timestamp() end
    from given g
    -- Everybody who writes the same effects meets them in this order.
    order by g.kind, g.dedupe_key
    on conflict (kind, dedupe_key) where dedupe_key is not null do nothing
    returning 1
),
marked as (
    update hubferry.webhook_events e
    set state = case when e.notification_key = any ($7::bytea[]) then 'echo' else e.state end,
        reason = case when e.notification_key = any ($7::bytea[]) then e.reason else 'near_echo' end
    from (
        select m.notification_key from hubferry.webhook_events m
        where m.notification_key = any ($7::bytea[] || $8::bytea[]) and m.state = 'applied'
        order by m.notification_key
        for no key update
    ) as m
    where e.notification_key = m.notification_key
    returning e.state
)
select (select count(*) from stored)::integer as stored,
       (select count(*) from marked where state = 'echo')::integer as echoes
