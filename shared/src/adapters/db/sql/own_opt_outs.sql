-- When we ourselves wrote, or may have written, an opt-out of these contacts.
-- In the same order: $1 portal ids, $2 contact keys, $3 operation keys.
select r.portal_id, r.contact_key, r.operation_key, e.created_at as accepted_at, r.started_at, r.finished_at, r.remote_at
from unnest($1::bigint[], $2::text[], $3::text[]) as asked (portal_id, contact_key, operation_key)
join hubferry.operation_receipts r using (portal_id, contact_key, operation_key)
join hubferry.outbox_events e using (event_id)
where r.operation_key like 'status:%:unsubscribed' and r.status in ('started', 'done')
