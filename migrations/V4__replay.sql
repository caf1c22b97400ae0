-- A dead event leaves by a replay: its decision once more, as a new event at the head of its stream. The dead one stays what it
-- is, and the new one names it.

alter table hubferry.outbox_events
    -- The dead event whose decision this one repeats; null again when that one is pruned, which is the older of the two.
    add column replays uuid references hubferry.outbox_events on delete set null,
    -- When somebody asked for it. created_at stays the instant of the decision, which consents and other products' decisions
    -- are compared with.
    add column replayed_at timestamptz check (isfinite(replayed_at)),
    add check (replays is null or replayed_at is not null),
    add check (replays <> event_id);

-- Readers: the guard itself (one replay an event, however often somebody asks), status_counts, the statements on events
-- (list_open_events, count_open_events, show_event), and the foreign key when a dead event is pruned.
create unique index outbox_events_replays on hubferry.outbox_events (replays) where replays is not null;

-- Readers: list_open_events and count_open_events, for what is dead. They read what waits by outbox_events_unfinished.
create index outbox_events_dead_by_age on hubferry.outbox_events (created_at, event_id) where status = 'dead';

-- Whether an event is one of those that an operator names. A member that is missing or null names all:
--   {"portal_id", "brand", "product", "code", "class", "kind", "older_than_ms"}
-- A refusal's summary begins with its class.
create function hubferry.event_matches(e hubferry.outbox_events, product text, filter jsonb) returns boolean
language sql stable as $$
    select (filter ->> 'portal_id' is null or e.portal_id = (filter ->> 'portal_id')::bigint)
       and (filter ->> 'brand' is null or e.brand = filter ->> 'brand')
       and (filter ->> 'product' is null or product = filter ->> 'product')
       and (filter ->> 'code' is null or e.last_error_code = filter ->> 'code')
       and (filter ->> 'class' is null or starts_with(e.last_error_summary, (filter ->> 'class') || ':'))
       and (filter ->> 'kind' is null or e.kind = filter ->> 'kind')
       and (filter ->> 'older_than_ms' is null
            or e.created_at < now() - (filter ->> 'older_than_ms')::bigint * interval '1 ms')
$$;

-- What stands against a replay of each event, if anything: one row an event. Reads only; the answer holds for as long as the
-- contact is locked.
-- under: 'same' keeps the mapping that the event carries, 'current' takes the active version. Reads the head of a stream by
-- outbox_events_stream, and a replay by outbox_events_replays.
create function hubferry.judge_replays(event_ids uuid[], under text)
returns table (event_id uuid, status text, refusal text, other_event_id uuid, stream_id bigint, mapping jsonb)
language sql stable as $$
    select asked.event_id, e.status,
           case when e.event_id is null then 'unknown_event'
                when e.status <> 'dead' then 'not_dead'
                when replay.event_id is not null then 'already_replayed'
                when s.stream_id is null then 'no_stream'
                when c.erased_at is not null then 'contact_erased'
                when e.sequence < s.last_sequence or opposite.event_id is not null then 'newer_accepted'
                when new.mapping is null and under = 'current' then 'no_active_mapping'
                when new.mapping is null then 'unreadable_payload'
           end,
           coalesce(replay.event_id, newer.event_id, opposite.event_id),
           e.stream_id, new.mapping
    from (select distinct id as event_id from unnest(event_ids) as id) as asked
    left join hubferry.outbox_events e using (event_id)
    left join hubferry.outbox_events replay on replay.replays = e.event_id
    left join hubferry.subscription_streams s on s.stream_id = e.stream_id
    left join hubferry.contacts c on c.contact_key = s.contact_key
    left join hubferry.outbox_events newer
        on newer.stream_id = s.stream_id and newer.sequence = s.last_sequence and s.last_sequence > e.sequence
    left join hubferry.mappings m on m.brand = s.brand and m.product = s.product and m.state = 'active'
    left join lateral (
        select case under when 'same' then e.payload -> 'mapping'
                          else case when m.version is not null then jsonb_build_object('version', m.version, 'targets', m.targets) end
               end as mapping
    ) as new on true
    -- Of several products that share a subscription type the newest decision counts, whichever product it was made for.
    left join lateral (
        select o.event_id
        from hubferry.subscription_streams other
        join hubferry.outbox_events o on o.stream_id = other.stream_id and o.sequence = other.last_sequence
        where other.contact_key = s.contact_key and other.stream_id <> s.stream_id
          and o.portal_id = e.portal_id and o.created_at > e.created_at and o.status <> 'cancelled'
          and o.payload #> '{mapping,targets,subscription_type}' = new.mapping #> '{targets,subscription_type}'
          and o.payload ->> 'desired_state' <> e.payload ->> 'desired_state'
        order by o.created_at desc limit 1
    ) as opposite on true
$$;

-- Replays dead events, each for itself: one row an event, with the new event, or with why there is none and which other event
-- stands in its way. It writes as accepting does: under the contact's lock, with the stream's next sequence. So of two who ask
-- at once the second one finds the first one's event. into_lane: null keeps each event's own.
create function hubferry.replay_events(event_ids uuid[], under text default 'same', into_lane text default null)
returns table (event_id uuid, status text, refusal text, other_event_id uuid, replay_id uuid, sequence bigint)
language plpgsql as $$
#variable_conflict use_column
declare
    most constant integer := 500;
begin
    if cardinality(event_ids) > most or under not in ('same', 'current') then
        raise exception 'at most % events at once, under the same or the current mapping', most using errcode = 'HF001';
    end if;
    -- In the order of their keys, as accepting locks them.
    perform from hubferry.contacts c
    where c.contact_key in (
        select s.contact_key from hubferry.outbox_events e join hubferry.subscription_streams s using (stream_id)
        where e.event_id = any (event_ids))
    order by c.contact_key for no key update;
    -- So that nobody cancels one meanwhile. In the order of the id, as everybody locks them.
    perform from hubferry.outbox_events e
    where e.event_id = any (event_ids) and e.status = 'dead'
    order by e.event_id for no key update;

    return query
    -- Read after the locks, so that whatever came first is seen.
    with judged as materialized (
        select j.* from hubferry.judge_replays(event_ids, under) as j
    ),
    -- At most one event a stream passes: the one at its head.
    streams as (
        update hubferry.subscription_streams s
        set last_sequence = s.last_sequence + 1, updated_at = clock_timestamp()
        from judged j
        where j.refusal is null and s.stream_id = j.stream_id
        returning s.stream_id, s.last_sequence
    ),
    written as (
        insert into hubferry.outbox_events as r
            (event_id, kind, stream_id, sequence, portal_id, brand, lane, traceparent, payload, created_at, replays, replayed_at)
        select gen_random_uuid(), e.kind, e.stream_id, s.last_sequence, e.portal_id, e.brand, coalesce(into_lane, e.lane), e.traceparent,
               e.payload || jsonb_build_object('mapping', j.mapping), e.created_at, e.event_id, clock_timestamp()
        from judged j
        join streams s on s.stream_id = j.stream_id and j.refusal is null
        join hubferry.outbox_events e on e.event_id = j.event_id
        returning r.event_id, r.sequence, r.replays
    )
    select j.event_id, j.status, j.refusal, j.other_event_id, w.event_id, w.sequence
    from judged j left join written w on w.replays = j.event_id
    order by j.event_id;
end $$;

-- What stands against cancelling each event, if anything: one row an event. Reads only.
create function hubferry.judge_cancels(event_ids uuid[])
returns table (event_id uuid, status text, refusal text, other_event_id uuid)
language sql stable as $$
    select asked.event_id, e.status,
           case when e.event_id is null then 'unknown_event'
                when e.status in ('synced', 'superseded', 'cancelled') then 'finished'
                when replay.event_id is not null then 'already_replayed'
           end,
           replay.event_id
    from (select distinct id as event_id from unnest(event_ids) as id) as asked
    left join hubferry.outbox_events e using (event_id)
    left join hubferry.outbox_events replay on replay.replays = e.event_id
$$;

-- Stops events that are not finished or dead: one row an event, with its status before, and why it was left alone if it was.
-- Whoever has a lease on one loses it, and with it the right to finish it.
create function hubferry.cancel_events(event_ids uuid[])
returns table (event_id uuid, status text, refusal text, other_event_id uuid)
language plpgsql as $$
#variable_conflict use_column
declare
    most constant integer := 500;
begin
    if cardinality(event_ids) > most then
        raise exception 'at most % events at once', most using errcode = 'HF001';
    end if;
    -- In the order of the id, as everybody locks them.
    perform from hubferry.outbox_events e
    where e.event_id = any (event_ids) and (e.finished_at is null or e.status = 'dead')
    order by e.event_id for update;

    return query
    with judged as materialized (
        select j.* from hubferry.judge_cancels(event_ids) as j
    ),
    cancelled as (
        update hubferry.outbox_events e
        set status = 'cancelled', finished_at = clock_timestamp(), lease_token = null, lease_expires_at = null
        from judged j
        where j.refusal is null and e.event_id = j.event_id
    )
    select j.event_id, j.status, j.refusal, j.other_event_id from judged j order by j.event_id;
end $$;
