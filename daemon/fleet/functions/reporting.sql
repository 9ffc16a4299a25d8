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
    update hosts set connections = connections + 1, epoch = of_epoch, program = of_program, last_seen = clock_timestamp(),
            says_begun = false
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
