-- What reacting to changes takes, in one row: the portal's active rules, and for each change, in order, whether it is our own
-- write, and what the rules ask about its record. No row without rules. $1 portal, $2 object types, $3 records, $4 properties,
-- $5 hashes of the values, $6 instants, one array a column; $7 how far a write and its echo may lie apart in ms, $8 notifications,
-- an array too.
with
active as (
    select s.version, s.rules, s.watched, s.reads from hubferry.rule_sets s where s.portal_id = $1 and s.state = 'active'
),
changes as (
    select c.* from unnest($2::text[], $3::bigint[], $4::text[], $5::bytea[], $6::timestamptz[], $8::bytea[]) with ordinality
        as c (object_type, object_id, property, value_hash, occurred_at, notification_key, position)
)
select a.version, a.rules, (
    select jsonb_agg(jsonb_build_object('echo', e.echo, 'properties', coalesce(r.properties, '{}')) order by c.position)
    from changes c
    -- Null: not written by us; true: this value; false: another one. What was found to be an echo stays one.
    cross join lateral (
        select case when (select n.state from hubferry.webhook_events n where n.notification_key = c.notification_key) = 'echo' then true
                    else bool_or(w.value_hash = c.value_hash) end as echo
        from hubferry.written_values w
        where w.portal_id = $1 and w.object_type = c.object_type and w.object_id = c.object_id and w.property = c.property
          and c.occurred_at between w.written_at - $7::bigint * interval '1 ms' and w.written_at + $7::bigint * interval '1 ms'
    ) as e
    -- Only for what rules wait for.
    cross join lateral (
        select jsonb_object_agg(v.property, v.value) as properties
        from hubferry.crm_values v
        where v.portal_id = $1 and v.object_type = c.object_type and v.object_id = c.object_id
          and v.property = any (a.reads) and v.value is not null
          and c.object_type || ':' || c.property = any (a.watched)
    ) as r) as facts
from active a
