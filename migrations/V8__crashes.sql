-- A worker that does not come back may have died of one of its events. How often an event was among those it held tells of which.

alter table hubferry.outbox_events
    -- Times that a worker held the event and did not come back. Each of them is an attempt too.
    add column crashes integer not null default 0 check (crashes >= 0);
