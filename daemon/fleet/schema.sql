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

-- The one use of an invitation.
create function runward.join_fleet() returns void
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
begin
    update hosts set joined_at = clock_timestamp() where login = session_user and joined_at is null;
    if not found then
        raise exception using errcode = 'RW001', message = 'the invitation was used';
    end if;
end $$;

-- A program begins to report. Its number fences out those that connected before it.
create function runward.greet(of_epoch bigint, of_program text) returns bigint
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare number bigint;
begin
    update hosts set connections = connections + 1, epoch = of_epoch, program = of_program, last_seen = clock_timestamp()
        where login = session_user and joined_at is not null and epoch <= of_epoch returning connections into number;
    if not found then
        raise exception using errcode = 'RW002', message = 'the fleet knows a newer record of this host';
    end if;
    return number;
end $$;

-- A sign of life, and the first statement of each report: it refuses all but the program that connected last.
create function runward.heard(number bigint, still_owes bigint, its_problems text[]) returns void
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
begin
    update hosts set last_seen = clock_timestamp(), owes = still_owes, problems = its_problems
        where login = session_user and connections = number;
    if not found then
        raise exception using errcode = 'RW003', message = 'another program reports for this host';
    end if;
end $$;

-- Sessions as they are now. One without a body is no longer recorded.
create function runward.report_sessions(reported jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
begin
    insert into sessions as known (host, key, version, started_at, body)
        select own.name, new.key, new.version, new.started_at, new.body
        from jsonb_to_recordset(reported) as new(key text, version bigint, started_at double precision, body jsonb)
        join hosts own on own.login = session_user
        where new.body is not null
        on conflict (host, key) do update
            set version = excluded.version, started_at = excluded.started_at, body = excluded.body
            where known.version <= excluded.version;
    delete from sessions known
        using jsonb_to_recordset(reported) as new(key text, version bigint, body jsonb), hosts own
        where own.login = session_user and known.host = own.name and known.key = new.key and new.body is null
            and known.version <= new.version;
end $$;

revoke all on all functions in schema runward from public;
