-- Wipes what came in while a contact was being erased, once HubSpot holds nothing of it any more: consents and receipts of its
-- events in this portal, which end here if they had not, and the address in the erasure itself. Whoever runs this holds the
-- contact, so nobody else has one of these events in work. Says which erasures were still ours.
-- $1 lease token, $2 event ids of the erasures.
with
erasures as materialized (
    select e.event_id, e.portal_id, e.contact_key
    from hubferry.outbox_events e
    where e.event_id = any ($2::uuid[]) and e.status = 'processing' and e.lease_token = $1 and e.contact_key is not null
),
-- In the order of the id, as everybody locks them. By an array, since a join would be planned as a walk over all events.
stored as materialized (
    select e.event_id, e.stream_id
    from hubferry.outbox_events e
    where e.event_id = any (array(
        select x.event_id from erasures x
        union all
        select o.event_id
        from erasures x
        join hubferry.subscription_streams s using (contact_key)
        cross join lateral (
            select n.event_id from hubferry.outbox_events n where n.stream_id = s.stream_id and n.portal_id = x.portal_id
        ) as o))
    order by e.event_id
    for update of e
),
receipts as (
    delete from hubferry.operation_receipts r
    using stored s
    where r.event_id = s.event_id and s.stream_id is not null
),
wiped as (
    update hubferry.outbox_events e
    set payload = case when e.stream_id is null then '{}' else e.payload - 'consent' end
    from stored s
    where e.event_id = s.event_id and (e.stream_id is null or e.status in ('synced', 'superseded', 'cancelled'))
),
ended as (
    update hubferry.outbox_events e
    set payload = e.payload - 'consent', status = 'cancelled', finished_at = coalesce(e.finished_at, clock_timestamp()),
        last_error_code = 'contact_erased', last_error_summary = null, lease_token = null, lease_expires_at = null
    from stored s
    where e.event_id = s.event_id and e.stream_id is not null and e.status not in ('synced', 'superseded', 'cancelled')
)
select event_id from erasures
