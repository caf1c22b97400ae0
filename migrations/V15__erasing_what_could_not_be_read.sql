-- What could not be read of HubSpot's reports goes with the contact that it names.

-- Reader: wipe_reports, which looks through the JSON of notifications that could not be read.
create index webhook_events_unread on hubferry.webhook_events (portal_id) where state = 'quarantined' and raw is not null;

-- Reader: wipe_reports, which looks through bodies of which nothing could be read.
create index webhook_deliveries_unreadable on hubferry.webhook_deliveries (received_at) where body is not null and unreadable is not null;

-- Whether a text names one of these records, as a number by itself, or holds one of these addresses, which are in lower case. An
-- address may have its @ escaped.
create function hubferry.text_names(content text, records bigint[], addresses text[]) returns boolean
language sql immutable parallel safe as $$
    select coalesce(content ~ (select '(^|[^0-9])(' || string_agg(r.id::text, '|') || ')($|[^0-9])' from unnest(records) as r (id)), false)
        or exists (select from unnest(addresses) as a (address)
                   where position(a.address in lower(replace(content, '\u0040', '@'))) > 0)
$$;

-- The same of bytes, which may be no text. Digits beside a record's number count as it: better one body too many.
create function hubferry.body_names(body bytea, records bigint[], addresses text[]) returns boolean
language sql immutable parallel safe as $$
    select exists (select from unnest(records) as r (id) where position(convert_to(r.id::text, 'UTF8') in body) > 0)
        or exists (select from unnest(addresses) as a (address)
                   where position(lower(encode(convert_to(a.address, 'UTF8'), 'escape'))
                                  in lower(replace(encode(body, 'escape'), '\\u0040', '@'))) > 0)
$$;

-- As before, and what could not be read: of this portal, or of none that could be told. It goes if it names one of the records, or an
-- address that the contacts are known by. Bytes that are no text can't be searched, so they go with the first contact that is erased.
create function hubferry.wipe_reports(of_portal bigint, records bigint[], known text[]) returns void language plpgsql as $$
declare
    deliveries uuid[];
    addresses text[];
    unread bytea[];
begin
    select coalesce(array_agg(distinct lower(btrim(a.address))), '{}') into addresses
    from (
        select unnest(known) as address
        union all
        select unnest(string_to_array(v.value, ';'))
        from hubferry.webhook_events w
        cross join lateral (values (w.property_value), (w.value_before)) as v (value)
        where w.portal_id = of_portal and w.object_id = any (records) and w.object_type = 'contact'
          and w.property_name in ('email', 'hs_additional_emails')
    ) as a
    where btrim(a.address) <> '';
    select coalesce(array_agg(w.notification_key), '{}') into unread
    from hubferry.webhook_events w
    where w.state = 'quarantined' and w.raw is not null and (w.portal_id = of_portal or w.portal_id is null)
      and hubferry.text_names(w.raw, records, addresses);

    select array_agg(d.delivery_id) into deliveries
    from (
        select o.delivery_id from hubferry.webhook_deliveries o
        where o.delivery_id = any (array(
            select w.delivery_id from hubferry.webhook_events w
            where w.portal_id = of_portal and w.object_id = any (records) and w.object_type = 'contact'
            union
            select w.delivery_id from hubferry.webhook_events w where w.notification_key = any (unread)
            union
            select b.delivery_id from hubferry.webhook_deliveries b
            where b.body is not null and b.fresh < b.notifications and hubferry.body_names(b.body, records, addresses)
            union
            select b.delivery_id from hubferry.webhook_deliveries b
            where b.body is not null and b.unreadable is not null
              and (b.unreadable = 'not_text' or hubferry.body_names(b.body, records, addresses))))
        order by o.delivery_id
        for update
    ) as d;
    update hubferry.webhook_deliveries d set body = null where d.delivery_id = any (deliveries) and d.body is not null;

    perform from hubferry.webhook_events w
    where w.portal_id = of_portal and w.object_id = any (records) and w.object_type = 'contact' or w.notification_key = any (unread)
    order by w.notification_key
    for update;
    update hubferry.webhook_events w set raw = null where w.notification_key = any (unread);
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

-- As before, but for what could not be read.
create or replace function hubferry.erase_crm_records(lease uuid, of_portal bigint, of_events uuid[]) returns bigint
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

    select array_agg(l.contact_key order by l.contact_key) into keys
    from (
        select l.contact_key from hubferry.contact_links l where l.portal_id = of_portal and l.record_id = any (records)
        union
        select l.contact_key from hubferry.contact_links l
        where l.portal_id = of_portal and l.deleted_record_id = any (records) and l.record_id is null
    ) as l
    join hubferry.contacts c using (contact_key)
    where c.erased_at is null;
    perform hubferry.wipe_reports(of_portal, records, array(select c.email from hubferry.contacts c where c.contact_key = any (keys)));
    foreach key in array coalesce(keys, '{}') loop
        perform from hubferry.erase_contact(key);
    end loop;
    update hubferry.crm_records r set erase_event_id = null
    where r.portal_id = of_portal and r.object_type = 'contact' and r.object_id = any (records);
    return cardinality(records);
end $$;

-- As before, but for what could not be read, which may name a contact that has no record.
create or replace function hubferry.bury_contact_records(lease uuid, of_portal bigint, of_events uuid[], records bigint[]) returns bigint
language plpgsql set lock_timeout = '3s' as $$
declare
    addresses text[];
begin
    perform hubferry.lock_projection(of_portal, true);
    with recursive one as (
        select g.object_id
        from unnest(of_events, records) as g (event_id, object_id)
        join hubferry.outbox_events e using (event_id)
        where e.status = 'processing' and e.lease_token = lease and e.portal_id = of_portal and g.object_id is not null
    ),
    whole (object_id) as (
        select o.object_id from one o
        union
        -- Where the contact was, even if that record was not found any more, unless somebody else was there too.
        select was.id
        from unnest(of_events) as g (event_id)
        join hubferry.outbox_events e using (event_id)
        join hubferry.contact_links l on l.portal_id = of_portal and l.contact_key = e.contact_key
        cross join lateral (values (l.record_id), (l.deleted_record_id)) as was (id)
        where e.status = 'processing' and e.lease_token = lease and e.portal_id = of_portal and was.id is not null
          and not exists (
              select from hubferry.contact_links o join hubferry.contacts c using (contact_key)
              where o.portal_id = of_portal and o.record_id = was.id and c.erased_at is null)
          and not exists (
              select from hubferry.contact_links o join hubferry.contacts c using (contact_key)
              where o.portal_id = of_portal and o.deleted_record_id = was.id and c.erased_at is null)
        union
        select r.object_id
        from whole w
        join hubferry.crm_records r on r.portal_id = of_portal and r.object_type = 'contact' and r.merged_into = w.object_id
    )
    select array_agg(w.object_id order by w.object_id) into records from whole w;
    -- The address that the contact had, and those that its records are known by.
    select array_agg(a.address) into addresses
    from (
        select e.payload ->> 'email' as address
        from hubferry.outbox_events e
        where e.event_id = any (of_events) and e.status = 'processing' and e.lease_token = lease and e.portal_id = of_portal
        union all
        select unnest(string_to_array(v.value, ';'))
        from hubferry.crm_values v
        where v.portal_id = of_portal and v.object_type = 'contact' and v.object_id = any (records)
          and v.property in ('email', 'hs_additional_emails')
    ) as a;
    if records is null then
        perform hubferry.wipe_reports(of_portal, '{}', addresses);
        return 0;
    end if;

    insert into hubferry.crm_records as r (portal_id, object_type, object_id, state, erased_at)
    select of_portal, 'contact', u.object_id, 'deleted', clock_timestamp()
    from unnest(records) as u (object_id)
    order by u.object_id
    on conflict (portal_id, object_type, object_id) do update
        set erased_at = coalesce(r.erased_at, excluded.erased_at), read_event_id = null, read_key = null,
            state = case when r.state = 'merged' then 'merged' else 'deleted' end;
    delete from hubferry.crm_values v
    where v.portal_id = of_portal and v.object_type = 'contact' and v.object_id = any (records);
    delete from hubferry.crm_associations a
    where a.portal_id = of_portal and a.from_type = 'contact' and a.from_id = any (records);
    delete from hubferry.crm_associations a
    where a.portal_id = of_portal and a.to_type = 'contact' and a.to_id = any (records);
    perform hubferry.wipe_reports(of_portal, records, addresses);
    return cardinality(records);
end $$;

drop function hubferry.wipe_reports(bigint, bigint[]);
