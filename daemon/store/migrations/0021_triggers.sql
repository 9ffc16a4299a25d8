-- What the composite trigger of each chain has seen: an event is held until the rest happens, or it is too old.
create table held_events (
    id integer primary key,
    chain text not null,
    key text not null,
    at real not null,
    items text not null,
    trigger_hash text not null,
    event text not null,
    event_id text not null,
    fields text not null,
    by_run text,
    unique (chain, key)
) strict;

create trigger held_events_never_change before update on held_events
begin select raise(abort, 'what an event told never changes'); end;

-- What expressions see of the event that fired a chain run.
alter table chain_runs add column cause text;
create trigger chain_runs_keep_their_cause before update of cause on chain_runs
begin select raise(abort, 'what fired a chain run never changes'); end;

-- The files whose changes fire chains: which globs are watched, and how each file was when it was told of last.
create table watched_globs (
    glob text primary key,
    since real not null
) strict, without rowid;

create table watched_files (
    glob text not null,
    path text not null,
    signature text not null,
    primary key (glob, path)
) strict, without rowid;
