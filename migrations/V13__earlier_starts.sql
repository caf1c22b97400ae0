-- An opt-out whose answer was lost is written again; each time it may have been carried out, so each time has to be remembered.

alter table hubferry.operation_receipts
    -- When the operation was started before, the newest last: its last twenty times.
    add column earlier_starts timestamptz[] not null default '{}' check (cardinality(earlier_starts) <= 20);
