-- Of records that are to be deleted, those that a contact is on which is not erased: by its link, its key or its address. Contacts
-- of other portals may have the same address; they have other records.
-- $1 portal id. In the same order: $2 record ids, $3 the key on each (or null), $4 an address of each (or null).
select distinct a.record_id
from unnest($2::bigint[], $3::text[], $4::text[]) as a (record_id, contact_key, email)
cross join lateral (
    select l.contact_key from hubferry.contact_links l where l.portal_id = $1 and l.record_id = a.record_id
    union all
    select a.contact_key
    union all
    select c.contact_key from hubferry.contacts c where c.email = a.email and c.erased_at is null
) as named
join hubferry.contacts c on c.contact_key = named.contact_key and c.erased_at is null
-- A link without a record may be no more than a lease.
where exists (
        select from hubferry.contact_links l
        where l.portal_id = $1 and l.contact_key = c.contact_key and l.record_id is not null)
   or exists (
        select from hubferry.subscription_streams s join hubferry.brands b using (brand)
        where s.contact_key = c.contact_key and b.portal_id = $1)
