-- Erasing a contact: what is stored about it goes at once, what is under way is stopped, and HubSpot is told by one event for
-- each portal. Events without a stream exist from here on; they belong to a portal, and perhaps to a contact.

alter table hubferry.outbox_events
    alter column brand drop not null,
    -- The contact that an event without a stream concerns: it is claimed together with that contact.
    add column contact_key text references hubferry.contacts,
    add check (stream_id is null or brand is not null),
    add check (stream_id is null or contact_key is null);

-- Reader: erase_contact, which looks for the erasures of a contact that was erased before.
create index outbox_events_contact on hubferry.outbox_events (contact_key) where contact_key is not null;

-- Reader: erase_contact, which wipes the hashes of a contact's requests.
create index subscription_requests_stream on hubferry.subscription_requests (stream_id);

-- What is left of an erased contact: its key, so that nobody takes it for a new one.
alter table hubferry.contacts
    alter column email drop not null,
    add check (erased_at is not null or email is not null);

-- Stands in place of the hash of a request whose contact was erased: no request has it.
create function hubferry.erased_hash() returns bytea language sql immutable parallel safe as $$
    select decode(repeat('00', 32), 'hex')
$$;

-- Erases a contact, inside the caller's transaction: its address and properties, the wording of its consents, the hashes of its
-- requests. Events of it that wait are cancelled here; those that a dispatcher or a worker has are cancelled when they are claimed
-- next, since a transaction that stays open must not hold up their owners. For every portal that knows the contact an event
-- contact.erase.v1 is written, which deletes it in HubSpot and wipes what came in between; the address travels in its payload
-- until then, and nowhere else.
--
-- One row: when it was erased, whether that was so before, and the newest erasure of each portal. Asked again, it writes nothing,
-- except that an erasure that died or was cancelled is tried anew.
-- brands: whom the caller may act for; null: for all. SQLSTATE HF014: no such contact (for this caller); HF015: the contact belongs
-- to other brands too.
create function hubferry.erase_contact(contact_key text, brands text[] default null, traceparent text default null)
returns table (erased_at timestamptz, replayed boolean, events jsonb)
language plpgsql as $$
#variable_conflict use_column
declare
    key constant text := erase_contact.contact_key;
    person hubferry.contacts;
    erased_now timestamptz;
    streams bigint[];
    theirs text[];
    stopped uuid[];
    written integer;
begin
    select c.* into person from hubferry.contacts c where c.contact_key = key for no key update;
    select array_agg(s.stream_id), array_agg(s.brand) into streams, theirs
    from hubferry.subscription_streams s where s.contact_key = key;
    if person.contact_key is null or (erase_contact.brands is not null and not coalesce(theirs && erase_contact.brands, false)) then
        raise exception 'there is no such contact' using errcode = 'HF014', column = 'contact_key', detail = 'unknown_contact';
    end if;
    if erase_contact.brands is not null and not theirs <@ erase_contact.brands then
        raise exception 'the contact belongs to other brands too' using errcode = 'HF015', column = 'contact_key', detail = 'foreign_brand';
    end if;

    if person.erased_at is null then
        erased_now := clock_timestamp();
        update hubferry.contacts c
        set email = null, keyed_by_email = false, properties = '{}', erased_at = erased_now, updated_at = erased_now
        where c.contact_key = key;
        update hubferry.subscription_requests r set request_hash = hubferry.erased_hash() where r.stream_id = any (streams);

        -- What waits or is finished is nobody else's. In the order of the id, as everybody locks them.
        select array_agg(e.event_id) into stopped
        from (
            select e.event_id from hubferry.outbox_events e
            where e.stream_id = any (streams) and (e.finished_at is not null or e.status in ('pending', 'retry'))
            order by e.event_id
            for update
        ) as e;
        update hubferry.outbox_events e
        set payload = e.payload - 'consent',
            status = case when e.finished_at is null or e.status = 'dead' then 'cancelled' else e.status end,
            finished_at = coalesce(e.finished_at, erased_now),
            last_error_code = case when e.finished_at is null or e.status = 'dead' then 'contact_erased' else e.last_error_code end,
            last_error_summary = case when e.finished_at is null or e.status = 'dead' then null else e.last_error_summary end
        where e.event_id = any (stopped);

        insert into hubferry.outbox_events (event_id, kind, portal_id, contact_key, lane, traceparent, payload)
        select gen_random_uuid(), 'contact.erase.v1', p.portal_id, key, 'interactive',
               case when erase_contact.traceparent ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' then erase_contact.traceparent end,
               jsonb_build_object('email', person.email)
        from hubferry.portals p
        where exists (select from hubferry.contact_links l where l.portal_id = p.portal_id and l.contact_key = key)
           or exists (select from hubferry.brands b where b.brand = any (theirs) and b.portal_id = p.portal_id);
    else
        -- An erasure that ended without being carried out goes on as another event, which takes the address along.
        insert into hubferry.outbox_events (event_id, kind, portal_id, contact_key, lane, traceparent, payload, created_at, replays, replayed_at)
        select gen_random_uuid(), e.kind, e.portal_id, e.contact_key, e.lane, e.traceparent, e.payload, e.created_at, e.event_id, clock_timestamp()
        from hubferry.outbox_events e
        where e.contact_key = key and e.kind = 'contact.erase.v1' and e.status in ('dead', 'cancelled')
          and not exists (select from hubferry.outbox_events r where r.replays = e.event_id);
        get diagnostics written = row_count;
        update hubferry.outbox_events e set payload = '{}'
        where e.contact_key = key and e.kind = 'contact.erase.v1' and e.status in ('dead', 'cancelled') and e.payload <> '{}';
    end if;

    return query
    select coalesce(person.erased_at, erased_now), person.erased_at is not null and written = 0,
           coalesce((
               select jsonb_agg(jsonb_build_object('event_id', e.event_id, 'portal_id', e.portal_id, 'status', e.status)
                                order by e.portal_id, e.created_at)
               from hubferry.outbox_events e
               where e.contact_key = key and e.kind = 'contact.erase.v1'
                 and not exists (select from hubferry.outbox_events r where r.replays = e.event_id)), '[]');
end $$;

-- As before, and the repeat of a request whose contact was erased since is told so: it must not become a new contact.
-- Accepts many requests, each for itself: a fault in one does not touch the others. One row a request, in their order:
-- either request_id, event_id, sequence, status and replayed, or error_code, error_field and error_detail.
create or replace function hubferry.accept_subscriptions(requests jsonb, traceparent text default null)
returns table (item integer, request_id uuid, event_id uuid, sequence bigint, status text, replayed boolean,
               error_code text, error_field text, error_detail text)
language plpgsql as $$
declare
    most constant integer := 500;
    items hubferry.accept_item[];
    fresh hubferry.accept_item[];
begin
    if jsonb_typeof(requests) is distinct from 'array' or jsonb_array_length(requests) not between 1 and most then
        raise exception 'requests must be an array of 1 to % requests', most using errcode = 'HF001';
    end if;
    items := hubferry.read_items(requests);

    -- What was accepted before is answered from its receipt and writes nothing; of one key twice in a call the first counts.
    select array_agg(first_of_key order by (first_of_key).position) into fresh
    from (
        select distinct on (i.brand, i.idempotency_key) i::hubferry.accept_item as first_of_key
        from unnest(items) as i
        where (i.fault).code is null
          and not exists (select from hubferry.subscription_requests r where r.brand = i.brand and r.idempotency_key = i.idempotency_key)
        order by i.brand, i.idempotency_key, i.position
    ) as candidates;

    if fresh is not null then
        fresh := hubferry.settle_contacts(fresh);
        perform hubferry.write_accepted(
            (select array_agg(f order by f.position) from unnest(fresh) as f where (f.fault).code is null), traceparent);
    end if;

    return query
    select i.position,
           case when (answer.fault).code is null then r.request_id end,
           case when (answer.fault).code is null then r.event_id end,
           case when (answer.fault).code is null then r.sequence end,
           case when (answer.fault).code is null then 'accepted' end,
           case when (answer.fault).code is null then r.request_id <> i.request_id end,
           (answer.fault).code, (answer.fault).field, (answer.fault).detail
    from unnest(items) as i
    left join unnest(fresh) as f on f.brand = i.brand and f.idempotency_key = i.idempotency_key
    left join hubferry.subscription_requests r on r.brand = i.brand and r.idempotency_key = i.idempotency_key
    cross join lateral (
        select case
            -- What the configuration says today does not undo what was accepted.
            when r.request_hash = i.request_hash
                and coalesce((i.fault).code, 'unknown_brand') in ('unknown_brand', 'unknown_product', 'no_active_mapping') then null
            when (i.fault).code is not null then i.fault
            when r.request_hash = hubferry.erased_hash() then
                ('contact_erased', 'contact.key', 'belongs to a contact that was erased; use another key')::hubferry.fault
            when coalesce(r.request_hash, f.request_hash) <> i.request_hash then
                ('idempotency_conflict', 'idempotency_key', 'was used for another request; use a new key for a new request')::hubferry.fault
            else f.fault
        end as fault
    ) as answer
    order by i.position;
end $$;
