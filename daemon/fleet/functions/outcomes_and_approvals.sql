-- Outcomes as they are now. One without a body is no longer recorded.
create or replace function runward.report_outcomes(number bigint, reported jsonb) returns boolean
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare own text := own_name(number);
begin
    insert into outcomes as known (host, id, version, updated_at, chain_run, body)
        select own, new.id, new.version, new.at, new.chain_run, new.body
        from jsonb_to_recordset(reported) as new(id text, version bigint, at double precision, chain_run text, body jsonb)
        where new.body is not null
        on conflict (host, id) do update
            set version = excluded.version, updated_at = excluded.updated_at, chain_run = excluded.chain_run, body = excluded.body
            where known.version <= excluded.version;
    delete from outcomes known using jsonb_to_recordset(reported) as new(id text, version bigint, body jsonb)
        where known.host = own and known.id = new.id and new.body is null and known.version <= new.version;
    return true;
end $$;

-- Approvals that wait for a person. One without a body waits no longer.
create or replace function runward.report_approvals(number bigint, reported jsonb) returns boolean
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare own text := own_name(number);
begin
    insert into approvals as known (host, id, version, asked_at, body)
        select own, new.id, new.version, new.at, new.body
        from jsonb_to_recordset(reported) as new(id text, version bigint, at double precision, body jsonb)
        where new.body is not null
        on conflict (host, id) do update
            set version = excluded.version, asked_at = excluded.asked_at, body = excluded.body
            where known.version <= excluded.version;
    delete from approvals known using jsonb_to_recordset(reported) as new(id text, version bigint, body jsonb)
        where known.host = own and known.id = new.id and new.body is null and known.version <= new.version;
    return true;
end $$;
