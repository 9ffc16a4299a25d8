-- What the lists of outcomes and of approvals show: rows of each host, as those of sessions. A version only grows.
create table runward.outcomes (
    host text not null references runward.hosts (name),
    id text not null,
    version bigint not null,
    -- Unix seconds, until the year 9999.
    updated_at double precision not null check (updated_at between 0 and 253402300799),
    -- The chain run whose step the session was.
    chain_run text check (length(chain_run) <= 200),
    kind text generated always as (left(body ->> 'kind', 200)) stored,
    body jsonb not null check (jsonb_typeof(body) = 'object' and octet_length(body::text) <= 1048576),
    primary key (host, id)
);
create index outcomes_updated on runward.outcomes (updated_at desc, host, id);
create index outcomes_of_host on runward.outcomes (host, updated_at desc, id);
create index outcomes_of_kind on runward.outcomes (kind, updated_at desc, host, id);

create table runward.approvals (
    host text not null references runward.hosts (name),
    id text not null,
    version bigint not null,
    asked_at double precision not null check (asked_at between 0 and 253402300799),
    body jsonb not null check (jsonb_typeof(body) = 'object' and octet_length(body::text) <= 1048576),
    primary key (host, id)
);
create index approvals_asked on runward.approvals (asked_at, host, id);
