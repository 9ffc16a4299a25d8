-- Every firing, skip and miss of a chain, with its reason.
create table firings (
    id integer primary key,
    chain text not null,
    at real not null,
    fired_by text not null,
    event text not null,
    result text not null check (result like 'firing.%'),
    why text not null,
    run text,
    due_at real
) strict;
create index firings_of on firings (chain, at);
create index firings_by_events on firings (chain, at) where result = 'firing.fired.event';

create trigger firings_never_change before update on firings
begin select raise(abort, 'what became of a firing never changes'); end;

-- When each chain is due next. A schedule without words is gone; one whose timer is empty must be set anew.
create table schedules (
    chain text primary key,
    words text,
    since real not null,
    due real,
    timer text,
    runs integer not null,
    last_due real,
    updated_at real not null
) strict, without rowid;

-- How many chain runs fired one another up to this one, and what it takes turns by.
alter table chain_runs add column depth integer not null default 1;
alter table chain_runs add column turn text;
create index chain_runs_open on chain_runs (chain, created_at) where status in ('running', 'waiting_approval');
