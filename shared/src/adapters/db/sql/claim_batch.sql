-- Claims the events of a batch of messages, and the contacts they concern, in one statement.
-- $1 event ids, $2 lease token, $3 lease in ms, $4 shortest and $5 longest snooze of a busy contact in ms,
-- $6 how many crashes are too many: who has as many is left for a claim of its own.
with
asked as (select distinct id as event_id from unnest($1::uuid[]) as id),
-- Rows a worker may take: published, or left behind by a worker that died. A row that waits for its time is left waiting.
-- A locked row is waited for and not skipped: its dispatcher may just be marking it, and its message comes only once. Every
-- statement that waits for these rows locks them in the order of their ids, so that none waits in a circle.
takeable as (
    select e.*
    from hubferry.outbox_events e join asked using (event_id)
    where (e.status in ('publishing', 'queued')
           or (e.status = 'processing' and e.lease_expires_at < (select clock_timestamp())))
      and e.crashes + (e.status = 'processing')::integer < $6::integer
    order by e.event_id
    for update of e
),
-- With everybody who shares an address with the contact, or a record with one of those: one HubSpot record, one writer. An event
-- without a stream may concern a contact, and names its address itself; if it concerns none, it is claimed alone.
placed as materialized (
    select t.event_id, t.portal_id, t.status as was, c.contact_key, coalesce(sharing.members, '{}') as members,
           -- What ends here without a call and without a lease.
           case when t.stream_id is not null and c.erased_at is not null then 'cancelled'
                when t.sequence < s.last_sequence then 'superseded' end as ends
    from takeable t
    left join hubferry.subscription_streams s on s.stream_id = t.stream_id
    left join hubferry.contacts c on c.contact_key = coalesce(s.contact_key, t.contact_key)
    left join lateral (
        select array(
            select c.contact_key
            union select o.contact_key from hubferry.contacts o
            where o.email = coalesce(c.email, case when t.stream_id is null then t.payload ->> 'email' end) and o.erased_at is null
        ) as keys
    ) as same_address on c.contact_key is not null
    left join lateral (
        select array(
            select unnest(same_address.keys)
            union
            select o.contact_key
            from hubferry.contact_links l join hubferry.contact_links o using (portal_id, record_id)
            where l.portal_id = t.portal_id and l.contact_key = any (same_address.keys)
        ) as members
    ) as sharing on c.contact_key is not null
),
-- In the order of the key, so that two claims wait for each other and never deadlock.
locked as materialized (
    select l.portal_id, l.contact_key, l.lease_token is null or l.lease_expires_at < clock_timestamp() as is_free
    from hubferry.contact_links l
    where (l.portal_id, l.contact_key) in (select p.portal_id, unnest(p.members) from placed p where p.ends is null)
    order by l.portal_id, l.contact_key
    for update of l
),
busy as materialized (select k.portal_id, k.contact_key from locked k where not k.is_free),
-- All who share, or none: a contact is leased with everybody that it shares with.
leased as (
    insert into hubferry.contact_links as l (portal_id, contact_key, lease_token, lease_expires_at)
    select m.portal_id, m.member, $2::uuid, clock_timestamp() + $3::bigint * interval '1 ms'
    -- Distinct before the time is added, which differs from row to row.
    from (
        select distinct p.portal_id, unnest(p.members) as member from placed p
        where p.ends is null
          and not exists (select from busy k where k.portal_id = p.portal_id and k.contact_key = any (p.members))
    ) as m
    order by m.portal_id, m.member
    on conflict (portal_id, contact_key) do update
        set lease_token = excluded.lease_token, lease_expires_at = clock_timestamp() + $3::bigint * interval '1 ms'
        where l.lease_token is null or l.lease_expires_at < clock_timestamp()
    returning l.portal_id, l.contact_key, l.record_id, l.keyed
),
verdicts as (
    select p.event_id, p.was, p.contact_key, p.members,
           case when p.ends is not null then p.ends
                when p.contact_key is null then 'claimed'
                when l.portal_id is null
                  or exists (select from busy k where k.portal_id = p.portal_id and k.contact_key = any (p.members))
                  -- A row that another claim made in this very moment is missing among those leased.
                  or cardinality(p.members) > 1
                     and cardinality(p.members) > (select count(*) from leased m where m.portal_id = p.portal_id and m.contact_key = any (p.members))
                then 'busy' else 'claimed' end as outcome
    from placed p left join leased l using (portal_id, contact_key)
),
changed as (
    update hubferry.outbox_events e
    set status = case v.outcome when 'claimed' then 'processing' when 'busy' then 'retry' else v.outcome end,
        lease_token = case v.outcome when 'claimed' then $2::uuid end,
        lease_expires_at = case v.outcome when 'claimed' then clock_timestamp() + $3::bigint * interval '1 ms' end,
        process_attempts = e.process_attempts + (v.was = 'processing')::integer,
        crashes = e.crashes + (v.was = 'processing')::integer,
        next_attempt_at = case v.outcome when 'busy'
            then clock_timestamp() + ($4::bigint + random() * ($5::bigint - $4::bigint)) * interval '1 ms' else e.next_attempt_at end,
        finished_at = case when v.outcome in ('superseded', 'cancelled') then clock_timestamp() end,
        payload = case v.outcome when 'cancelled' then e.payload - 'consent' else e.payload end,
        last_error_code = case v.outcome when 'busy' then 'contact_busy' when 'superseded' then 'newer_state_accepted'
                                         when 'cancelled' then 'contact_erased' else e.last_error_code end,
        last_error_summary = case v.outcome when 'busy' then 'another worker holds the contact'
                                            when 'claimed' then e.last_error_summary end
    from verdicts v
    where e.event_id = v.event_id
    returning e.event_id, v.outcome, v.contact_key, v.members, e.process_attempts
)
-- Everything the plan needs, in the same answer. An asked id without an outcome is known and needs nothing, or is not known.
select a.event_id,
       case when c.outcome is not null then c.outcome when e.event_id is null then 'unknown'
            when e.status in ('publishing', 'queued') and e.crashes >= $6::integer then 'suspect' else 'settled' end as outcome,
       c.process_attempts, e.crashes, e.kind, e.lane, e.sequence, e.stream_id, e.payload, e.traceparent, e.created_at,
       c.contact_key, k.email, k.properties, coalesce(l.record_id, place.record_id) as record_id, l.record_id as own_record_id, l.keyed,
       coalesce(owner.contact_key, c.contact_key) as owner_key, coalesce(owner.email, k.email) as owner_email,
       coalesce(owner.is_shared, false) as is_shared, c.members,
       p.portal_id, p.call_limit, p.call_window_ms, p.search_limit_per_second, p.subscription_write_mode, p.unique_property, p.api_version, p.mode,
       (extract(epoch from p.paused_until - clock_timestamp()) * 1000)::bigint as paused_for_ms,
       (select s.watched from hubferry.rule_sets s where s.portal_id = p.portal_id and s.state = 'active') as watched,
       done.receipts, newer.decisions
from asked a
left join hubferry.outbox_events e using (event_id)
left join changed c using (event_id)
left join hubferry.contacts k on k.contact_key = c.contact_key and c.outcome = 'claimed'
left join leased l on l.portal_id = e.portal_id and l.contact_key = c.contact_key
-- Where a contact is: its own record, else that of somebody with its address. Of all who are there, one owns the unique
-- property and the address: whom the application gave a key comes before whom we did, then the oldest. An erased one owns nothing.
left join lateral (
    select m.record_id
    from leased m join hubferry.contacts o using (contact_key)
    where cardinality(c.members) > 1 and l.record_id is null
      and m.portal_id = e.portal_id and m.contact_key = any (c.members) and m.record_id is not null
    order by o.keyed_by_email, o.created_at, o.contact_key limit 1
) as place on true
left join lateral (
    select o.contact_key, o.email, count(*) over () > 1 as is_shared
    from leased m join hubferry.contacts o using (contact_key)
    where cardinality(c.members) > 1 and m.portal_id = e.portal_id and m.contact_key = any (c.members) and o.erased_at is null
      and (m.contact_key = c.contact_key or m.record_id is null or m.record_id = coalesce(l.record_id, place.record_id))
    order by o.keyed_by_email, o.created_at, o.contact_key limit 1
) as owner on true
left join hubferry.portals p on p.portal_id = e.portal_id
left join lateral (
    select jsonb_object_agg(r.operation_key, encode(r.desired_hash, 'hex')) as receipts
    from hubferry.operation_receipts r
    where c.outcome = 'claimed' and r.event_id = e.event_id and r.status = 'done'
) as done on true
-- What was decided since for the same record by another stream: an older decision does not undo a newer one.
left join lateral (
    select jsonb_agg(jsonb_build_object('accepted_at', o.created_at, 'desired_state', o.payload -> 'desired_state',
                                        'targets', o.payload #> '{mapping,targets}')) as decisions
    from hubferry.subscription_streams os
    -- One row by its index for each stream: a join here is planned as a walk over the portal's events.
    cross join lateral (
        select n.created_at, n.payload
        from hubferry.outbox_events n
        where n.stream_id = os.stream_id and n.sequence = os.last_sequence
          and n.portal_id = e.portal_id and n.kind = e.kind and n.created_at >= e.created_at and n.status not in ('dead', 'cancelled')
        limit 1
    ) as o
    where c.outcome = 'claimed' and os.contact_key = any (c.members) and os.stream_id <> e.stream_id
) as newer on true
