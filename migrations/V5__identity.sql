-- Who is who in HubSpot: several contacts of ours may turn out to be one record there.

-- Whether the record's unique property is known to hold this contact's key: not so for a contact that shares the record of
-- another one.
alter table hubferry.contact_links add column keyed boolean not null default true;

-- Readers: claim_batch, finish_batch and own_opt_outs, which look for the contacts that share a record.
create index contact_links_record on hubferry.contact_links (portal_id, record_id) where record_id is not null;
