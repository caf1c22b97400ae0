-- Notes, before the call, what is about to be written, so that a lost answer can be told from a change by a person.
-- In the same order: $1 event ids, $2 operation keys, $3 portal ids, $4 contact keys, $5 desired hashes. $6 lease token.
insert into hubferry.operation_receipts as r (event_id, operation_key, portal_id, contact_key, desired_hash, status)
select o.event_id, o.operation_key, o.portal_id, o.contact_key, o.desired_hash, 'started'
from unnest($1::uuid[], $2::text[], $3::bigint[], $4::text[], $5::bytea[]) as o (event_id, operation_key, portal_id, contact_key, desired_hash)
join hubferry.outbox_events e on e.event_id = o.event_id and e.lease_token = $6 and e.status = 'processing'
order by o.event_id, o.operation_key
on conflict (event_id, operation_key) do update
    set status = 'started', finished_at = null, desired_hash = excluded.desired_hash,
        attempts = r.attempts + 1, started_at = clock_timestamp(),
        earlier_starts = (r.earlier_starts || r.started_at)[greatest(1, cardinality(r.earlier_starts) - 18):]
