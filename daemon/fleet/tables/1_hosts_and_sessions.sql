-- What the hosts of a fleet share. Each host has a login of its own. It may read all of this, and writes through the functions
-- below alone: they know by `session_user` whose rows they may touch. The fixed `search_path` of each keeps the temporary
-- tables of a host from standing in for ours.
create schema runward;

create table runward.format (
    version integer not null,
    -- The oldest format whose programs may write.
    oldest_writer integer not null
);
insert into runward.format (version, oldest_writer) values (1, 1);

create table runward.hosts (
    name text primary key,
    login name not null unique,
    labels text[] not null,
    invited_at timestamptz not null default clock_timestamp(),
    joined_at timestamptz,
    -- Its login is gone since then, and its name never comes again.
    removed_at timestamptz,
    -- The program that may report: the last one that connected, and the epoch of its daemon.
    connections bigint not null default 0,
    epoch bigint not null default 0,
    program text check (length(program) <= 100),
    last_seen timestamptz,
    owes bigint not null default 0,
    problems text[] not null default '{}' check (octet_length(array_to_string(problems, '')) <= 65536)
);

create table runward.sessions (
    host text not null references runward.hosts (name),
    key text not null,
    -- Only grows: what was read of the store earlier never replaces what was read later.
    version bigint not null,
    -- Unix seconds, until the year 9999: what else a host says is not a time that another could show.
    started_at double precision not null check (started_at between 0 and 253402300799),
    -- What lists filter by. An index takes no longer ones.
    status text generated always as (left(body ->> 'status', 200)) stored,
    layout text generated always as (left(body ->> 'layout', 200)) stored,
    root text generated always as (left(body ->> 'root', 200)) stored,
    playbook text generated always as (left(body ->> 'playbook', 200)) stored,
    agent text generated always as (left(body ->> 'agent', 200)) stored,
    body jsonb not null check (jsonb_typeof(body) = 'object' and octet_length(body::text) <= 1048576),
    primary key (host, key)
);
create index sessions_started on runward.sessions (started_at desc, host, key);
-- For each filter that may match few sessions, the order of lists within one of its values.
create index sessions_of_host on runward.sessions (host, started_at desc, key);
create index sessions_of_status on runward.sessions (status, started_at desc, host, key);
create index sessions_of_playbook on runward.sessions (playbook, started_at desc, host, key);
create index sessions_of_agent on runward.sessions (agent, started_at desc, host, key);
