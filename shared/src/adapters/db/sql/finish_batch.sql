-- Finishes a batch: events, contacts, applied states and receipts agree, or nothing changed. Every write is conditional on
-- the lease; the answer names the events that were still ours.
-- $1 lease token. Events, in the same order: $2 event ids, $3 statuses, $4 due in ms, $5 counts as an attempt, $6 error codes,
-- $7 error summaries. Contacts, in the same order: $8 portal ids, $9 contact keys, $10 record ids learned (null: nothing new;
-- negative: the record of this id without its sign is gone).
-- Receipts, in the same order: $11 event ids, $12 operation keys, $13 portal ids, $14 contact keys, $15 desired hashes,
-- $16 statuses, $17 record ids, $18 correlation ids, $19 instants by HubSpot's clock. $20 what HubSpot holds now by each event (null: not known).
-- $21 whether each contact's key was written into its record (null: nothing new), $22 whether it was taken to share that record with nobody,
-- $23 due of who was found to share a record all the same, in ms.
with
verdicts as (
    select *
    from unnest($2::uuid[], $3::text[], $4::bigint[], $5::boolean[], $6::text[], $7::text[], $20::text[])
        as v (event_id, status, due_in_ms, charged, error_code, error_summary, desired_state)
),
-- In the order of the id, as a claim locks them.
owned as (
    select v.*, e.portal_id, e.stream_id
    from hubferry.outbox_events e join verdicts v using (event_id)
    where e.status = 'processing' and e.lease_token = $1
    order by e.event_id
    for update of e
),
-- Contacts are released, and linked to the record that HubSpot named. In the order of the key, as a claim locks them.
held as (
    select l.portal_id, l.contact_key, l.record_id as known, mine.record_id, mine.keyed, mine.alone
    from hubferry.contact_links l
    join unnest($8::bigint[], $9::text[], $10::bigint[], $21::boolean[], $22::boolean[]) as mine (portal_id, contact_key, record_id, keyed, alone) using (portal_id, contact_key)
    -- Events are locked before contacts, as by a claim.
    where l.lease_token = $1 and (select count(*) from owned) >= 0
    order by l.portal_id, l.contact_key
    for update of l
),
-- Who took a record to be its own, and finds somebody else there: its events come round once more, now that this is known.
met as materialized (
    select distinct h.portal_id, h.contact_key
    from held h
    join (
        select l.portal_id, l.record_id, l.contact_key from hubferry.contact_links l
        where (l.portal_id, l.record_id) in (select h.portal_id, h.record_id from held h)
        union all
        select h.portal_id, h.record_id, h.contact_key from held h
    ) as o on o.portal_id = h.portal_id and o.record_id = h.record_id and o.contact_key <> h.contact_key
    where h.record_id > 0 and h.record_id is distinct from h.known and h.keyed and h.alone
),
finished as (
    update hubferry.outbox_events e
    set status = case when v.shares then 'retry' else v.status end,
        process_attempts = e.process_attempts + v.charged::integer,
        next_attempt_at = case when v.shares then clock_timestamp() + $23::bigint * interval '1 ms'
                               when v.status = 'retry' then clock_timestamp() + v.due_in_ms * interval '1 ms' else e.next_attempt_at end,
        finished_at = case when v.status <> 'retry' and not v.shares then clock_timestamp() end,
        last_error_code = case when v.shares then 'record_shared' else v.error_code end,
        last_error_summary = case when v.shares then 'another contact has the same record; both are written together from now on' else v.error_summary end,
        lease_token = null, lease_expires_at = null
    from (
        -- Also who was written but for a property, and is dead for that.
        select o.*, (o.status = 'synced' or (o.status = 'dead' and o.desired_state is not null)) and m.contact_key is not null as shares
        from owned o
        left join hubferry.subscription_streams s on s.stream_id = o.stream_id
        left join met m on m.portal_id = o.portal_id and m.contact_key = s.contact_key
    ) as v
    where e.event_id = v.event_id
    returning e.event_id, e.stream_id, e.sequence, v.status, v.desired_state, v.shares
),
-- Forward, never back.
applied as (
    insert into hubferry.applied_states as a (stream_id, applied_sequence, applied_state, event_id)
    select distinct on (f.stream_id) f.stream_id, f.sequence, f.desired_state, f.event_id
    from finished f where f.desired_state is not null and not f.shares
    order by f.stream_id, f.sequence desc
    on conflict (stream_id) do update
        set applied_sequence = excluded.applied_sequence, applied_state = excluded.applied_state,
            event_id = excluded.event_id, applied_at = clock_timestamp()
        where a.applied_sequence < excluded.applied_sequence
),
released as (
    update hubferry.contact_links l
    set lease_token = null, lease_expires_at = null,
        record_id = case when h.record_id = -l.record_id then null when h.record_id > 0 then h.record_id else l.record_id end,
        linked_at = case when h.record_id = -l.record_id then null
                         when h.record_id > 0 and h.record_id is distinct from l.record_id then clock_timestamp()
                         else l.linked_at end,
        -- Whose record has just been given the key of somebody else has no key there any more.
        keyed = coalesce(h.keyed, l.keyed and not coalesce((h.portal_id, h.known) in (
            select o.portal_id, o.record_id from held o where o.keyed and o.record_id > 0 and o.record_id is distinct from o.known), false))
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
select event_id, shares from finished
