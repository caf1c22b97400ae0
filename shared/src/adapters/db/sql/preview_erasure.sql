-- What an erasure of this contact would concern. Reads only. $1 contact key.
select c.erased_at,
       array(select distinct s.brand from hubferry.subscription_streams s where s.contact_key = c.contact_key order by 1) as brands,
       array(
           select p.portal_id from hubferry.portals p
           where exists (select from hubferry.contact_links l where l.portal_id = p.portal_id and l.contact_key = c.contact_key)
              or exists (select from hubferry.subscription_streams s join hubferry.brands b using (brand)
                         where s.contact_key = c.contact_key and b.portal_id = p.portal_id)
           order by 1) as portals,
       (select count(*) from hubferry.subscription_streams s join hubferry.outbox_events e on e.stream_id = s.stream_id
        where s.contact_key = c.contact_key and (e.finished_at is null or e.status = 'dead')) as unfinished
from hubferry.contacts c
where c.contact_key = $1
