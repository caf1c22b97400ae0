-- What HubSpot reported about a contact goes with the contact.

-- Wipes all that was reported about records of contacts that HubSpot has deleted for good because their contacts were erased here,
-- and about the records that ever became part of them: projected values, notifications, and the bytes of deliveries. What is
-- reported late about them finds that they are erased. In the order in which the projection locks: the portal, deliveries,
-- notifications. In the same order: the erasures, which must still be held under the lease, and a record of each, or null.
-- Returns how many records these were.
create function hubferry.bury_contact_records(lease uuid, of_portal bigint, of_events uuid[], records bigint[]) returns bigint
language plpgsql set lock_timeout = '3s' as $$
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
    if records is null then
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
    perform hubferry.wipe_reports(of_portal, records);
    return cardinality(records);
end $$;
