-- A fleet of format 1, as programs of that format made it: its tables, then its functions. Never changed: `fleet upgrade` brings it to
-- the newest format, beside programs that know no other.
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
-- The orders of a fleet: one row for each step that one host wants another one to run. Only the state of the row decides who may
-- begin: taking is atomic, is the permission to begin, and never expires. Hosts change orders through the functions below
-- alone. Each begins with the fence, and each may be called again with the same words: that changes nothing.
create table runward.orders (
    origin text not null references runward.hosts (name),
    -- Of the origin's choice: it names the step, so the same step is ordered once.
    id text not null check (length(id) between 1 and 200),
    -- The host that is wanted, or labels that it must have.
    wanted_host text check (length(wanted_host) between 1 and 32),
    wanted_labels text[] not null check (octet_length(array_to_string(wanted_labels, '')) <= 4096),
    skill text not null check (length(skill) between 1 and 200),
    body jsonb not null check (jsonb_typeof(body) = 'object' and octet_length(body::text) <= 1048576),
    placed_at timestamptz not null default clock_timestamp(),
    begin_by timestamptz,
    state text not null default 'open' check (state in ('open', 'taken', 'ended', 'declined', 'withdrawn')),
    cancelled boolean not null default false,
    -- Counts the takes, so that what is said of one can't be meant for another.
    takes integer not null default 0,
    taken_by text references runward.hosts (name),
    taken_at timestamptz,
    -- Why each host that had taken it never will begin it, by its name.
    declined jsonb not null default '{}' check (octet_length(declined::text) <= 1048576),
    result jsonb check (octet_length(result::text) <= 1048576),
    ended_at timestamptz,
    settled_at timestamptz,
    primary key (origin, id),
    check ((wanted_host is null) = (cardinality(wanted_labels) > 0)),
    check ((taken_by is not null) = (state in ('taken', 'ended'))),
    check ((result is not null) = (state = 'ended'))
);
create index orders_open on runward.orders (placed_at, origin, id) where state = 'open';
create index orders_placed on runward.orders (placed_at desc, origin, id);
create index orders_taken on runward.orders (taken_by, taken_at) where state = 'taken';
create index orders_unsettled on runward.orders (origin, placed_at) where settled_at is null;
-- The one use of an invitation.
create or replace function runward.join_fleet() returns void
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
begin
    update hosts set joined_at = clock_timestamp() where login = session_user and joined_at is null;
    if not found then
        raise exception using errcode = 'RW001', message = 'the invitation was used';
    end if;
end $$;

-- A program begins to report. Its number fences out those that connected before it.
create or replace function runward.greet(of_epoch bigint, of_program text) returns bigint
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
create or replace function runward.heard(number bigint, still_owes bigint, its_problems text[]) returns void
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
begin
    update hosts set last_seen = clock_timestamp(), owes = still_owes, problems = its_problems
        where login = session_user and connections = number;
    if not found then
        raise exception using errcode = 'RW003', message = 'another program reports for this host';
    end if;
end $$;

-- Sessions as they are now. One without a body is no longer recorded.
create or replace function runward.report_sessions(reported jsonb) returns void
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
-- An order has values, which concern its origin and its taker alone.
alter table runward.orders enable row level security;
drop policy if exists of_origin_and_taker on runward.orders;
create policy of_origin_and_taker on runward.orders for select using (
    exists (select from runward.hosts own where own.login = session_user and own.name in (origin, taken_by))
);

-- The name of the host that calls, if this is the program that connected last. Until the end of the transaction no other one
-- can connect, so an earlier program is done with all that it began.
create or replace function runward.own_name(number bigint) returns text
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare own text;
begin
    select name into own from hosts where login = session_user and joined_at is not null and connections = number for share;
    if not found then
        raise exception using errcode = 'RW003', message = 'another program reports for this host';
    end if;
    return own;
end $$;

-- Order a step. Returns the state of the order, which may have been placed before.
create or replace function runward.place_order(
    number bigint, of_id text, host text, labels text[], of_skill text, of_body jsonb, begin_within_s double precision
) returns text
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare
    own text := own_name(number);
    found_state text;
begin
    insert into orders (origin, id, wanted_host, wanted_labels, skill, body, begin_by)
        values (own, of_id, host, labels, of_skill, of_body, clock_timestamp() + make_interval(secs => begin_within_s))
        on conflict (origin, id) do nothing;
    select state into found_state from orders where origin = own and id = of_id;
    return found_state;
end $$;

-- Take the oldest orders that this host may begin, at most so many. What another host is about to take is left out.
create or replace function runward.take_orders(number bigint, most integer) returns setof runward.orders
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare own text := own_name(number);
begin
    return query
        with fitting as (
            select open.origin, open.id from orders open join hosts me on me.name = own
            where open.state = 'open'
                and (open.begin_by is null or open.begin_by > clock_timestamp())
                and (open.wanted_host = own or open.wanted_host is null and open.wanted_labels <@ me.labels)
                and not open.declined ? own
            order by open.placed_at, open.origin, open.id limit most for update of open skip locked
        )
        update orders taken
            set state = 'taken', taken_by = own, taken_at = clock_timestamp(), takes = taken.takes + 1
            from fitting where taken.origin = fitting.origin and taken.id = fitting.id
            returning taken.*;
end $$;

-- The taker says that it will never begin the order, which its own store must know by then. Another host that is wanted may
-- take it now; if there is none, it is declined. Returns whether it is given back.
create or replace function runward.give_back(number bigint, of_origin text, of_id text, take integer, reason text) returns boolean
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare
    own text := own_name(number);
    its orders;
    refused jsonb;
begin
    select * into its from orders where origin = of_origin and id = of_id for update;
    if its.state is distinct from 'taken' or its.taken_by <> own or its.takes <> take then
        return coalesce(its.declined ? own, false);
    end if;
    refused := its.declined || jsonb_build_object(own, reason);
    update orders set taken_by = null, taken_at = null, declined = refused, state = case
        when its.cancelled then 'withdrawn'
        when its.wanted_host is null and exists (
            select from hosts other
            where other.joined_at is not null and other.removed_at is null and its.wanted_labels <@ other.labels and not refused ? other.name
        ) then 'open'
        else 'declined' end
        where origin = of_origin and id = of_id;
    return true;
end $$;

-- The taker says how it ended. Returns whether this is the result.
create or replace function runward.end_order(number bigint, of_origin text, of_id text, take integer, of_result jsonb) returns boolean
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare own text := own_name(number);
begin
    update orders set state = 'ended', result = of_result, ended_at = clock_timestamp()
        where origin = of_origin and id = of_id and state = 'taken' and taken_by = own and takes = take;
    return found or exists (
        select from orders
        where origin = of_origin and id = of_id and state = 'ended' and taken_by = own and takes = take and result = of_result
    );
end $$;

-- The origin no longer wants it. Open, it is withdrawn; taken, its taker is told never to begin it, or to end it. Returns the state.
create or replace function runward.cancel_order(number bigint, of_id text) returns text
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare
    own text := own_name(number);
    its_state text;
begin
    update orders set cancelled = true, state = case state when 'open' then 'withdrawn' else state end
        where origin = own and id = of_id and state in ('open', 'taken');
    select state into its_state from orders where origin = own and id = of_id;
    return its_state;
end $$;

-- The origin has recorded how it ended. Returns whether that is so.
create or replace function runward.settle_order(number bigint, of_id text) returns boolean
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare own text := own_name(number);
begin
    update orders set settled_at = clock_timestamp()
        where origin = own and id = of_id and state in ('ended', 'declined', 'withdrawn') and settled_at is null;
    return found or exists (select from orders where origin = own and id = of_id and settled_at is not null);
end $$;

-- Have the programs look that a change of an order concerns: the hosts that may take it; its origin, once it is taken or over; its taker,
-- once it is cancelled. Any login of the server may listen to any channel, so nothing of the order is said: each looks for itself.
create or replace function runward.tell_of_order() returns trigger
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
begin
    perform pg_notify('runward_orders_' || host.name, '') from hosts host
        where host.joined_at is not null and host.removed_at is null and case new.state
            when 'open' then not new.declined ? host.name
                and (new.wanted_host = host.name or new.wanted_host is null and new.wanted_labels <@ host.labels)
            when 'taken' then host.name in (new.origin, case when new.cancelled then new.taken_by end)
            else host.name = new.origin end;
    return null;
end $$;
create or replace trigger tell_of_placed after insert on runward.orders for each row execute function runward.tell_of_order();
create or replace trigger tell_of_changed after update on runward.orders for each row
    when ((old.state, old.cancelled) is distinct from (new.state, new.cancelled)) execute function runward.tell_of_order();

revoke all on all functions in schema runward from public;
