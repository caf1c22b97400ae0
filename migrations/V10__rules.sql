-- What follows from changes in HubSpot: the rules that say so, and what we wrote ourselves, so that its echo calls for nothing.

-- All rules of a portal at one time. What is loaded replaces what was active; effects name the version that asked for them.
create table hubferry.rule_sets (
    portal_id    bigint not null references hubferry.portals,
    version      integer not null check (version > 0),
    state        text not null default 'active' check (state in ('active', 'retired')),
    rules        jsonb not null check (jsonb_typeof(rules -> 'rules') = 'array'),
    -- What its rules wait for, each as object:property.
    watched      text[] not null,
    -- Properties of a record that its rules ask for, besides the one that changed.
    reads        text[] not null,
    activated_at timestamptz not null default clock_timestamp(),
    retired_at   timestamptz,
    primary key (portal_id, version),
    check ((state = 'retired') = (retired_at is not null))
);

-- Readers: facts_of_changes and claim_batch, which look up the one active set of a portal.
create unique index rule_sets_active on hubferry.rule_sets (portal_id) where state = 'active';

create function hubferry.refuse_rules_change() returns trigger language plpgsql as $$
begin
    raise exception 'version % of the rules of portal % is immutable: push a new version', old.version, old.portal_id
        using errcode = 'HF020';
end $$;

create trigger rule_sets_are_immutable before update on hubferry.rule_sets
    for each row when ((new.rules, new.watched, new.reads, new.version) is distinct from (old.rules, old.watched, old.reads, old.version))
    execute function hubferry.refuse_rules_change();

-- Makes these the rules of a portal, and retires those before them in the same transaction. Returns the version, and
-- whether the active version said the same already; no row when there is no such portal.
create function hubferry.push_rules(of_portal bigint, new_rules jsonb, new_watched text[], new_reads text[])
returns table (version integer, existed boolean)
language plpgsql as $$
#variable_conflict use_column
declare
    active hubferry.rule_sets;
begin
    -- One push a portal at a time.
    perform from hubferry.portals p where p.portal_id = of_portal for no key update;
    if not found then
        return;
    end if;
    -- Records of these types are followed from now on.
    insert into hubferry.projected_types (portal_id, object_type)
    select distinct of_portal, split_part(w, ':', 1) from unnest(new_watched) as w
    on conflict do nothing;
    select s.* into active from hubferry.rule_sets s where s.portal_id = of_portal and s.state = 'active';
    if active.rules = new_rules then
        return query select active.version, true;
        return;
    end if;
    update hubferry.rule_sets s set state = 'retired', retired_at = clock_timestamp()
    where s.portal_id = of_portal and s.state = 'active';
    return query
        insert into hubferry.rule_sets as s (portal_id, version, rules, watched, reads)
        values (of_portal, coalesce((select max(m.version) from hubferry.rule_sets m where m.portal_id = of_portal), 0) + 1,
                new_rules, new_watched, new_reads)
        returning s.version, false;
end $$;

-- Writer: the worker, once HubSpot has accepted a property that rules wait for. A change to one of these values around
-- that time is our own write coming back.
create table hubferry.written_values (
    portal_id   bigint not null references hubferry.portals,
    object_type text not null,
    object_id   bigint not null,
    property    text not null,
    value_hash  bytea not null check (length(value_hash) = 32),
    written_at  timestamptz not null default clock_timestamp(),
    primary key (portal_id, object_type, object_id, property, value_hash)
) with (fillfactor = 80);

-- Reader: forget_written_values (the oldest).
create index written_values_written on hubferry.written_values (written_at);

-- Reader: show_notification, which names the effects that followed.
create index outbox_events_effects on hubferry.outbox_events ((payload ->> 'notification')) where lane = 'effects';

-- Reader: show_delivery, which names the events that apply it.
create index outbox_events_deliveries on hubferry.outbox_events ((payload ->> 'delivery_id')) where lane = 'inbound';
