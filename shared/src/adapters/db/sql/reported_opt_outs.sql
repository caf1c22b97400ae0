-- Since when the records of these contacts have opted out of these subscription types, or of all, by what HubSpot reported.
-- $1 portal; in the same order: $2 contact keys, $3 subscription types.
select asked.contact_key, asked.subscription_type, since.opted_out_at
from unnest($2::text[], $3::bigint[]) as asked (contact_key, subscription_type)
cross join lateral (
    select l.record_id from hubferry.contact_links l where l.portal_id = $1 and l.contact_key = asked.contact_key limit 1
) as link
cross join lateral (
    select max(v.occurred_at) as opted_out_at
    from hubferry.crm_values v
    where v.portal_id = $1 and v.object_type = 'contact' and v.object_id = link.record_id
      and v.property in ('hs_email_optout', 'hs_email_optout_' || asked.subscription_type) and lower(v.value) = 'true'
) as since
where since.opted_out_at is not null
