-- Uncertain values of every projected type are read, not only those of contacts.

-- As before, but for reads of other types than contacts.
-- Step of merge_crm_records: what was known about the merged records is known about what is left of them, and uncertain until it
-- is read: HubSpot reports no change for what a merge changes.
create or replace function hubferry.move_merged(of_portal bigint, of_events uuid[], of_deliveries uuid[]) returns void language plpgsql as $$
declare
    types text[];
    ids bigint[];
    roots bigint[];
    gone_types text[];
    gone_ids bigint[];
begin
    -- What is left in the end, with the notification that asks for its read.
    with merges as (
        select distinct on (m.object_type, m.root) m.*
        from (
            select w.object_type, g.event_id, w.notification_key, w.occurred_at,
                   hubferry.crm_root(of_portal, w.object_type,
                       coalesce((w.details ->> 'newObjectId')::bigint, (w.details ->> 'primaryObjectId')::bigint, w.object_id)) as root
            from hubferry.webhook_events w
            join unnest(of_events, of_deliveries) as g (event_id, delivery_id) using (delivery_id)
            where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.state = 'received'
              and split_part(w.subscription_type, '.', 2) = 'merge'
        ) as m
        order by m.object_type, m.root, m.occurred_at desc, m.notification_key
    ),
    left_over as (
        update hubferry.crm_records r
        set absorbed_at = greatest(r.absorbed_at, m.occurred_at),
            read_event_id = m.event_id,
            read_key = m.notification_key
        from merges m
        where r.portal_id = of_portal and r.object_type = m.object_type and r.object_id = m.root
        returning r.object_type, r.object_id
    )
    select array_agg(l.object_type), array_agg(l.object_id) into types, roots from left_over l;

    -- All that became part of it, over however many merges.
    with recursive parts (object_type, object_id) as (
        select r.object_type, r.object_id
        from unnest(types, roots) as u (object_type, root)
        join hubferry.crm_records r on r.portal_id = of_portal and r.object_type = u.object_type and r.merged_into = u.root
        union
        select r.object_type, r.object_id
        from parts p
        join hubferry.crm_records r on r.portal_id = of_portal and r.object_type = p.object_type and r.merged_into = p.object_id
    )
    select array_agg(p.object_type), array_agg(p.object_id) into gone_types, gone_ids from parts p;

    -- Rows are found by their keys first: a join here may be planned as a walk over all of them.
    with moved as (
        delete from hubferry.crm_values v
        where v.ctid = any (array(
            select x.ctid
            from unnest(gone_types, gone_ids) as g (object_type, object_id)
            cross join lateral (
                select o.ctid from hubferry.crm_values o
                where o.portal_id = of_portal and o.object_type = g.object_type and o.object_id = g.object_id
                offset 0
            ) as x))
        returning v.object_type, hubferry.crm_root(of_portal, v.object_type, v.object_id) as root, v.property, v.value, v.occurred_at
    )
    insert into hubferry.crm_values as v (portal_id, object_type, object_id, property, value, occurred_at, tied)
    select distinct on (m.object_type, m.root, m.property) of_portal, m.object_type, m.root, m.property, m.value, m.occurred_at, true
    from moved m
    order by m.object_type, m.root, m.property, m.occurred_at desc, hubferry.value_rank(m.property, m.value) desc
    on conflict (portal_id, object_type, object_id, property) do update
        set value = excluded.value, occurred_at = excluded.occurred_at, tied = true
        where (v.occurred_at, hubferry.value_rank(v.property, v.value))
            < (excluded.occurred_at, hubferry.value_rank(excluded.property, excluded.value));
    update hubferry.crm_values v set tied = true
    where v.ctid = any (array(
        select x.ctid
        from unnest(types, roots) as u (object_type, root)
        cross join lateral (
            select r.absorbed_at from hubferry.crm_records r
            where r.portal_id = of_portal and r.object_type = u.object_type and r.object_id = u.root
            limit 1
        ) as r
        cross join lateral (
            select o.ctid from hubferry.crm_values o
            where o.portal_id = of_portal and o.object_type = u.object_type and o.object_id = u.root
              and o.occurred_at <= r.absorbed_at and not o.tied
            offset 0
        ) as x));

    with moved as (
        delete from hubferry.crm_associations a
        where a.ctid = any (array(
            select x.ctid
            from unnest(gone_types, gone_ids) as g (object_type, object_id)
            cross join lateral (
                (select o.ctid from hubferry.crm_associations o
                 where o.portal_id = of_portal and o.from_type = g.object_type and o.from_id = g.object_id offset 0)
                union
                (select o.ctid from hubferry.crm_associations o
                 where o.portal_id = of_portal and o.to_type = g.object_type and o.to_id = g.object_id offset 0)
            ) as x))
        returning a.*
    )
    insert into hubferry.crm_associations as a
        (portal_id, from_type, from_id, to_type, to_id, association, is_primary, removed, occurred_at)
    select distinct on (m.from_type, m.from_root, m.to_type, m.to_root, m.association, m.is_primary)
           of_portal, m.from_type, m.from_root, m.to_type, m.to_root, m.association, m.is_primary, m.removed, m.occurred_at
    from (
        select o.*, hubferry.crm_root(of_portal, o.from_type, o.from_id) as from_root, hubferry.crm_root(of_portal, o.to_type, o.to_id) as to_root
        from moved o
    ) as m
    where (m.from_type, m.from_root) <> (m.to_type, m.to_root)
    order by m.from_type, m.from_root, m.to_type, m.to_root, m.association, m.is_primary, m.occurred_at desc, m.removed desc
    on conflict (portal_id, from_type, from_id, to_type, to_id, association, is_primary) do update
        set removed = excluded.removed, occurred_at = excluded.occurred_at
        where (a.occurred_at, a.removed) < (excluded.occurred_at, excluded.removed);
end $$;

-- As before, but for reads of other types than contacts, and of what is told again.
-- Step of apply_webhook_deliveries: values. Changes of a property are taken in the order in which they happened, however they
-- came; what is older than what is known changes nothing. Several values at one instant, or one from before a merge, are
-- uncertain, and asked for.
create or replace function hubferry.apply_values(of_portal bigint, of_events uuid[], of_deliveries uuid[]) returns void language sql as $$
    with placed as materialized (
        select w.notification_key, w.delivery_id, w.object_type, w.property_name as property, w.property_value as value, w.occurred_at,
               case when r.is_merged then hubferry.crm_root(of_portal, w.object_type, w.object_id) else w.object_id end as object_id
        from hubferry.webhook_events w
        cross join lateral (
            select r.state = 'merged' as is_merged from hubferry.crm_records r
            where r.portal_id = of_portal and r.object_type = w.object_type and r.object_id = w.object_id
            limit 1
        ) as r
        where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.state = 'received'
          and split_part(w.subscription_type, '.', 2) = 'propertyChange'
    ),
    notes as materialized (
        select p.*, root.absorbed_at
        from placed p
        cross join lateral (
            select r.absorbed_at from hubferry.crm_records r
            where r.portal_id = of_portal and r.object_type = p.object_type and r.object_id = p.object_id
            limit 1
        ) as root
    ),
    -- One row by the key for each: a join here may be planned as a walk over all values.
    known as materialized (
        select n.object_type, n.object_id, n.property, v.value, v.occurred_at, v.tied
        from (select distinct n.object_type, n.object_id, n.property from notes n) as n
        cross join lateral (
            select v.value, v.occurred_at, v.tied from hubferry.crm_values v
            where v.portal_id = of_portal and v.object_type = n.object_type and v.object_id = n.object_id and v.property = n.property
            limit 1
        ) as v
    ),
    -- From here on by windows and not by joins, which would be planned for a handful of rows and meet thousands. A rank holds
    -- its value.
    told as (
        select n.notification_key, n.delivery_id, n.object_type, n.object_id, n.property, n.occurred_at, n.absorbed_at,
               hubferry.value_rank(n.property, n.value) as rank, false as known, false as tied
        from notes n
        union all
        select null, null, k.object_type, k.object_id, k.property, k.occurred_at, null,
               hubferry.value_rank(k.property, k.value), true, k.tied
        from known k
    ),
    compared as (
        select t.*, max(t.occurred_at) filter (where t.known) over own as known_at, max(t.rank) filter (where t.known) over own as known_rank,
               coalesce(bool_or(t.tied) over own, false) as known_tied, max(t.absorbed_at) over own as absorbed
        from told t
        window own as (partition by t.object_type, t.object_id, t.property)
    ),
    -- What held at each instant, by which notification (none: it was known), whether that is certain, and what held before.
    chain as materialized (
        select c.*, c.known_at is not null and c.occurred_at < c.known_at as is_older,
               max(c.rank) over instant as holds, first_value(c.notification_key) over (instant order by c.rank desc, c.notification_key nulls first) as holds_by,
               min(c.rank) over instant <> max(c.rank) over instant or bool_or(c.tied) over instant
                   or coalesce(c.occurred_at <= c.absorbed, false) as uncertain,
               case when c.occurred_at = c.known_at then c.known_rank
                    else max(c.rank) over (own order by c.occurred_at groups between 1 preceding and 1 preceding) end as before,
               c.occurred_at = max(c.occurred_at) over own as is_last
        from compared c
        window own as (partition by c.object_type, c.object_id, c.property),
               instant as (partition by c.object_type, c.object_id, c.property, c.occurred_at)
    ),
    news as materialized (
        select distinct on (c.object_type, c.object_id, c.property) c.*
        from chain c
        -- What is uncertain already is asked for again when it is told again: a replay reads what could not be read at first.
        where c.is_last and not c.is_older and not c.known
          and (c.uncertain or (c.known_at, c.known_rank, c.known_tied) is distinct from (c.occurred_at, c.holds, c.uncertain))
        order by c.object_type, c.object_id, c.property, c.notification_key
    ),
    written as (
        insert into hubferry.crm_values as v (portal_id, object_type, object_id, property, value, occurred_at, tied)
        select of_portal, n.object_type, n.object_id, n.property, hubferry.value_of_rank(n.holds), n.occurred_at, n.uncertain
        from news n
        order by n.object_type, n.object_id, n.property
        on conflict (portal_id, object_type, object_id, property) do update
            set value = excluded.value, occurred_at = excluded.occurred_at, tied = excluded.tied
            where v.occurred_at < excluded.occurred_at
               or v.occurred_at = excluded.occurred_at
                  and hubferry.value_rank(v.property, v.value) <= hubferry.value_rank(excluded.property, excluded.value)
    ),
    owed as (
        update hubferry.crm_records r
        set read_key = o.notification_key,
            read_event_id = (select g.event_id from unnest(of_events, of_deliveries) as g (event_id, delivery_id)
                             where g.delivery_id = o.delivery_id)
        from (
            select distinct on (n.object_type, n.object_id) n.object_type, n.object_id, n.notification_key, n.delivery_id
            from news n
            where n.uncertain
            order by n.object_type, n.object_id, n.notification_key
        ) as o
        where r.portal_id = of_portal and r.object_type = o.object_type and r.object_id = o.object_id
    )
    update hubferry.webhook_events w
    set state = case when s.applied then 'applied' else 'superseded' end,
        reason = case when s.is_older then 'older' when not s.applied then 'tied' end,
        -- What changed a value once still did when it is replayed.
        changed = w.changed or s.changed,
        value_before = case when w.changed then w.value_before when s.changed then hubferry.value_of_rank(s.before) end,
        settled_at = clock_timestamp()
    from (
        select c.notification_key, c.before, c.is_older, not c.is_older and c.rank = c.holds as applied,
               not c.is_older and c.holds_by = c.notification_key and hubferry.value_of_rank(c.holds) is distinct from hubferry.value_of_rank(c.before)
               and (c.absorbed is null or c.occurred_at > c.absorbed) as changed
        from chain c
        where not c.known
    ) as s
    where w.notification_key = s.notification_key
$$;

-- As before, but for reads of other types than contacts.
-- Applies all that was received of these deliveries of a portal, each notification once, as if it had come in the order in which
-- it happened. For the events of the deliveries that are still held under the lease; in the same order: events and deliveries.
--
-- Rows by what they say: `change`, a value that really changed (of this run or of one before it); `read`, a value of a contact whose
-- current state has to be read; `read_other`, one of another type, which a worker of before leaves alone; `erase`, an event that
-- still has to wipe something.
create or replace function hubferry.apply_webhook_deliveries(lease uuid, of_portal bigint, of_events uuid[], of_deliveries uuid[])
returns table (what text, event_id uuid, object_type text, object_id bigint, property text, before text, after text,
               occurred_at timestamptz, absorbed_at timestamptz, notification_key bytea, change_source text)
language plpgsql as $$
#variable_conflict use_column
declare
    alone boolean;
    touched bigint[] := '{}';
begin
    select array_agg(g.event_id), array_agg(g.delivery_id) into of_events, of_deliveries
    from unnest(of_events, of_deliveries) as g (event_id, delivery_id)
    join hubferry.outbox_events e using (event_id)
    where e.status = 'processing' and e.lease_token = lease and e.portal_id = of_portal;
    if of_events is null then
        return;
    end if;
    alone := exists (
        select from hubferry.webhook_events w
        where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.state = 'received'
          and split_part(w.subscription_type, '.', 2) in ('merge', 'privacyDeletion'));
    perform hubferry.lock_projection(of_portal, alone);
    perform from hubferry.webhook_events w
    where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.state = 'received'
    order by w.notification_key
    for update;

    perform hubferry.ignore_notifications(of_portal, of_deliveries);
    perform hubferry.lock_crm_records(of_portal, of_deliveries, alone);
    if alone then
        touched := hubferry.merge_crm_records(of_portal, of_events, of_deliveries)
                   || hubferry.bury_crm_records(of_portal, of_events, of_deliveries);
    end if;
    perform hubferry.drop_erased(of_portal, of_events, of_deliveries);
    touched := touched || hubferry.apply_existence(of_portal, of_deliveries);
    if cardinality(touched) > 0 then
        perform hubferry.relink_contacts(of_portal, touched);
    end if;
    perform hubferry.apply_values(of_portal, of_events, of_deliveries);
    perform hubferry.apply_associations(of_portal, of_deliveries);
    -- Where nothing is known, there is nothing to be read.
    update hubferry.crm_records r set read_event_id = null, read_key = null
    where r.read_event_id = any (of_events)
      and not exists (select from hubferry.crm_values v where v.portal_id = r.portal_id and v.object_type = r.object_type
                                                          and v.object_id = r.object_id and v.tied);

    return query
    select 'change', g.event_id, w.object_type, hubferry.crm_root(of_portal, w.object_type, w.object_id), w.property_name,
           w.value_before, w.property_value, w.occurred_at, null::timestamptz, w.notification_key, w.change_source
    from hubferry.webhook_events w
    join unnest(of_events, of_deliveries) as g (event_id, delivery_id) using (delivery_id)
    where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.changed
    order by w.occurred_at, w.notification_key;
    return query
    select case when r.object_type = 'contact' then 'read' else 'read_other' end, r.read_event_id, r.object_type, r.object_id, v.property, v.value, null::text, v.occurred_at, r.absorbed_at, r.read_key, null::text
    from hubferry.crm_records r
    join hubferry.crm_values v on v.portal_id = r.portal_id and v.object_type = r.object_type and v.object_id = r.object_id and v.tied
    where r.read_event_id = any (of_events)
    order by r.object_type, r.object_id, v.property;
    return query
    select distinct 'erase', r.erase_event_id, null::text, null::bigint, null::text, null::text, null::text,
           null::timestamptz, null::timestamptz, null::bytea, null::text
    from hubferry.crm_records r
    where r.erase_event_id = any (of_events);
end $$;

-- Writes what reads found, where nothing newer was applied meanwhile: then that counts. In the same order: for each record its type,
-- its id and the notification that asked; for each value the record's type and id, the property, the value read, and since when it
-- was known to be uncertain. A record without values here stays as uncertain as it was, and owes no read any more. The one without
-- types goes once no worker of before runs.
create function hubferry.settle_crm_reads(lease uuid, of_portal bigint, of_events uuid[], types text[], records bigint[], read_keys bytea[],
                                          value_types text[], value_records bigint[], properties text[], answers text[],
                                          known_at timestamptz[])
returns void language plpgsql as $$
begin
    select array_agg(e.event_id) into of_events
    from hubferry.outbox_events e
    where e.event_id = any (of_events) and e.status = 'processing' and e.lease_token = lease and e.portal_id = of_portal;
    perform hubferry.lock_projection(of_portal, false);
    perform from hubferry.crm_records r
    join unnest(types, records) as k (object_type, object_id) using (object_type, object_id)
    where r.portal_id = of_portal and r.read_event_id = any (of_events)
    order by r.object_type, r.object_id
    for update of r;
    update hubferry.crm_values v
    set value = f.answer, tied = false, occurred_at = greatest(v.occurred_at, r.absorbed_at)
    from unnest(value_types, value_records, properties, answers, known_at) as f (object_type, object_id, property, answer, known_at)
    join unnest(types, records, read_keys) as k (object_type, object_id, read_key) using (object_type, object_id)
    join hubferry.crm_records r on r.portal_id = of_portal and r.object_type = f.object_type and r.object_id = f.object_id
        and r.read_event_id = any (of_events) and r.read_key = k.read_key
    where v.portal_id = of_portal and v.object_type = f.object_type and v.object_id = f.object_id and v.property = f.property
      and v.tied and v.occurred_at = f.known_at;
    -- Who was asked for again meanwhile is read again.
    update hubferry.crm_records r set read_event_id = null, read_key = null
    from unnest(types, records, read_keys) as k (object_type, object_id, read_key)
    where r.portal_id = of_portal and r.object_type = k.object_type and r.object_id = k.object_id
      and r.read_event_id = any (of_events) and r.read_key = k.read_key;
end $$;
