-- What HubSpot reports: each delivery as it came, and each notification once.

-- Writer: the webhook function; deleting only after that.
create table hubferry.webhook_deliveries (
    delivery_id       uuid primary key,
    received_at       timestamptz not null default clock_timestamp() check (isfinite(received_at)),
    headers           jsonb not null check (jsonb_typeof(headers) = 'object'),
    -- The bytes as they came. Absent when every notification was known already, and once they were kept long enough.
    body              bytea,
    body_bytes        integer not null check (body_bytes >= 0),
    -- The app whose secret signed it, where its secrets are listed by app, and which of its secrets that was.
    app_id            bigint,
    secret            text not null check (secret in ('current', 'next')),
    signature_version text not null check (signature_version in ('v1', 'v2', 'v3')),
    notifications     integer not null check (notifications >= 0),
    -- Of these, how many were seen for the first time.
    fresh             integer not null check (fresh between 0 and notifications),
    -- Why nothing of it could be read.
    unreadable        text check (length(unreadable) <= 100)
);

-- Readers: delete_webhook_deliveries (the oldest) and lists by time.
create index webhook_deliveries_received on hubferry.webhook_deliveries (received_at);

-- Reader: forget_webhook_bodies (the oldest that is still there).
create index webhook_deliveries_bodies on hubferry.webhook_deliveries (received_at) where body is not null;

-- Writers: the webhook function inserts; the projection settles what was received.
create table hubferry.webhook_events (
    -- SHA-256 over portal, type, object type, record or both records, property, instant and event number: what makes a
    -- notification the same when it comes again. HubSpot does not promise that its event number alone is unique.
    notification_key  bytea primary key check (length(notification_key) = 32),
    delivery_id       uuid not null references hubferry.webhook_deliveries on delete cascade,
    -- Place in the delivery, from 1.
    position          integer not null check (position > 0),
    received_at       timestamptz not null default clock_timestamp() check (isfinite(received_at)),
    portal_id         bigint,
    app_id            bigint,
    subscription_type text check (length(subscription_type) <= 250),
    object_type       text check (length(object_type) <= 250),
    object_id         bigint check (object_id > 0),
    property_name     text check (length(property_name) <= 250),
    property_value    text,
    occurred_at       timestamptz check (isfinite(occurred_at)),
    event_id          text check (length(event_id) <= 250),
    change_source     text check (length(change_source) <= 250),
    -- Fields of some types only, by HubSpot's names.
    details           jsonb check (jsonb_typeof(details) = 'object'),
    -- The notification's JSON as it came, where it could not be understood.
    raw               text,
    state             text not null default 'received' check (state in
                          ('received', 'quarantined', 'applied', 'superseded', 'ignored', 'echo')),
    -- Why it is quarantined, or was ignored.
    reason            text check (length(reason) <= 100),
    settled_at        timestamptz check (isfinite(settled_at)),
    check (state <> 'quarantined' or reason is not null),
    check (state not in ('received', 'applied') or (portal_id is not null and occurred_at is not null
                                                    and subscription_type is not null and details is not null)),
    check ((state in ('received', 'quarantined')) = (settled_at is null))
) with (fillfactor = 85);

-- Readers: the projection, delete_webhook_deliveries and whoever looks at a delivery.
create index webhook_events_delivery on hubferry.webhook_events (delivery_id, position);

-- Reader: whoever looks for what is not settled, the oldest first.
create index webhook_events_open on hubferry.webhook_events (state, received_at) where settled_at is null;
