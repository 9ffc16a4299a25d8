-- What this host accepts: pairs of an origin and an event. The others look which of theirs are meant.
create or replace function runward.hear_events(number bigint, of_origins text[], of_events text[]) returns void
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare own text := own_name(number);
begin
    if cardinality(of_origins) > 10000 then
        raise exception using errcode = '22023', message = 'too many events are accepted';
    end if;
    if (select array_agg((one.origin, one.event)::text order by one.origin collate "C", one.event collate "C")
        from (select distinct * from unnest(of_origins, of_events) as pair(origin, event)) one)
        is not distinct from (select array_agg((known.origin, known.event)::text order by known.origin collate "C", known.event collate "C")
        from hears known where known.host = own) then
        return;
    end if;
    delete from hears known where known.host = own;
    insert into hears (host, origin, event) select distinct own, pair.origin, pair.event
        from unnest(of_origins, of_events) as pair(origin, event);
    perform pg_notify('runward_orders_' || other.name, '') from hosts other
        where other.joined_at is not null and other.removed_at is null and other.name <> own;
end $$;

-- Events of this host, each once. Those that it told more than a week ago go.
create or replace function runward.tell_events(number bigint, told jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare own text := own_name(number);
begin
    delete from events known where known.host = own and known.told_at < clock_timestamp() - interval '7 days';
    insert into events (host, key, name, id, depth, fields)
        select own, new.key, new.name, new.id, new.depth, new.fields
        from rows from (jsonb_to_recordset(told) as (key text, name text, id text, depth integer, fields jsonb)) with ordinality
            as new(key, name, id, depth, fields, place)
        order by new.place on conflict (host, key) do nothing;
end $$;

-- This host begins to read, where it was last; at the first time, with what comes from now on. Returns whether it was away for longer
-- than events are kept.
create or replace function runward.begin_reading_events(number bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare
    own text := own_name(number);
    is_late boolean;
begin
    -- Numbers of transactions that are not given yet are those of another server, from which this database was restored.
    update events known set xid = '0' where known.xid >= pg_snapshot_xmax(pg_current_snapshot());
    if found then
        -- Also hosts that were away, and whose place is a lower number, may not have read these.
        update hosts other set read_xid = '0', read_number = 0 where other.read_xid is not null;
    end if;
    update hosts me set read_xid = '0', read_number = 0
        where me.name = own and me.read_xid > pg_snapshot_xmax(pg_current_snapshot());
    select coalesce(me.read_at < clock_timestamp() - interval '7 days', false) into is_late from hosts me where me.name = own;
    update hosts me set read_xid = coalesce(me.read_xid, pg_snapshot_xmin(pg_current_snapshot())),
        read_number = coalesce(me.read_number, 0), read_at = clock_timestamp() where me.name = own;
    return is_late;
end $$;

-- What this host accepts, in the order in which it can't change any more: at most so many behind the place up to which all is in its
-- inbox (null: that of its last call). A last row, without a host, says where to go on, whether there is more to wait for, and which events
-- others accept from this host.
create or replace function runward.read_events(number bigint, after_xid xid8, after_number bigint, most integer) returns table (
    xid xid8, place bigint, host text, key text, name text, id text, age_s double precision, depth integer, fields text,
    is_more boolean, heard text[]
)
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
#variable_conflict use_column
declare
    own text := own_name(number);
    oldest xid8 := pg_snapshot_xmin(pg_current_snapshot());
    found_rows integer;
    others text[];
begin
    update hosts me set read_xid = coalesce(after_xid, me.read_xid), read_number = coalesce(after_number, me.read_number),
        read_at = clock_timestamp() where me.name = own returning me.read_xid, me.read_number into after_xid, after_number;
    return query
        select known.xid, known.number, known.host, known.key, known.name, known.id,
            extract(epoch from clock_timestamp() - known.told_at)::float8, known.depth, known.fields::text, false, null::text[]
        from events known
        where (known.xid, known.number) > (after_xid, after_number) and known.xid < oldest and known.host <> own
            and exists (select from hears mine where mine.host = own and mine.event = known.name and mine.origin in (known.host, '*'))
        order by known.xid, known.number limit most;
    get diagnostics found_rows = row_count;
    select array_agg(distinct theirs.event) into others from hears theirs join hosts other on other.name = theirs.host
        where theirs.host <> own and theirs.origin in (own, '*') and other.joined_at is not null and other.removed_at is null;
    return query select oldest, 0::bigint, null::text, null::text, null::text, null::text, null::double precision, null::integer, null::text,
        found_rows = most or exists (select from events known where known.xid >= oldest and known.host <> own), others;
end $$;

-- Have the programs look that accept an event.
create or replace function runward.tell_of_event() returns trigger
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
begin
    perform pg_notify('runward_orders_' || theirs.host, '') from hears theirs
        where theirs.event = new.name and theirs.origin in (new.host, '*') and theirs.host <> new.host;
    return null;
end $$;
create or replace trigger tell_of_event after insert on runward.events for each row execute function runward.tell_of_event();
