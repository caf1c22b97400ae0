-- Finishes a batch: events, contacts, applied states and receipts agree, or nothing changed. Every write is conditional on
-- the lease; the answer names the events that were still ours.
-- $1 lease token. Events, in the same order: $2 event ids, $3 statuses, $4 due in ms, $5 counts as an attempt, $6 error codes,
-- $7 error summaries. Contacts, in the same order: $8 portal ids, $9 contact keys, $10 record ids learned (null: nothing new, 0: forget the link).
-- Receipts, in the same order: $11 event ids, $12 operation keys, $13 portal ids, $14 contact keys, $15 desired hashes,
-- $16 statuses, $17 record ids, $18 correlation ids, $19 instants by HubSpot's clock. $20 what HubSpot holds now by each event (null: not known).
with
verdicts as (
    select *
    from unnest($2::uuid[], $3::text[], $4::bigint[], $5::boolean[], $6::text[], $7::text[], $20::text[])
        as v (event_id, status, due_in_ms, charged, error_code, error_summary, desired_state)
),
-- In the order of the id, as a claim locks them.
owned as (
    select v.*
    from hubferry.outbox_events e join verdicts v using (event_id)
    where e.status = 'processing' and e.lease_token = $1
    order by e.event_id
    for update of e
),
finished as (
    update hubferry.outbox_events e
    set status = v.status,
        process_attempts = e.process_attempts + v.charged::integer,
        next_attempt_at = case when v.status = 'retry' then clock_timestamp() + v.due_in_ms * interval '1 ms' else e.next_attempt_at end,
        finished_at = case when v.status <> 'retry' then clock_timestamp() end,
        last_error_code = v.error_code, last_error_summary = v.error_summary,
        lease_token = null, lease_expires_at = null
    from owned v
    where e.event_id = v.event_id
    returning e.event_id, e.stream_id, e.sequence, v.status, v.desired_state
),
-- Forward, never back.
applied as (
    insert into hubferry.applied_states as a (stream_id, applied_sequence, applied_state, event_id)
    select distinct on (f.stream_id) f.stream_id, f.sequence, f.desired_state, f.event_id
    from finished f where f.desired_state is not null
    order by f.stream_id, f.sequence desc
    on conflict (stream_id) do update
        set applied_sequence = excluded.applied_sequence, applied_state = excluded.applied_state,
            event_id = excluded.event_id, applied_at = clock_timestamp()
        where a.applied_sequence < excluded.applied_sequence
),
-- Contacts are released, and linked to the record that HubSpot named. In the order of the key, as a claim locks them.
held as (
    select l.portal_id, l.contact_key, mine.record_id
    from hubferry.contact_links l
    join unnest($8::bigint[], $9::text[], $10::bigint[]) as mine (portal_id, contact_key, record_id) using (portal_id, contact_key)
    where l.lease_token = $1
    order by l.portal_id, l.contact_key
    for update of l
),
released as (
    update hubferry.contact_links l
    set lease_token = null, lease_expires_at = null,
        record_id = case when h.record_id = 0 then null else coalesce(h.record_id, l.record_id) end,
        linked_at = case when h.record_id = 0 then null
                         when h.record_id is not null and h.record_id is distinct from l.record_id then clock_timestamp()
                         else l.linked_at end
    from held h
    where l.portal_id = h.portal_id and l.contact_key = h.contact_key
),
receipts as (
    insert into hubferry.operation_receipts as r
        (event_id, operation_key, portal_id, contact_key, desired_hash, status, finished_at, record_id, correlation_id, remote_at)
    select o.event_id, o.operation_key, o.portal_id, o.contact_key, o.desired_hash, o.status, clock_timestamp(), o.record_id, o.correlation_id, o.remote_at
    from unnest($11::uuid[], $12::text[], $13::bigint[], $14::text[], $15::bytea[], $16::text[], $17::bigint[], $18::text[], $19::timestamptz[])
        as o (event_id, operation_key, portal_id, contact_key, desired_hash, status, record_id, correlation_id, remote_at)
    join finished f using (event_id)
    order by o.event_id, o.operation_key
    on conflict (event_id, operation_key) do update
        set desired_hash = excluded.desired_hash, status = excluded.status, finished_at = excluded.finished_at,
            record_id = excluded.record_id, correlation_id = excluded.correlation_id, remote_at = excluded.remote_at,
            attempts = r.attempts + (r.status <> 'started')::integer
)
select event_id from finished
