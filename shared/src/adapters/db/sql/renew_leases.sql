-- Renews the leases of a running batch, events and contacts alike, and says which of both it still holds: a contact may have
-- been taken while its event was not.
-- $1 lease token, $2 lease in ms, $3 event ids; in the same order: $4 portal ids, $5 contact keys.
with
-- Events first and contacts second, each in order, as a claim locks them.
events as (
    select e.event_id
    from hubferry.outbox_events e
    where e.event_id = any ($3::uuid[]) and e.status = 'processing' and e.lease_token = $1
    order by e.event_id
    for update of e
),
contacts as (
    select l.portal_id, l.contact_key
    from hubferry.contact_links l join unnest($4::bigint[], $5::text[]) as mine (portal_id, contact_key) using (portal_id, contact_key)
    where l.lease_token = $1
    order by l.portal_id, l.contact_key
    for update of l
),
renewed_events as (
    update hubferry.outbox_events e
    set lease_expires_at = clock_timestamp() + $2::bigint * interval '1 ms'
    from events
    where e.event_id = events.event_id
    returning e.event_id
),
renewed_contacts as (
    update hubferry.contact_links l
    set lease_expires_at = clock_timestamp() + $2::bigint * interval '1 ms'
    from contacts c
    where l.portal_id = c.portal_id and l.contact_key = c.contact_key
    returning l.portal_id, l.contact_key
)
select event_id, null::bigint as portal_id, null::text as contact_key from renewed_events
union all
select null, portal_id, contact_key from renewed_contacts
