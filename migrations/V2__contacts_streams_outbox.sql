-- What was decided, what is under way, and what HubSpot is known to hold.
--
-- No row here has two writers. An application may hold its transaction open after accepting; it then holds locks on
-- contacts and subscription_streams, and nothing that a worker has to write. So a slow application never holds up a batch.

-- Writer: accepting.
create table hubferry.contacts (
    contact_key    text primary key check (contact_key ~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$'),
    email          text not null check (length(email) between 3 and 254),
    -- The key was made up by us, because the application gave none: then the address finds the contact again.
    keyed_by_email boolean not null default false,
    properties     jsonb not null default '{}' check (jsonb_typeof(properties) = 'object'),
    created_at     timestamptz not null default clock_timestamp(),
    updated_at     timestamptz not null default clock_timestamp(),
    erased_at      timestamptz
);

-- Reader: accept_subscriptions, for requests without a contact key.
create index contacts_email on hubferry.contacts (email) where erased_at is null;

-- Reader: accept_subscriptions, so that two first requests for one address at once make one contact.
create unique index contacts_keyed_by_email on hubferry.contacts (email) where keyed_by_email and erased_at is null;

-- Writer: accepting. One row per contact x brand x product.
create table hubferry.subscription_streams (
    stream_id     bigint generated always as identity primary key,
    contact_key   text not null references hubferry.contacts,
    brand         text not null,
    product       text not null,
    last_sequence bigint not null default 0 check (last_sequence >= 0),
    created_at    timestamptz not null default clock_timestamp(),
    updated_at    timestamptz not null default clock_timestamp(),
    unique (contact_key, brand, product),
    foreign key (brand, product) references hubferry.products
);

-- Writer: accepting. The receipt.
create table hubferry.subscription_requests (
    request_id      uuid primary key,
    brand           text not null references hubferry.brands,
    idempotency_key text not null check (length(idempotency_key) between 1 and 255),
    request_hash    bytea not null check (length(request_hash) = 32),
    stream_id       bigint not null references hubferry.subscription_streams,
    event_id        uuid not null,
    sequence        bigint not null check (sequence > 0),
    desired_state   text not null check (desired_state in ('subscribed', 'unsubscribed')),
    mapping_version integer not null,
    accepted_at     timestamptz not null default clock_timestamp(),
    unique (brand, idempotency_key)
);

-- Writers: accepting inserts; from then on dispatcher, worker and reconciler, each under its lease.
create table hubferry.outbox_events (
    event_id           uuid primary key,
    kind               text not null check (kind ~ '^[a-z0-9.-]{1,100}$'),
    stream_id          bigint references hubferry.subscription_streams,
    sequence           bigint check (sequence > 0),
    portal_id          bigint not null references hubferry.portals,
    brand              text not null references hubferry.brands,
    lane               text not null check (lane in ('interactive', 'bulk', 'inbound', 'effects')),
    payload            jsonb not null check (jsonb_typeof(payload) = 'object'),
    dedupe_key         text,
    traceparent        text check (length(traceparent) <= 55),
    status             text not null default 'pending' check (status in
                           ('pending', 'publishing', 'queued', 'processing', 'retry', 'synced', 'superseded', 'dead', 'cancelled')),
    publish_attempts   integer not null default 0 check (publish_attempts >= 0),
    process_attempts   integer not null default 0 check (process_attempts >= 0),
    next_attempt_at    timestamptz not null default clock_timestamp() check (isfinite(next_attempt_at)),
    lease_token        uuid,
    lease_expires_at   timestamptz check (isfinite(lease_expires_at)),
    sqs_message_id     text check (length(sqs_message_id) <= 100),
    last_error_code    text check (length(last_error_code) <= 100),
    last_error_summary text check (length(last_error_summary) <= 500),
    created_at         timestamptz not null default clock_timestamp() check (isfinite(created_at)),
    queued_at          timestamptz check (isfinite(queued_at)),
    finished_at        timestamptz check (isfinite(finished_at)),
    check ((stream_id is null) = (sequence is null)),
    check ((lease_token is null) = (lease_expires_at is null)),
    check ((status in ('publishing', 'processing')) = (lease_token is not null)),
    check ((status in ('synced', 'superseded', 'dead', 'cancelled')) = (finished_at is not null)),
    check (status <> 'queued' or queued_at is not null),
    check (status <> 'dead' or last_error_code is not null)
) with (fillfactor = 80);

-- Reader: claim_due, portal by portal and lane by lane.
create index outbox_events_due on hubferry.outbox_events (portal_id, lane, next_attempt_at) where status in ('pending', 'retry');

-- Reader: rescue_expired.
create index outbox_events_leased on hubferry.outbox_events (lease_expires_at) where status in ('publishing', 'processing');

-- Reader: claim_due, which counts what is under way before it adds bulk work.
create index outbox_events_under_way on hubferry.outbox_events (portal_id, lane) where status in ('publishing', 'queued', 'processing');

-- Reader: republish_orphans.
create index outbox_events_queued on hubferry.outbox_events (queued_at) where status = 'queued';

-- Reader: status_counts, which counts what is not finished.
create index outbox_events_unfinished on hubferry.outbox_events (status, created_at) where finished_at is null;

-- Readers: status_counts (the last hour) and pruning (the oldest).
create index outbox_events_finished on hubferry.outbox_events (finished_at, status) where finished_at is not null;

-- Reader: status_counts, which lists what a person has to look at.
create index outbox_events_dead on hubferry.outbox_events (last_error_code) where status = 'dead';

-- Reader: the guard itself: one event a sequence of a stream.
create unique index outbox_events_stream on hubferry.outbox_events (stream_id, sequence) where stream_id is not null;

-- Reader: the guard itself: one event a dedupe key of a kind.
create unique index outbox_events_dedupe on hubferry.outbox_events (kind, dedupe_key) where dedupe_key is not null;

-- Writer: the worker. Where a contact is in a portal, and who may write it there now: one HubSpot record, one writer,
-- however many streams the contact has.
create table hubferry.contact_links (
    portal_id        bigint not null references hubferry.portals,
    contact_key      text not null references hubferry.contacts,
    record_id        bigint check (record_id > 0),
    linked_at        timestamptz,
    lease_token      uuid,
    lease_expires_at timestamptz check (isfinite(lease_expires_at)),
    primary key (portal_id, contact_key),
    check ((record_id is null) = (linked_at is null)),
    check ((lease_token is null) = (lease_expires_at is null))
) with (fillfactor = 70);

-- Writer: the worker. What HubSpot holds by our own doing; it only moves forward.
create table hubferry.applied_states (
    stream_id        bigint primary key references hubferry.subscription_streams,
    applied_sequence bigint not null check (applied_sequence > 0),
    applied_state    text not null check (applied_state in ('subscribed', 'unsubscribed')),
    event_id         uuid not null,
    applied_at       timestamptz not null default clock_timestamp()
) with (fillfactor = 80);

-- Writer: the worker. A `done` receipt skips its operation when the event comes round again.
create table hubferry.operation_receipts (
    event_id       uuid not null references hubferry.outbox_events on delete cascade,
    operation_key  text not null check (length(operation_key) between 1 and 200),
    portal_id      bigint not null,
    contact_key    text not null,
    desired_hash   bytea not null check (length(desired_hash) = 32),
    status         text not null check (status in ('started', 'done', 'refused')),
    record_id      bigint,
    correlation_id text check (length(correlation_id) <= 200),
    attempts       integer not null default 1 check (attempts > 0),
    started_at     timestamptz not null default clock_timestamp(),
    finished_at    timestamptz,
    -- When HubSpot says the change happened: tells our own opt-outs from those of a person.
    remote_at      timestamptz,
    primary key (event_id, operation_key),
    check ((status = 'started') = (finished_at is null))
);

-- Reader: own_opt_outs, which asks whether an opt-out found in HubSpot is one that we wrote.
create index operation_receipts_opt_outs on hubferry.operation_receipts (portal_id, contact_key, operation_key)
    where operation_key like 'status:%:unsubscribed';
