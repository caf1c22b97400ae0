-- Of contacts whose keys were found on records, those that still belong there: alive, and with an address of the record.
-- They are linked to it, unless somebody works on them. Asked for and answered in the order of who owns a record they share.
-- $1 portal id. In the same order: $2 keys, $3 record ids (null: only its place in the order is asked for), $4 addresses.
with
asked as (select * from unnest($2::text[], $3::bigint[], $4::text[]) as a (contact_key, record_id, email)),
holders as (
    select distinct c.contact_key, a.record_id, c.keyed_by_email, c.created_at
    from asked a join hubferry.contacts c using (contact_key)
    where c.erased_at is null and (a.record_id is null or c.email = a.email)
),
idle as (
    select l.contact_key, h.record_id
    from hubferry.contact_links l join holders h using (contact_key)
    where l.portal_id = $1 and l.record_id is distinct from h.record_id and h.record_id is not null
      and (l.lease_token is null or l.lease_expires_at < clock_timestamp())
    order by l.contact_key
    for update of l skip locked
),
repointed as (
    update hubferry.contact_links l
    set record_id = i.record_id, linked_at = clock_timestamp(), keyed = true
    from idle i
    where l.portal_id = $1 and l.contact_key = i.contact_key
)
select h.contact_key, h.record_id from holders h order by h.keyed_by_email, h.created_at, h.contact_key
