-- When we ourselves wrote, or may have written, an opt-out of these contacts, or of one that shares their address or record.
-- In the same order: $1 portal ids, $2 contact keys, $3 operation keys.
select asked.portal_id, asked.contact_key, r.operation_key, e.created_at as accepted_at, r.earlier_starts, r.started_at, r.remote_at
from unnest($1::bigint[], $2::text[], $3::text[]) as asked (portal_id, contact_key, operation_key)
cross join lateral (
    select asked.contact_key
    union
    select o.contact_key
    from hubferry.contacts c join hubferry.contacts o on o.email = c.email and o.erased_at is null
    where c.contact_key = asked.contact_key
    union
    select o.contact_key
    from hubferry.contact_links l join hubferry.contact_links o using (portal_id, record_id)
    where l.portal_id = asked.portal_id and l.contact_key = asked.contact_key
) as sharing
join hubferry.operation_receipts r
    on r.portal_id = asked.portal_id and r.contact_key = sharing.contact_key and r.operation_key = asked.operation_key
join hubferry.outbox_events e using (event_id)
where r.operation_key like 'status:%:unsubscribed' and r.status in ('started', 'done')
