-- What HubSpot is known to hold: a local projection that comes out the same whatever order its notifications came in.

-- Writer: the projection. A record, once a notification named it; whoever changes anything of a record holds its row.
create table hubferry.crm_records (
    portal_id      bigint not null references hubferry.portals,
    object_type    text not null check (length(object_type) between 1 and 250),
    object_id      bigint not null check (object_id > 0),
    state          text not null default 'live' check (state in ('live', 'deleted', 'merged')),
    -- Since when, by HubSpot's clock. Null: nothing was said about it yet.
    state_at       timestamptz check (isfinite(state_at)),
    created_at     timestamptz check (isfinite(created_at)),
    -- The record that it became part of, as HubSpot said then: that one may have been merged again since.
    merged_into    bigint check (merged_into <> object_id),
    merged_at      timestamptz check (isfinite(merged_at)),
    -- When another record became part of it last. HubSpot does not say which values that changed.
    absorbed_at    timestamptz check (isfinite(absorbed_at)),
    -- Deleted for privacy: nothing about it is stored any more.
    erased_at      timestamptz check (isfinite(erased_at)),
    -- The event that still has to wipe what is stored elsewhere about it.
    erase_event_id uuid,
    -- The event that still has to read its current values, and the notification that asked for it.
    read_event_id  uuid,
    read_key       bytea check (length(read_key) = 32),
    primary key (portal_id, object_type, object_id),
    check ((state = 'merged') = (merged_into is not null)),
    check ((merged_into is null) = (merged_at is null)),
    check ((read_event_id is null) = (read_key is null)),
    check (erase_event_id is null or erased_at is not null)
) with (fillfactor = 80);

-- Reader: apply_webhook_deliveries, which looks for what became part of a record.
create index crm_records_merged on hubferry.crm_records (portal_id, object_type, merged_into) where merged_into is not null;

-- Readers: apply_webhook_deliveries (reads that an event owes) and settle_crm_reads.
create index crm_records_reads on hubferry.crm_records (read_event_id) where read_event_id is not null;

-- Reader: erase_crm_records.
create index crm_records_erasing on hubferry.crm_records (erase_event_id) where erase_event_id is not null;

-- Writer: the projection.
create table hubferry.crm_values (
    portal_id   bigint not null,
    object_type text not null,
    object_id   bigint not null,
    property    text not null check (length(property) between 1 and 250),
    value       text,
    -- When it took this value, by HubSpot's clock.
    occurred_at timestamptz not null check (isfinite(occurred_at)),
    -- Uncertain: HubSpot reported several values for this instant, or a merge may have changed it.
    tied        boolean not null default false,
    primary key (portal_id, object_type, object_id, property),
    foreign key (portal_id, object_type, object_id) references hubferry.crm_records on delete cascade
) with (fillfactor = 80);

-- Writer: the projection. A primary association is one beside the ordinary one between the same two records, as in HubSpot.
create table hubferry.crm_associations (
    portal_id   bigint not null references hubferry.portals,
    from_type   text not null,
    from_id     bigint not null check (from_id > 0),
    to_type     text not null,
    to_id       bigint not null check (to_id > 0),
    association text not null,
    is_primary  boolean not null,
    removed     boolean not null,
    occurred_at timestamptz not null check (isfinite(occurred_at)),
    primary key (portal_id, from_type, from_id, to_type, to_id, association, is_primary)
) with (fillfactor = 80);

-- Reader: apply_webhook_deliveries, when the record at the other end is merged or erased.
create index crm_associations_to on hubferry.crm_associations (portal_id, to_type, to_id);

-- Object types that are projected beside contacts, which always are. Writer: whoever loads rules about them.
create table hubferry.projected_types (
    portal_id   bigint not null references hubferry.portals,
    object_type text not null check (length(object_type) between 1 and 250),
    primary key (portal_id, object_type)
);

alter table hubferry.webhook_events
    -- It really changed a value: what follows from it is found again when its event is worked again.
    add column changed boolean not null default false,
    add column value_before text;

-- Reader: erase_crm_records, which wipes what was reported about a record.
create index webhook_events_record on hubferry.webhook_events (portal_id, object_id) where object_id is not null;

-- Where a contact was before its record was deleted: a restored record is linked again.
alter table hubferry.contact_links add column deleted_record_id bigint check (deleted_record_id > 0);

-- Reader: apply_webhook_deliveries, when a record is restored or merged, and erase_crm_records.
create index contact_links_deleted on hubferry.contact_links (portal_id, deleted_record_id) where deleted_record_id is not null;

-- The properties that say that a person wants no mail: none at all, or none of one subscription type.
create function hubferry.is_opt_out_property(property text) returns boolean language sql immutable parallel safe as $$
    select property ~ '^hs_email_optout(_[0-9]+)?$'
$$;

-- Of several values for one instant the one with the highest rank is kept: opting out, else whichever, but always the same.
create function hubferry.value_rank(property text, value text) returns text language sql immutable parallel safe as $$
    select case when value is null then '0'
                when hubferry.is_opt_out_property(property) and lower(value) = 'true' then '2' || value
                else '1' || value end collate "C"
$$;

-- The value of a rank.
create function hubferry.value_of_rank(rank text) returns text language sql immutable parallel safe as $$
    select case when rank <> '0' then substr(rank, 2) end
$$;

-- HubSpot's type ids of objects that have a name, and their names.
create function hubferry.crm_type(type_id text) returns text language sql immutable parallel safe as $$
    select case type_id when '0-1' then 'contact' when '0-2' then 'company' when '0-3' then 'deal' when '0-5' then 'ticket'
                        when '0-7' then 'product' when '0-8' then 'line_item' else type_id end
$$;

-- The record that is left of a record after all merges; itself if it was never merged.
create function hubferry.crm_root(of_portal bigint, of_type text, of_id bigint) returns bigint language sql stable as $$
    with recursive path (object_id, merged_into) as (
        select of_id, (select r.merged_into from hubferry.crm_records r
                       where r.portal_id = of_portal and r.object_type = of_type and r.object_id = of_id)
        union
        select r.object_id, r.merged_into
        from path p join hubferry.crm_records r
            on r.portal_id = of_portal and r.object_type = of_type and r.object_id = p.merged_into
    )
    select coalesce((select p.object_id from path p where p.merged_into is null limit 1), of_id)
$$;

-- What is applied of these deliveries of a portal: locked, so that nobody applies it twice. Merges and erasures touch records that
-- no notification names, so they have the portal's projection to themselves; everything else runs side by side.
create function hubferry.lock_projection(of_portal bigint, alone boolean) returns void language plpgsql as $$
declare
    key constant bigint := hashtextextended('hubferry.projection', of_portal);
begin
    if alone then
        perform pg_advisory_xact_lock(key);
    else
        perform pg_advisory_xact_lock_shared(key);
    end if;
end $$;

-- Step of apply_webhook_deliveries: types that nobody projects, and types that nobody knows.
create function hubferry.ignore_notifications(of_portal bigint, of_deliveries uuid[]) returns void language sql as $$
    update hubferry.webhook_events w
    set state = 'ignored', settled_at = clock_timestamp(), reason = case when k.known then 'object_type' else 'unknown_type' end
    from (
        select n.notification_key,
               split_part(n.subscription_type, '.', 2) in
                   ('creation', 'propertyChange', 'deletion', 'restore', 'merge', 'associationChange')
               or n.object_type = 'contact' and split_part(n.subscription_type, '.', 2) = 'privacyDeletion' as known,
               coalesce(n.object_type = 'contact' or n.object_type in (
                   select t.object_type from hubferry.projected_types t where t.portal_id = of_portal), false) as projected
        from hubferry.webhook_events n
        where n.delivery_id = any (of_deliveries) and n.portal_id = of_portal and n.state = 'received'
    ) as k
    where w.notification_key = k.notification_key and not (k.known and k.projected)
$$;

-- Step of apply_webhook_deliveries: makes and locks the records that are named, and those that they were merged into; where this
-- statement is alone, also those that were merged into them. In the order of their ids, so that two of these never deadlock.
create function hubferry.lock_crm_records(of_portal bigint, of_deliveries uuid[], alone boolean) returns void language plpgsql as $$
declare
    types text[];
    ids bigint[];
begin
    with recursive notes as materialized (
        select w.object_type, w.object_id, w.details, split_part(w.subscription_type, '.', 2) = 'merge' as merges
        from hubferry.webhook_events w
        where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.state = 'received'
    ),
    named (object_type, object_id) as (
        select n.object_type, n.object_id from notes n where n.object_id is not null
        union
        select n.object_type, m.id
        from notes n
        cross join lateral (
            select (n.details ->> 'newObjectId')::bigint as id
            union select (n.details ->> 'primaryObjectId')::bigint
            union select e.id::bigint from jsonb_array_elements_text(n.details -> 'mergedObjectIds') as e (id)
        ) as m
        where n.merges and m.id is not null
    ),
    reached (object_type, object_id) as (
        select * from named
        union
        select x.object_type, x.object_id
        from reached c
        cross join lateral (
            select r.object_type, r.merged_into as object_id from hubferry.crm_records r
            where r.portal_id = of_portal and r.object_type = c.object_type and r.object_id = c.object_id and r.merged_into is not null
            union all
            select r.object_type, r.object_id from hubferry.crm_records r
            where alone and r.portal_id = of_portal and r.object_type = c.object_type and r.merged_into = c.object_id
        ) as x
    )
    select array_agg(r.object_type), array_agg(r.object_id) into types, ids from reached r;

    insert into hubferry.crm_records (portal_id, object_type, object_id)
    select of_portal, u.object_type, u.object_id
    from unnest(types, ids) as u (object_type, object_id)
    order by u.object_type, u.object_id
    on conflict do nothing;
    perform from hubferry.crm_records r
    join unnest(types, ids) as u (object_type, object_id) using (object_type, object_id)
    where r.portal_id = of_portal
    order by r.object_type, r.object_id
    for update of r;
end $$;

-- Step of apply_webhook_deliveries: records that became one. Returns the contacts' records that are left.
create function hubferry.merge_crm_records(of_portal bigint, of_events uuid[], of_deliveries uuid[]) returns bigint[] language plpgsql as $$
declare
    lost bigint[];
begin
    -- Who survived, since when, and by which notification.
    with notes as materialized (
        select w.object_type, w.occurred_at, w.notification_key, g.event_id,
               coalesce((w.details ->> 'newObjectId')::bigint, (w.details ->> 'primaryObjectId')::bigint, w.object_id) as survivor
        from hubferry.webhook_events w
        join unnest(of_events, of_deliveries) as g (event_id, delivery_id) using (delivery_id)
        where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.state = 'received'
          and split_part(w.subscription_type, '.', 2) = 'merge'
    )
    update hubferry.crm_records r set absorbed_at = greatest(r.absorbed_at, n.occurred_at)
    from (select n.object_type, n.survivor, max(n.occurred_at) as occurred_at from notes n group by 1, 2) as n
    where r.portal_id = of_portal and r.object_type = n.object_type and r.object_id = n.survivor;

    -- Who became part of it. The newest merge of a record counts; of two at once, always the same one.
    with gone as (
        select distinct on (n.object_type, m.id) n.object_type, m.id as object_id, n.survivor, n.occurred_at
        from (
            select w.*, coalesce((w.details ->> 'newObjectId')::bigint, (w.details ->> 'primaryObjectId')::bigint, w.object_id) as survivor
            from hubferry.webhook_events w
            where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.state = 'received'
              and split_part(w.subscription_type, '.', 2) = 'merge'
        ) as n
        cross join lateral (
            select n.object_id as id
            union select (n.details ->> 'primaryObjectId')::bigint
            union select e.id::bigint from jsonb_array_elements_text(n.details -> 'mergedObjectIds') as e (id)
        ) as m
        where m.id <> n.survivor
        order by n.object_type, m.id, n.occurred_at desc, n.survivor desc
    )
    update hubferry.crm_records r
    set state = 'merged', state_at = g.occurred_at, merged_into = g.survivor, merged_at = g.occurred_at, read_event_id = null, read_key = null
    from gone g
    where r.portal_id = of_portal and r.object_type = g.object_type and r.object_id = g.object_id
      -- Who took in another record later was not gone by then.
      and (r.absorbed_at is null or r.absorbed_at <= g.occurred_at)
      and (r.merged_at is null or (r.merged_at, r.merged_into) < (g.occurred_at, g.survivor));
    update hubferry.crm_records r set state = 'live', merged_into = null, merged_at = null
    where r.portal_id = of_portal and r.merged_at < r.absorbed_at
      and (r.object_type, r.object_id) in (
          select w.object_type, coalesce((w.details ->> 'newObjectId')::bigint, (w.details ->> 'primaryObjectId')::bigint, w.object_id)
          from hubferry.webhook_events w
          where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.state = 'received'
            and split_part(w.subscription_type, '.', 2) = 'merge');

    perform hubferry.move_merged(of_portal, of_events, of_deliveries);

    select array_agg(r.object_id) into lost
    from hubferry.webhook_events w
    cross join lateral (
        select w.object_id as id
        union select (w.details ->> 'primaryObjectId')::bigint
        union select e.id::bigint from jsonb_array_elements_text(w.details -> 'mergedObjectIds') as e (id)
    ) as m
    join hubferry.crm_records r on r.portal_id = of_portal and r.object_type = w.object_type and r.object_id = m.id
    where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.state = 'received'
      and split_part(w.subscription_type, '.', 2) = 'merge' and w.object_type = 'contact' and r.state = 'merged';
    update hubferry.webhook_events w set state = 'applied', settled_at = clock_timestamp()
    where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.state = 'received'
      and split_part(w.subscription_type, '.', 2) = 'merge';
    return coalesce(lost, '{}');
end $$;

-- Step of merge_crm_records: what was known about the merged records is known about what is left of them, and uncertain until it
-- is read: HubSpot reports no change for what a merge changes.
create function hubferry.move_merged(of_portal bigint, of_events uuid[], of_deliveries uuid[]) returns void language plpgsql as $$
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
            read_event_id = case when m.object_type = 'contact' then m.event_id end,
            read_key = case when m.object_type = 'contact' then m.notification_key end
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

-- Step of apply_webhook_deliveries: contacts that were deleted for privacy, with all that ever became part of them. What is
-- projected of them goes here; what is stored elsewhere is owed by the event, since it may have to wait for others.
create function hubferry.bury_crm_records(of_portal bigint, of_events uuid[], of_deliveries uuid[]) returns bigint[] language plpgsql as $$
declare
    ids bigint[];
begin
    with recursive one (object_id, event_id) as (
        select w.object_id, g.event_id
        from hubferry.webhook_events w
        join unnest(of_events, of_deliveries) as g (event_id, delivery_id) using (delivery_id)
        where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.state = 'received'
          and w.subscription_type like '%.privacyDeletion'
        union
        -- A merge that is heard of late leads to one that was erased before.
        select r.object_id, g.event_id
        from hubferry.webhook_events w
        join unnest(of_events, of_deliveries) as g (event_id, delivery_id) using (delivery_id)
        cross join lateral (
            select w.object_id as id
            union select hubferry.crm_root(of_portal, 'contact', w.object_id)
            union select e.id::bigint from jsonb_array_elements_text(w.details -> 'mergedObjectIds') as e (id)
        ) as m
        join hubferry.crm_records r on r.portal_id = of_portal and r.object_type = 'contact' and r.object_id = m.id
        where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.object_type = 'contact'
          and w.subscription_type like '%.merge' and r.erased_at is not null
    ),
    whole (object_id, event_id) as (
        select * from one
        union
        select x.object_id, c.event_id
        from whole c
        cross join lateral (
            select r.merged_into as object_id from hubferry.crm_records r
            where r.portal_id = of_portal and r.object_type = 'contact' and r.object_id = c.object_id and r.merged_into is not null
            union all
            select r.object_id from hubferry.crm_records r
            where r.portal_id = of_portal and r.object_type = 'contact' and r.merged_into = c.object_id
        ) as x
    ),
    buried as (
        update hubferry.crm_records r
        set erased_at = coalesce(r.erased_at, clock_timestamp()), erase_event_id = c.event_id, read_event_id = null, read_key = null,
            state = case when r.state = 'merged' then 'merged' else 'deleted' end
        from (select c.object_id, min(c.event_id::text)::uuid as event_id from whole c group by 1) as c
        where r.portal_id = of_portal and r.object_type = 'contact' and r.object_id = c.object_id
        returning r.object_id
    )
    select array_agg(b.object_id) into ids from buried b;

    delete from hubferry.crm_values v
    where v.portal_id = of_portal and v.object_type = 'contact' and v.object_id = any (ids);
    delete from hubferry.crm_associations a
    where a.portal_id = of_portal and a.from_type = 'contact' and a.from_id = any (ids);
    delete from hubferry.crm_associations a
    where a.portal_id = of_portal and a.to_type = 'contact' and a.to_id = any (ids);
    return coalesce(ids, '{}');
end $$;

-- Step of apply_webhook_deliveries: nothing more is taken in about a contact that was deleted for privacy.
create function hubferry.drop_erased(of_portal bigint, of_events uuid[], of_deliveries uuid[]) returns void language sql as $$
    with dropped as (
        update hubferry.webhook_events w
        set state = case when w.subscription_type like '%.privacyDeletion' then 'applied' else 'ignored' end,
            reason = case when w.subscription_type like '%.privacyDeletion' then null else 'erased' end,
            property_value = null, details = '{}', settled_at = clock_timestamp()
        from hubferry.crm_records r
        where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.state = 'received'
          and r.portal_id = of_portal and r.object_type = w.object_type and r.object_id = w.object_id and r.erased_at is not null
        returning w.object_type, w.object_id, w.delivery_id
    )
    update hubferry.crm_records r set erase_event_id = d.event_id
    from (
        select distinct on (d.object_type, d.object_id) d.object_type, d.object_id, g.event_id
        from dropped d join unnest(of_events, of_deliveries) as g (event_id, delivery_id) using (delivery_id)
        order by d.object_type, d.object_id, g.event_id
    ) as d
    where r.portal_id = of_portal and r.object_type = d.object_type and r.object_id = d.object_id
$$;

-- Step of apply_webhook_deliveries: which records are there. Of a record's deletion and its creation or restoring at one instant
-- the deletion counts. Returns the contacts' records whose state is another one now.
create function hubferry.apply_existence(of_portal bigint, of_deliveries uuid[]) returns bigint[] language sql as $$
    with notes as materialized (
        select w.notification_key, w.object_type, w.object_id, w.occurred_at, split_part(w.subscription_type, '.', 2) as kind,
               case split_part(w.subscription_type, '.', 2) when 'deletion' then 'deleted' else 'live' end as state,
               r.state as known, r.state_at as known_at
        from hubferry.webhook_events w
        join hubferry.crm_records r on r.portal_id = of_portal and r.object_type = w.object_type and r.object_id = w.object_id
        where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.state = 'received'
          and split_part(w.subscription_type, '.', 2) in ('creation', 'deletion', 'restore')
    ),
    newest as (
        select n.object_type, n.object_id, (array_agg(n.state order by n.occurred_at desc, n.state))[1] as state,
               max(n.occurred_at) as state_at, max(n.occurred_at) filter (where n.kind = 'creation') as created_at
        from notes n
        group by n.object_type, n.object_id
    ),
    changed as (
        update hubferry.crm_records r
        set state = case when c.counts then n.state else r.state end,
            state_at = case when c.counts then n.state_at else r.state_at end,
            created_at = greatest(r.created_at, n.created_at)
        from newest n
        join hubferry.crm_records k on k.portal_id = of_portal and k.object_type = n.object_type and k.object_id = n.object_id
        cross join lateral (
            select k.state <> 'merged' and (k.state_at is null or k.state_at < n.state_at
                   or k.state_at = n.state_at and n.state = 'deleted') as counts
        ) as c
        where r.portal_id = of_portal and r.object_type = n.object_type and r.object_id = n.object_id
          and (c.counts or n.created_at is not null)
        returning r.object_type, r.object_id, k.state <> r.state as other
    ),
    settled as (
        update hubferry.webhook_events w
        set state = case when n.known = 'merged' or n.occurred_at < n.known_at then 'superseded' else 'applied' end,
            reason = case when n.known = 'merged' then 'merged' when n.occurred_at < n.known_at then 'older' end,
            settled_at = clock_timestamp()
        from notes n
        where w.notification_key = n.notification_key
    )
    select coalesce(array_agg(c.object_id) filter (where c.other and c.object_type = 'contact'), '{}') from changed c
$$;

-- Step of apply_webhook_deliveries: contacts follow their records: into the one that is left of a merge, away from one that was
-- deleted, back to one that was restored. In the order of the key, as a claim locks them.
create function hubferry.relink_contacts(of_portal bigint, touched bigint[]) returns void language sql as $$
    with held as materialized (
        select l.contact_key, l.record_id, l.deleted_record_id
        from hubferry.contact_links l
        where l.portal_id = of_portal and l.contact_key in (
            select k.contact_key from hubferry.contact_links k where k.portal_id = of_portal and k.record_id = any (touched)
            union
            select k.contact_key from hubferry.contact_links k
            where k.portal_id = of_portal and k.deleted_record_id = any (touched) and k.record_id is null)
        order by l.contact_key
        for update
    ),
    placed as (
        select h.contact_key, p.place, coalesce(r.state = 'deleted', false) as is_gone
        from held h
        cross join lateral (select hubferry.crm_root(of_portal, 'contact', coalesce(h.record_id, h.deleted_record_id)) as place) as p
        left join hubferry.crm_records r on r.portal_id = of_portal and r.object_type = 'contact' and r.object_id = p.place
    )
    update hubferry.contact_links l
    set record_id = case when not p.is_gone then p.place end,
        linked_at = case when p.is_gone then null when l.record_id = p.place then l.linked_at else clock_timestamp() end,
        deleted_record_id = case when p.is_gone then p.place end,
        -- Whose key a merge left on the record is not known.
        keyed = l.keyed and p.place = coalesce(l.record_id, l.deleted_record_id)
    from placed p
    where l.portal_id = of_portal and l.contact_key = p.contact_key
$$;

-- Step of apply_webhook_deliveries: values. Changes of a property are taken in the order in which they happened, however they
-- came; what is older than what is known changes nothing. Several values at one instant, or one from before a merge, are
-- uncertain, and asked for.
create function hubferry.apply_values(of_portal bigint, of_events uuid[], of_deliveries uuid[]) returns void language sql as $$
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
        where c.is_last and not c.is_older and (c.known_at, c.known_rank, c.known_tied) is distinct from (c.occurred_at, c.holds, c.uncertain)
          and not c.known
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
            where n.uncertain and n.object_type = 'contact'
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

-- Step of apply_webhook_deliveries: associations, between what is left of the records at their ends.
create function hubferry.apply_associations(of_portal bigint, of_deliveries uuid[]) returns void language sql as $$
    with notes as materialized (
        select w.notification_key, w.occurred_at, w.object_type as from_type, t.to_type,
               case when f.merged_into is null then i.from_id else hubferry.crm_root(of_portal, w.object_type, i.from_id) end as from_id,
               case when o.merged_into is null then i.to_id else hubferry.crm_root(of_portal, t.to_type, i.to_id) end as to_id,
               coalesce(w.details ->> 'associationType',
                        concat_ws(':', w.details ->> 'associationCategory', w.details ->> 'associationTypeId')) as association,
               coalesce((w.details ->> 'isPrimaryAssociation')::boolean, false) as is_primary,
               coalesce((w.details ->> 'associationRemoved')::boolean, false) as removed,
               f.erased_at is not null or o.erased_at is not null as erased
        from hubferry.webhook_events w
        cross join lateral (
            select coalesce(hubferry.crm_type(w.details ->> 'toObjectTypeId'),
                            nullif(lower(split_part(w.details ->> 'associationType', '_TO_', 2)), ''), 'unknown') as to_type
        ) as t
        cross join lateral (select (w.details ->> 'fromObjectId')::bigint as from_id, (w.details ->> 'toObjectId')::bigint as to_id) as i
        left join hubferry.crm_records f on f.portal_id = of_portal and f.object_type = w.object_type and f.object_id = i.from_id
        left join hubferry.crm_records o on o.portal_id = of_portal and o.object_type = t.to_type and o.object_id = i.to_id
        where w.delivery_id = any (of_deliveries) and w.portal_id = of_portal and w.state = 'received'
          and split_part(w.subscription_type, '.', 2) = 'associationChange'
    ),
    known as materialized (
        select n.notification_key, n.erased, coalesce(n.occurred_at < k.occurred_at, false) as is_older
        from notes n
        left join lateral (
            select a.occurred_at from hubferry.crm_associations a
            where a.portal_id = of_portal and a.from_type = n.from_type and a.from_id = n.from_id
              and a.to_type = n.to_type and a.to_id = n.to_id and a.association = n.association and a.is_primary = n.is_primary
            limit 1
        ) as k on true
    ),
    written as (
        insert into hubferry.crm_associations as a
            (portal_id, from_type, from_id, to_type, to_id, association, is_primary, removed, occurred_at)
        select distinct on (n.from_type, n.from_id, n.to_type, n.to_id, n.association, n.is_primary)
               of_portal, n.from_type, n.from_id, n.to_type, n.to_id, n.association, n.is_primary, n.removed, n.occurred_at
        from notes n
        where not n.erased
        order by n.from_type, n.from_id, n.to_type, n.to_id, n.association, n.is_primary, n.occurred_at desc, n.removed desc
        on conflict (portal_id, from_type, from_id, to_type, to_id, association, is_primary) do update
            set removed = excluded.removed, occurred_at = excluded.occurred_at
            where (a.occurred_at, a.removed) < (excluded.occurred_at, excluded.removed)
    )
    update hubferry.webhook_events w
    set state = case when k.erased then 'ignored' when k.is_older then 'superseded' else 'applied' end,
        reason = case when k.erased then 'erased' when k.is_older then 'older' end,
        settled_at = clock_timestamp()
    from known k
    where w.notification_key = k.notification_key
$$;

-- Applies all that was received of these deliveries of a portal, each notification once, as if it had come in the order in which
-- it happened. For the events of the deliveries that are still held under the lease; in the same order: events and deliveries.
--
-- Rows by what they say: `change`, a value that really changed (of this run or of one before it); `read`, a value whose current
-- state has to be read; `erase`, an event that still has to wipe something.
create function hubferry.apply_webhook_deliveries(lease uuid, of_portal bigint, of_events uuid[], of_deliveries uuid[])
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
    select 'read', r.read_event_id, r.object_type, r.object_id, v.property, v.value, null::text, v.occurred_at, r.absorbed_at, r.read_key, null::text
    from hubferry.crm_records r
    join hubferry.crm_values v on v.portal_id = r.portal_id and v.object_type = r.object_type and v.object_id = r.object_id and v.tied
    where r.read_event_id = any (of_events)
    order by r.object_id, v.property;
    return query
    select distinct 'erase', r.erase_event_id, null::text, null::bigint, null::text, null::text, null::text,
           null::timestamptz, null::timestamptz, null::bytea, null::text
    from hubferry.crm_records r
    where r.erase_event_id = any (of_events);
end $$;

-- Reader: wipe_reports, which looks through bodies that hold more than their notifications' rows do: of a notification
-- that came twice, only the first delivery has a row.
create index webhook_deliveries_repeats on hubferry.webhook_deliveries (received_at) where body is not null and fresh < notifications;

-- Step of erase_crm_records and of whatever else erases: notifications of these contacts' records, the bodies of all deliveries
-- that name them, what rules made of them, and what we know to have written. A body holds what is reported about others too; their
-- notifications stay as they are.
create function hubferry.wipe_reports(of_portal bigint, records bigint[]) returns void language plpgsql as $$
declare
    deliveries uuid[];
begin
    select array_agg(d.delivery_id) into deliveries
    from (
        select o.delivery_id from hubferry.webhook_deliveries o
        where o.delivery_id = any (array(
            select w.delivery_id from hubferry.webhook_events w
            where w.portal_id = of_portal and w.object_id = any (records) and w.object_type = 'contact'
            union
            select b.delivery_id from hubferry.webhook_deliveries b
            where b.body is not null and b.fresh < b.notifications
              and exists (select from unnest(records) as r (id) where position(convert_to(r.id::text, 'UTF8') in b.body) > 0)))
        order by o.delivery_id
        for update
    ) as d;
    update hubferry.webhook_deliveries d set body = null where d.delivery_id = any (deliveries) and d.body is not null;

    perform from hubferry.webhook_events w
    where w.portal_id = of_portal and w.object_id = any (records) and w.object_type = 'contact'
    order by w.notification_key
    for update;
    update hubferry.webhook_events w
    set property_value = null, value_before = null, changed = false, raw = null,
        details = case when w.state = 'received' or w.details is null then w.details else '{}' end
    where w.portal_id = of_portal and w.object_id = any (records) and w.object_type = 'contact';

    perform from hubferry.outbox_events e
    where e.lane = 'effects' and e.payload ->> 'notification' in (
        select encode(w.notification_key, 'hex') from hubferry.webhook_events w
        where w.portal_id = of_portal and w.object_id = any (records) and w.object_type = 'contact')
    order by e.event_id
    for update;
    update hubferry.outbox_events e
    set payload = jsonb_build_object('notification', e.payload ->> 'notification'),
        status = case when e.status in ('pending', 'retry') then 'cancelled' else e.status end,
        finished_at = case when e.status in ('pending', 'retry') then clock_timestamp() else e.finished_at end,
        last_error_code = case when e.status in ('pending', 'retry') then 'contact_erased' else e.last_error_code end
    where e.lane = 'effects' and e.payload ->> 'notification' in (
        select encode(w.notification_key, 'hex') from hubferry.webhook_events w
        where w.portal_id = of_portal and w.object_id = any (records) and w.object_type = 'contact');
    delete from hubferry.written_values v
    where v.portal_id = of_portal and v.object_type = 'contact' and v.object_id = any (records);
end $$;

-- Wipes what is stored elsewhere about contacts that were deleted for privacy in HubSpot: what was reported about them, the bytes
-- of the deliveries that reported it, and our own contacts that they were. Deliveries before their notifications, as whoever
-- deletes them takes them. An application that holds one of the contacts is not waited for any longer than this.
create function hubferry.erase_crm_records(lease uuid, of_portal bigint, of_events uuid[]) returns bigint
language plpgsql set lock_timeout = '3s' as $$
declare
    records bigint[];
    keys text[];
    key text;
begin
    select array_agg(e.event_id) into of_events
    from hubferry.outbox_events e
    where e.event_id = any (of_events) and e.status = 'processing' and e.lease_token = lease and e.portal_id = of_portal;
    perform hubferry.lock_projection(of_portal, true);
    select array_agg(r.object_id order by r.object_id) into records
    from hubferry.crm_records r
    where r.erase_event_id = any (of_events) and r.portal_id = of_portal and r.object_type = 'contact';
    if records is null then
        return 0;
    end if;

    perform hubferry.wipe_reports(of_portal, records);

    select array_agg(l.contact_key order by l.contact_key) into keys
    from (
        select l.contact_key from hubferry.contact_links l where l.portal_id = of_portal and l.record_id = any (records)
        union
        select l.contact_key from hubferry.contact_links l
        where l.portal_id = of_portal and l.deleted_record_id = any (records) and l.record_id is null
    ) as l
    join hubferry.contacts c using (contact_key)
    where c.erased_at is null;
    foreach key in array coalesce(keys, '{}') loop
        perform from hubferry.erase_contact(key);
    end loop;
    update hubferry.crm_records r set erase_event_id = null
    where r.portal_id = of_portal and r.object_type = 'contact' and r.object_id = any (records);
    return cardinality(records);
end $$;

-- Writes what a read found, where nothing newer was applied meanwhile: then that counts. In the same order: for each value the
-- record, the property, the value read, and since when it was known to be uncertain; for each record the notification that asked.
create function hubferry.settle_crm_reads(lease uuid, of_portal bigint, of_events uuid[], records bigint[], read_keys bytea[],
                                          value_records bigint[], properties text[], answers text[], known_at timestamptz[])
returns void language plpgsql as $$
begin
    select array_agg(e.event_id) into of_events
    from hubferry.outbox_events e
    where e.event_id = any (of_events) and e.status = 'processing' and e.lease_token = lease and e.portal_id = of_portal;
    perform hubferry.lock_projection(of_portal, false);
    perform from hubferry.crm_records r
    where r.portal_id = of_portal and r.object_type = 'contact' and r.object_id = any (records) and r.read_event_id = any (of_events)
    order by r.object_id
    for update;
    update hubferry.crm_values v
    set value = f.answer, tied = false, occurred_at = greatest(v.occurred_at, r.absorbed_at)
    from unnest(value_records, properties, answers, known_at) as f (object_id, property, answer, known_at)
    join unnest(records, read_keys) as k (object_id, read_key) using (object_id)
    join hubferry.crm_records r on r.portal_id = of_portal and r.object_type = 'contact' and r.object_id = f.object_id
        and r.read_event_id = any (of_events) and r.read_key = k.read_key
    where v.portal_id = of_portal and v.object_type = 'contact' and v.object_id = f.object_id and v.property = f.property
      and v.tied and v.occurred_at = f.known_at;
    -- Who was asked for again meanwhile is read again.
    update hubferry.crm_records r set read_event_id = null, read_key = null
    from unnest(records, read_keys) as k (object_id, read_key)
    where r.portal_id = of_portal and r.object_type = 'contact' and r.object_id = k.object_id
      and r.read_event_id = any (of_events) and r.read_key = k.read_key;
end $$;

-- What is known about a stream: what we wrote last, and whether its contact has opted out in HubSpot since when. An opt-out that
-- we wrote ourselves is not one of these: its instant lies where that call did, give or take two seconds.
create view hubferry.stream_states as
select s.stream_id, s.contact_key, s.brand, s.product, a.applied_sequence, a.applied_state, a.applied_at, o.opted_out_at as remote_opt_out_at,
       case when o.opted_out_at is not null and (a.applied_state is distinct from 'subscribed' or o.opted_out_at > a.applied_at)
            then 'unsubscribed' else a.applied_state end as state
from hubferry.subscription_streams s
left join hubferry.applied_states a using (stream_id)
left join lateral (
    select max(v.occurred_at) as opted_out_at
    from hubferry.outbox_events e
    join hubferry.contact_links l on l.portal_id = e.portal_id and l.contact_key = s.contact_key
    join hubferry.crm_values v on v.portal_id = l.portal_id and v.object_type = 'contact' and v.object_id = l.record_id
        and v.property in ('hs_email_optout', 'hs_email_optout_' || (e.payload #>> '{mapping,targets,subscription_type}'))
        and lower(v.value) = 'true'
    where e.stream_id = s.stream_id and e.sequence = s.last_sequence
      and not exists (
          select from hubferry.operation_receipts r
          where r.portal_id = l.portal_id and r.contact_key = s.contact_key
            and r.operation_key = 'status:' || (e.payload #>> '{mapping,targets,subscription_type}') || ':unsubscribed'
            and r.operation_key like 'status:%:unsubscribed'
            and v.occurred_at between r.started_at - interval '2 seconds'
                                  and coalesce(r.finished_at, r.started_at + interval '15 seconds') + interval '2 seconds')
) as o on true;
