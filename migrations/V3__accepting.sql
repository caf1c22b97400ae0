-- The one door. Any application, in any language, calls it inside its own transaction: the decision, the receipt and the
-- event commit together or not at all.
--
-- A request is the document that POST /v1/subscriptions takes, with one member more:
--   {"idempotency_key": "...", "brand": "...", "product": "...",
--    "contact": {"key": "...", "email": "...", "properties": {...}},
--    "desired_state": "subscribed" | "unsubscribed",
--    "consent": {"legal_basis": "...", "explanation": "...", "given_at": "..."},
--    "lane": "interactive" | "bulk"}

-- An address as it is compared and stored: trimmed and in lower case, by ASCII rules only, so that no locale can turn one
-- address into another; NFC, so that one text typed in two ways is one address. Null when it is not an address that mail can
-- be sent to: spaces, controls and invisible characters beyond ASCII are listed, since the C locale knows none of them.
create function hubferry.canonical_email(address text) returns text language sql immutable parallel safe as $$
    select candidate
    from (select lower(normalize(btrim(address, E' \t\r\n'), NFC) collate "C") as candidate) as trimmed
    where length(candidate) <= 254
      -- Lengths are checked apart: bounded repeats would make the pattern ten times as slow.
      and candidate ~ '^[^[:space:][:cntrl:]@<>()\[\]\\,;:"]+@([a-z0-9-]+\.)+([a-z]{2,}|xn--[a-z0-9-]+)$'
      and candidate !~ '(^\.|\.\.|\.@|@-|-\.|\.-|-$)'
      and length(split_part(candidate, '@', 1)) <= 64
      and (length(split_part(candidate, '@', 2)) <= 63 or split_part(candidate, '@', 2) !~ '[^.]{64}')
      and candidate !~ '[\u0080-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uff20\uffa0\ufff0-\uffff]'
$$;

-- An RFC 3339 instant, or null when the text is not one.
create function hubferry.instant(value text) returns timestamptz language plpgsql immutable parallel safe as $$
begin
    if value !~ '^\d{4}-\d{2}-\d{2}[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})$' then
        return null;
    end if;
    return value::timestamptz;
exception when datetime_field_overflow or invalid_datetime_format or invalid_time_zone_displacement_value then
    return null;
end $$;

-- An instant in the one form in which it is hashed and handed on.
create function hubferry.instant_text(value timestamptz) returns text language sql immutable parallel safe as $$
    select to_char(value at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

-- Properties as they are hashed: 0.0010 is 0.001. What is stored keeps the caller's form.
create function hubferry.plain_numbers(properties jsonb) returns jsonb language sql immutable parallel safe as $$
    select coalesce(jsonb_object_agg(p.key, case jsonb_typeof(p.value)
        when 'number' then to_jsonb(trim_scale((p.value #>> '{}')::numeric)) else p.value end), '{}')
    from jsonb_each(properties) as p
$$;

create type hubferry.fault as (code text, field text, detail text);

-- The first thing wrong with the form of a request, or null. What it names depends on nothing but the request.
create function hubferry.fault_of(request jsonb) returns hubferry.fault language plpgsql stable parallel safe as $$
declare
    contact jsonb := request -> 'contact';
    consent jsonb := request -> 'consent';
    given_at timestamptz;
    name text;
    value jsonb;
begin
    if jsonb_typeof(request) is distinct from 'object' then
        return ('invalid_request', '', 'must be an object')::hubferry.fault;
    end if;
    select key into name from jsonb_object_keys(request - '{idempotency_key,brand,product,contact,desired_state,consent,lane}'::text[]) as key limit 1;
    if found then
        return ('unknown_field', left(name, 100), 'is not a field of a subscription request')::hubferry.fault;
    end if;

    foreach name in array '{idempotency_key,brand,product,desired_state}'::text[] loop
        if jsonb_typeof(request -> name) is distinct from 'string' then
            return ('invalid_field', name, 'is required and must be a string')::hubferry.fault;
        end if;
    end loop;
    if request ->> 'idempotency_key' !~ '^[!-~]{1,255}$' then
        return ('invalid_idempotency_key', 'idempotency_key', 'must be 1 to 255 visible ASCII characters')::hubferry.fault;
    end if;
    if request ->> 'desired_state' not in ('subscribed', 'unsubscribed') then
        return ('invalid_desired_state', 'desired_state', 'must be "subscribed" or "unsubscribed"')::hubferry.fault;
    end if;
    if jsonb_typeof(coalesce(request -> 'lane', '"bulk"')) <> 'string' or request ->> 'lane' not in ('interactive', 'bulk') then
        return ('invalid_lane', 'lane', 'must be "interactive" or "bulk"')::hubferry.fault;
    end if;

    if jsonb_typeof(contact) is distinct from 'object' then
        return ('invalid_field', 'contact', 'is required and must be an object')::hubferry.fault;
    end if;
    select key into name from jsonb_object_keys(contact - '{key,email,properties}'::text[]) as key limit 1;
    if found then
        return ('unknown_field', 'contact.' || left(name, 100), 'is not a field of a contact')::hubferry.fault;
    end if;
    if jsonb_typeof(contact -> 'email') is distinct from 'string' then
        return ('invalid_email', 'contact.email', 'is required and must be a string')::hubferry.fault;
    end if;
    if hubferry.canonical_email(contact ->> 'email') is null then
        return ('invalid_email', 'contact.email',
                'must be one address of at most 254 characters such as ada@example.test; an international domain in its ASCII form (xn--)')::hubferry.fault;
    end if;
    if coalesce(jsonb_typeof(contact -> 'key'), 'null') not in ('string', 'null') or contact ->> 'key' !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$' then
        return ('invalid_contact_key', 'contact.key',
                'must be 1 to 100 of A-Z a-z 0-9 . _ : / - and begin with a letter or digit; it appears in logs, so no address')::hubferry.fault;
    end if;
    if coalesce(jsonb_typeof(contact -> 'properties'), 'null') not in ('object', 'null') then
        return ('invalid_properties', 'contact.properties', 'must be an object')::hubferry.fault;
    end if;
    if jsonb_typeof(contact -> 'properties') = 'object' then
        for name, value in select p.key, p.value from jsonb_each(contact -> 'properties') as p loop
            if name !~ '^[A-Za-z][A-Za-z0-9_]{0,99}$' then
                return ('invalid_properties', 'contact.properties', 'has a name that is not 1 to 100 letters, digits and underscores')::hubferry.fault;
            end if;
            if jsonb_typeof(value) in ('object', 'array') then
                return ('invalid_properties', 'contact.properties.' || name, 'must be a string, a number, a boolean or null')::hubferry.fault;
            end if;
            if length(value #>> '{}') > 65536 then
                return ('invalid_properties', 'contact.properties.' || name, 'is longer than 65536 characters')::hubferry.fault;
            end if;
        end loop;
    end if;

    if coalesce(jsonb_typeof(consent), 'null') = 'null' then
        if request ->> 'desired_state' = 'subscribed' then
            return ('invalid_consent', 'consent', 'is required to subscribe: {"legal_basis", "explanation"}')::hubferry.fault;
        end if;
        return null;
    end if;
    if jsonb_typeof(consent) <> 'object' then
        return ('invalid_consent', 'consent', 'must be an object')::hubferry.fault;
    end if;
    select key into name from jsonb_object_keys(consent - '{legal_basis,explanation,given_at}'::text[]) as key limit 1;
    if found then
        return ('unknown_field', 'consent.' || left(name, 100), 'is not a field of a consent')::hubferry.fault;
    end if;
    if jsonb_typeof(consent -> 'legal_basis') is distinct from 'string' or consent ->> 'legal_basis' not in
        ('CONSENT_WITH_NOTICE', 'LEGITIMATE_INTEREST_CLIENT', 'LEGITIMATE_INTEREST_OTHER', 'LEGITIMATE_INTEREST_PQL',
         'NON_GDPR', 'PERFORMANCE_OF_CONTRACT', 'PROCESS_AND_STORE') then
        return ('invalid_consent', 'consent.legal_basis',
                'must be CONSENT_WITH_NOTICE, LEGITIMATE_INTEREST_CLIENT, LEGITIMATE_INTEREST_OTHER, LEGITIMATE_INTEREST_PQL, NON_GDPR, PERFORMANCE_OF_CONTRACT or PROCESS_AND_STORE')::hubferry.fault;
    end if;
    if jsonb_typeof(consent -> 'explanation') is distinct from 'string' or length(btrim(consent ->> 'explanation')) not between 1 and 1000 then
        return ('invalid_consent', 'consent.explanation', 'is required and must be 1 to 1000 characters that say how consent was given')::hubferry.fault;
    end if;
    if coalesce(jsonb_typeof(consent -> 'given_at'), 'null') <> 'null' then
        given_at := case when jsonb_typeof(consent -> 'given_at') = 'string' then hubferry.instant(consent ->> 'given_at') end;
        if given_at is null or given_at < '2005-01-01Z' or given_at > clock_timestamp() + interval '5 minutes' then
            return ('invalid_consent', 'consent.given_at', 'must be an RFC 3339 instant such as 2026-05-04T09:30:00Z, not before 2005 and not in the future')::hubferry.fault;
        end if;
    end if;
    return null;
end $$;

create type hubferry.accept_item as (
    position        integer,
    fault           hubferry.fault,
    brand           text,
    product         text,
    idempotency_key text,
    request_hash    bytea,
    contact_key     text,
    email           text,
    properties      jsonb,
    desired_state   text,
    consent         jsonb,
    lane            text,
    portal_id       bigint,
    mapping_version integer,
    targets         jsonb,
    request_id      uuid,
    event_id        uuid
);

-- Reads a request into a typed item: form checked, canonical, hashed, its active mapping resolved. Writes nothing.
create function hubferry.read_items(requests jsonb) returns hubferry.accept_item[] language sql volatile as $$
    with parsed as (
        select (r.position)::integer as position,
               r.request,
               hubferry.fault_of(r.request) as form,
               hubferry.canonical_email(r.request #>> '{contact,email}') as email,
               coalesce(r.request ->> 'lane', 'interactive') as lane,
               case when jsonb_typeof(r.request #> '{contact,properties}') = 'object'
                    then r.request #> '{contact,properties}' else '{}' end as properties,
               case when jsonb_typeof(r.request -> 'consent') = 'object'
                    then jsonb_strip_nulls(r.request -> 'consent' || jsonb_build_object(
                        'given_at', hubferry.instant_text(hubferry.instant(r.request #>> '{consent,given_at}')))) end as consent
        from jsonb_array_elements(requests) with ordinality as r (request, position)
    )
    select array_agg(
        (p.position,
         case when (p.form).code is not null then p.form
              when b.brand is null then ('unknown_brand', 'brand', 'is not known here')::hubferry.fault
              when q.product is null then ('unknown_product', 'product', 'is not a product of this brand')::hubferry.fault
              when m.version is null then
                  ('no_active_mapping', 'product', 'has no active mapping: run `hubferry mapping activate` for it')::hubferry.fault
         end,
         p.request ->> 'brand', p.request ->> 'product', p.request ->> 'idempotency_key',
         -- The hash is over what the request means: jsonb has neither key order nor spacing, NFC makes one of the two ways
         -- to write an accent, and who waits for it (the lane) does not change what is wanted.
         sha256(convert_to(normalize(jsonb_build_object(
             'brand', p.request -> 'brand', 'product', p.request -> 'product', 'key', p.request #> '{contact,key}',
             'email', p.email, 'properties', hubferry.plain_numbers(p.properties),
             'desired_state', p.request -> 'desired_state', 'consent', p.consent)::text, NFC), 'UTF8')),
         p.request #>> '{contact,key}', p.email, p.properties, p.request ->> 'desired_state', p.consent, p.lane,
         b.portal_id, m.version, m.targets,
         gen_random_uuid(), gen_random_uuid())::hubferry.accept_item
        order by p.position)
    from parsed p
    left join hubferry.brands b on b.brand = p.request ->> 'brand'
    left join hubferry.products q on q.brand = b.brand and q.product = p.request ->> 'product'
    left join hubferry.mappings m on m.brand = q.brand and m.product = q.product and m.state = 'active'
$$;

-- Finds or makes the contact of each item, locks it, and returns the items with their contact keys. Contacts are made and
-- locked in the order of their keys, so that two batches over the same people wait for each other and never deadlock.
create function hubferry.settle_contacts(items hubferry.accept_item[]) returns hubferry.accept_item[] language plpgsql as $$
begin
    -- A request without a key belongs to whoever has its address; nobody yet: a contact under a key of our own.
    insert into hubferry.contacts (contact_key, email, keyed_by_email)
    select gen_random_uuid()::text, missing.email, true
    from (select distinct i.email from unnest(items) as i where i.contact_key is null) as missing
    where not exists (select from hubferry.contacts c where c.email = missing.email and c.erased_at is null)
    order by missing.email
    on conflict do nothing;

    insert into hubferry.contacts (contact_key, email)
    select distinct on (i.contact_key) i.contact_key, i.email
    from unnest(items) as i
    where i.contact_key is not null
    order by i.contact_key, i.position
    on conflict (contact_key) do nothing;

    select array_agg(
        (i.position, i.fault, i.brand, i.product, i.idempotency_key, i.request_hash,
         coalesce(i.contact_key, owner.contact_key), i.email, i.properties, i.desired_state, i.consent, i.lane,
         i.portal_id, i.mapping_version, i.targets, i.request_id, i.event_id)::hubferry.accept_item order by i.position)
    into items
    from unnest(items) as i
    left join lateral (
        select c.contact_key from hubferry.contacts c
        where i.contact_key is null and c.email = i.email and c.erased_at is null
        order by c.keyed_by_email, c.created_at, c.contact_key limit 1
    ) as owner on true;

    perform from hubferry.contacts c
    where c.contact_key in (select i.contact_key from unnest(items) as i)
    order by c.contact_key for no key update;

    -- Erased contacts are not written to again. Read after the lock, so that an erasure that came first is seen.
    return (
        select array_agg(
            (i.position,
             case when c.erased_at is not null
                  then ('contact_erased', 'contact.key', 'belongs to a contact that was erased; use another key')::hubferry.fault end,
             i.brand, i.product, i.idempotency_key, i.request_hash, i.contact_key, i.email, i.properties, i.desired_state,
             i.consent, i.lane, i.portal_id, i.mapping_version, i.targets, i.request_id, i.event_id)::hubferry.accept_item
            order by i.position)
        from unnest(items) as i join hubferry.contacts c using (contact_key));
end $$;

-- Writes receipts, sequences, contacts and events of items whose contacts are locked.
create function hubferry.write_accepted(items hubferry.accept_item[], traceparent text) returns void language sql as $$
    insert into hubferry.subscription_streams (contact_key, brand, product)
    select distinct i.contact_key, i.brand, i.product from unnest(items) as i
    order by 1, 2, 3
    on conflict (contact_key, brand, product) do nothing;

    with
    -- The next sequences of each stream: safe to compute, since whoever accepts for a contact holds its lock.
    numbered as (
        select i.*, s.stream_id,
               s.last_sequence + row_number() over (partition by s.stream_id order by i.position) as sequence
        from unnest(items) as i
        join hubferry.subscription_streams s using (contact_key, brand, product)
        -- Accepted by another transaction while this one waited for the contact: such an item takes no number.
        where not exists (
            select from hubferry.subscription_requests r where r.brand = i.brand and r.idempotency_key = i.idempotency_key)
    ),
    -- A key that another transaction uses at this very moment is left alone: its receipt answers this request too.
    receipts as (
        insert into hubferry.subscription_requests
            (request_id, brand, idempotency_key, request_hash, stream_id, event_id, sequence, desired_state, mapping_version)
        select n.request_id, n.brand, n.idempotency_key, n.request_hash, n.stream_id, n.event_id, n.sequence,
               n.desired_state, n.mapping_version
        from numbered n
        order by n.brand, n.idempotency_key
        on conflict (brand, idempotency_key) do nothing
        returning request_id
    ),
    fresh as materialized (select n.* from numbered n join receipts using (request_id)),
    streams as (
        update hubferry.subscription_streams s
        set last_sequence = newest.sequence, updated_at = clock_timestamp()
        from (select stream_id, max(sequence) as sequence from fresh group by stream_id) as newest
        where s.stream_id = newest.stream_id
    ),
    -- The newest item gives the address; properties are merged name by name, the newest value of each name winning.
    people as (
        update hubferry.contacts c
        set email = newest.email,
            keyed_by_email = c.keyed_by_email and c.email = newest.email,
            properties = c.properties || newest.properties,
            updated_at = clock_timestamp()
        from (
            select f.contact_key,
                   (array_agg(f.email order by f.position desc))[1] as email,
                   coalesce(jsonb_object_agg(p.key, p.value order by f.position) filter (where p.key is not null), '{}') as properties
            from fresh f left join lateral jsonb_each(f.properties) as p on true
            group by f.contact_key
        ) as newest
        where c.contact_key = newest.contact_key
          and (c.email, c.properties) is distinct from (newest.email, c.properties || newest.properties)
    )
    insert into hubferry.outbox_events (event_id, kind, stream_id, sequence, portal_id, brand, lane, traceparent, payload)
    select f.event_id, 'subscription.desired-state.v1', f.stream_id, f.sequence, f.portal_id, f.brand, f.lane,
           -- A trace that can't be followed is no reason to refuse a request.
           case when traceparent ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' then traceparent end,
           jsonb_build_object(
               'desired_state', f.desired_state,
               'consent', f.consent || jsonb_build_object(
                   'given_at', coalesce(f.consent ->> 'given_at', hubferry.instant_text(clock_timestamp()))),
               'mapping', jsonb_build_object('version', f.mapping_version, 'targets', f.targets))
    from fresh f
    order by f.position
$$;

-- Accepts many requests, each for itself: a fault in one does not touch the others. One row a request, in their order:
-- either request_id, event_id, sequence, status and replayed, or error_code, error_field and error_detail.
create function hubferry.accept_subscriptions(requests jsonb, traceparent text default null)
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
            when coalesce(r.request_hash, f.request_hash) <> i.request_hash then
                ('idempotency_conflict', 'idempotency_key', 'was used for another request; use a new key for a new request')::hubferry.fault
            else f.fault
        end as fault
    ) as answer
    order by i.position;
end $$;

-- SQLSTATE of a fault, in a class of our own.
create function hubferry.sqlstate_of(code text) returns text language sql immutable parallel safe as $$
    select case code
        when 'unknown_brand' then 'HF002'
        when 'unknown_product' then 'HF003'
        when 'no_active_mapping' then 'HF004'
        when 'invalid_email' then 'HF005'
        when 'invalid_desired_state' then 'HF006'
        when 'invalid_consent' then 'HF007'
        when 'invalid_idempotency_key' then 'HF008'
        when 'idempotency_conflict' then 'HF009'
        when 'contact_erased' then 'HF010'
        when 'invalid_contact_key' then 'HF011'
        when 'invalid_properties' then 'HF012'
        when 'invalid_lane' then 'HF013'
        else 'HF001'
    end
$$;

-- Accepts one request or raises: SQLSTATE as above, the field in the error's column name. Whoever calls it inside a
-- transaction decides by commit or rollback whether it ever happened.
create function hubferry.accept_subscription(
    brand text, product text, idempotency_key text, contact jsonb, desired_state text,
    consent jsonb default null, lane text default 'interactive', traceparent text default null)
returns table (request_id uuid, event_id uuid, sequence bigint, status text, replayed boolean)
language plpgsql as $$
declare
    answer record;
begin
    select a.* into strict answer
    from hubferry.accept_subscriptions(
        jsonb_build_array(jsonb_build_object(
            'brand', brand, 'product', product, 'idempotency_key', idempotency_key, 'contact', contact,
            'desired_state', desired_state, 'consent', consent, 'lane', lane)),
        traceparent) as a;
    if answer.error_code is not null then
        raise exception '% %', answer.error_field, answer.error_detail
            using errcode = hubferry.sqlstate_of(answer.error_code), column = answer.error_field, detail = answer.error_code;
    end if;
    return query select answer.request_id, answer.event_id, answer.sequence, answer.status, answer.replayed;
end $$;
