-- What operators decide: HubSpot accounts, who belongs to them, what a product means there, and who may call us.

create table hubferry.portals (
    portal_id               bigint primary key check (portal_id > 0),
    name                    text not null check (length(name) between 1 and 100),
    -- Our own ceiling, below HubSpot's: calls in any rolling window of call_window_ms.
    call_limit              integer not null default 150 check (call_limit between 1 and 10000),
    call_window_ms          integer not null default 10000 check (call_window_ms between 1 and 3600000),
    search_limit_per_second integer not null default 5 check (search_limit_per_second between 1 and 1000),
    daily_limit             integer check (daily_limit > 0),
    -- Batch consent endpoints need Marketing Hub Enterprise; every other portal is written one contact a call.
    subscription_write_mode text not null default 'batch' check (subscription_write_mode in ('batch', 'single')),
    -- The custom contact property with unique values that holds our contact key.
    unique_property         text not null default 'hubferry_contact_key' check (unique_property ~ '^[a-z][a-z0-9_]{0,99}$'),
    -- The dated version of HubSpot's API this portal is called in, where it differs from the deployment's: so one portal can
    -- go ahead of the others, or stay behind.
    api_version             text check (api_version ~ '^20\d{2}-(0[1-9]|1[0-2])(-beta)?$'),
    mode                    text not null default 'live' check (mode in ('live', 'off')),
    paused_until            timestamptz check (isfinite(paused_until)),
    paused_reason           text check (length(paused_reason) <= 200),
    created_at              timestamptz not null default clock_timestamp(),
    updated_at              timestamptz not null default clock_timestamp(),
    check ((paused_until is null) = (paused_reason is null))
);

create table hubferry.brands (
    brand      text primary key check (brand ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    portal_id  bigint not null references hubferry.portals,
    created_at timestamptz not null default clock_timestamp()
);

create table hubferry.products (
    brand      text not null references hubferry.brands,
    product    text not null check (product ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    created_at timestamptz not null default clock_timestamp(),
    primary key (brand, product)
);

create table hubferry.mappings (
    brand        text not null,
    product      text not null,
    version      integer not null check (version > 0),
    state        text not null default 'draft' check (state in ('draft', 'active', 'retired')),
    targets      jsonb not null check (jsonb_typeof(targets) = 'object'),
    created_at   timestamptz not null default clock_timestamp(),
    activated_at timestamptz,
    retired_at   timestamptz,
    primary key (brand, product, version),
    foreign key (brand, product) references hubferry.products,
    check (state <> 'active' or activated_at is not null),
    check ((state = 'retired') = (retired_at is not null))
);

-- Reader: accept_subscriptions, which looks up the one active mapping of a product.
create unique index mappings_active on hubferry.mappings (brand, product) where state = 'active';

-- Events carry the targets of the version they were accepted under, so a version must never say something else later.
create function hubferry.refuse_mapping_change() returns trigger language plpgsql as $$
begin
    raise exception 'mapping %/% version % is immutable: push a new version', old.brand, old.product, old.version
        using errcode = 'HF020';
end $$;

create trigger mappings_are_immutable before update on hubferry.mappings
    for each row when (new.targets is distinct from old.targets or new.version <> old.version)
    execute function hubferry.refuse_mapping_change();

create table hubferry.api_tokens (
    token_id   uuid primary key default gen_random_uuid(),
    name       text not null check (length(name) between 1 and 100),
    -- SHA-256 of a token of 256 random bits: nothing to guess, so no salt and no slow hash.
    token_hash bytea not null unique check (length(token_hash) = 32),
    brands     text[] not null check (cardinality(brands) > 0),
    created_at timestamptz not null default clock_timestamp(),
    revoked_at timestamptz
);

-- Makes a version (the newest when none is named) the active one; the one before is retired in the same transaction, so that
-- a product is never without. Returns the version, or null when there is no such version.
create function hubferry.activate_mapping(of_brand text, of_product text, wanted integer default null) returns integer
language plpgsql as $$
declare
    chosen integer;
begin
    -- One activation a product at a time.
    perform from hubferry.products p where p.brand = of_brand and p.product = of_product for no key update;
    select m.version into chosen from hubferry.mappings m
    where m.brand = of_brand and m.product = of_product and (wanted is null or m.version = wanted)
    order by m.version desc limit 1;
    if chosen is null then
        return null;
    end if;
    update hubferry.mappings m set state = 'retired', retired_at = clock_timestamp()
    where m.brand = of_brand and m.product = of_product and m.state = 'active' and m.version <> chosen;
    update hubferry.mappings m set state = 'active', activated_at = clock_timestamp(), retired_at = null
    where m.brand = of_brand and m.product = of_product and m.version = chosen and m.state <> 'active';
    return chosen;
end $$;
