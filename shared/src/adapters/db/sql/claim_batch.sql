-- Claims the events of a batch of messages, and the contacts they concern, in one statement.
-- $1 event ids, $2 lease token, $3 lease in ms, $4 shortest and $5 longest snooze of a busy contact in ms.
with
asked as (select distinct id as event_id from unnest($1::uuid[]) as id),
-- Rows a worker may take: published, or left behind by a worker that died. A row that waits for its time is left waiting.
-- A locked row is waited for and not skipped: its dispatcher may just be marking it, and its message comes only once. Every
-- statement that waits for these rows locks them in the order of their ids, so that none waits in a circle.
takeable as (
    select e.*
    from hubferry.outbox_events e join asked using (event_id)
    where e.status in ('publishing', 'queued')
       or (e.status = 'processing' and e.lease_expires_at < (select clock_timestamp()))
    order by e.event_id
    for update of e
),
placed as (
    select t.event_id, t.portal_id, t.status as was, s.contact_key, t.sequence < s.last_sequence as outdated
    from takeable t join hubferry.subscription_streams s using (stream_id)
),
-- One writer a contact and portal. In the order of the key, so that two claims wait for each other and never deadlock.
leased as (
    insert into hubferry.contact_links as l (portal_id, contact_key, lease_token, lease_expires_at)
    select p.portal_id, p.contact_key, $2::uuid, clock_timestamp() + $3::bigint * interval '1 ms'
    -- Distinct before the time is added, which differs from row to row.
    from (select distinct portal_id, contact_key from placed where not outdated) as p
    order by p.portal_id, p.contact_key
    on conflict (portal_id, contact_key) do update
        set lease_token = excluded.lease_token, lease_expires_at = clock_timestamp() + $3::bigint * interval '1 ms'
        where l.lease_token is null or l.lease_expires_at < clock_timestamp()
    returning l.portal_id, l.contact_key, l.record_id
),
verdicts as (
    select p.event_id, p.was,
           case when p.outdated then 'superseded' when l.portal_id is null then 'busy' else 'claimed' end as outcome
    from placed p left join leased l using (portal_id, contact_key)
),
changed as (
    update hubferry.outbox_events e
    set status = case v.outcome when 'claimed' then 'processing' when 'busy' then 'retry' else 'superseded' end,
        lease_token = case v.outcome when 'claimed' then $2::uuid end,
        lease_expires_at = case v.outcome when 'claimed' then clock_timestamp() + $3::bigint * interval '1 ms' end,
        process_attempts = e.process_attempts + (v.was = 'processing')::integer,
        next_attempt_at = case v.outcome when 'busy'
            then clock_timestamp() + ($4::bigint + random() * ($5::bigint - $4::bigint)) * interval '1 ms' else e.next_attempt_at end,
        finished_at = case v.outcome when 'superseded' then clock_timestamp() end,
        last_error_code = case v.outcome when 'busy' then 'contact_busy' when 'superseded' then 'newer_state_accepted' else e.last_error_code end,
        last_error_summary = case v.outcome when 'busy' then 'another worker holds the contact'
                                            when 'superseded' then null else e.last_error_summary end
    from verdicts v
    where e.event_id = v.event_id
    returning e.event_id, v.outcome, e.process_attempts
)
-- Everything the plan needs, in the same answer. An asked id without an outcome is known and needs nothing, or is not known.
select a.event_id,
       case when c.outcome is not null then c.outcome when e.event_id is null then 'unknown' else 'settled' end as outcome,
       c.process_attempts, e.kind, e.lane, e.sequence, e.stream_id, e.payload, e.traceparent, e.created_at,
       s.contact_key, k.email, k.properties, l.record_id,
       p.portal_id, p.call_limit, p.call_window_ms, p.search_limit_per_second, p.subscription_write_mode, p.unique_property, p.api_version, p.mode,
       (extract(epoch from p.paused_until - clock_timestamp()) * 1000)::bigint as paused_for_ms,
       done.receipts
from asked a
left join hubferry.outbox_events e using (event_id)
left join changed c using (event_id)
left join hubferry.subscription_streams s on s.stream_id = e.stream_id and c.outcome = 'claimed'
left join hubferry.contacts k on k.contact_key = s.contact_key
left join leased l on l.portal_id = e.portal_id and l.contact_key = s.contact_key
left join hubferry.portals p on p.portal_id = e.portal_id
left join lateral (
    select jsonb_object_agg(r.operation_key, encode(r.desired_hash, 'hex')) as receipts
    from hubferry.operation_receipts r
    where c.outcome = 'claimed' and r.event_id = e.event_id and r.status = 'done'
) as done on true
