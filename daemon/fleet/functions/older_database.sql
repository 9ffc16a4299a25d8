-- Which database this is: of which cluster, on which of its timelines, which one there, and since when the orders are in it. A restored dump
-- has other numbers, and a promoted replica another timeline. A copy of all files has the same: for that, changes are counted.
create or replace function runward.identity_here() returns text
language sql stable security definer set search_path = pg_catalog, runward, pg_temp as $$
    select cluster.system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8) || '/' || own.oid || '/' || 'orders'::regclass::oid
    from pg_control_system() cluster, pg_database own where own.datname = current_database()
$$;

-- The hosts that have to say again what they know before anybody takes an order.
create or replace function runward.waited_for() returns setof text
language sql stable security definer set search_path = pg_catalog, runward, pg_temp as $$
    select u.host from unheard u left join hosts h on h.name = u.host
    where u.may_have_taken and not u.is_left_out and h.removed_at is null order by u.host
$$;

-- Whether the database is older than was known to it, or to this host. One that still has to say again what it knows finds nothing new.
create or replace function runward.is_older(own text, seen_identity text, seen jsonb) returns boolean
language sql security definer set search_path = pg_catalog, runward, pg_temp as $$
    select exists (select from identity where known <> identity_here())
        or not exists (select from unheard where host = own) and (
            seen_identity <> identity_here()
            or exists (
                select from jsonb_each(seen) left join hosts on name = key where name is null or hosts.changes < value::bigint
            ))
$$;

-- A host compares what it remembers of the fleet with what is here. If the database is older, all hosts have to say again what they
-- know. Returns since when this one has to, for whom all wait, and what it shall remember.
create or replace function runward.compare_record(
    number bigint, takes_orders boolean, store_restored bigint, store_reached bigint, seen_identity text, seen jsonb
) returns table (here text, since text, waits_for text[], changes jsonb)
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
#variable_conflict use_column
declare
    own text := own_name(number);
    me hosts;
begin
    select * into me from hosts where name = own;
    if (me.accepts, me.restored, me.reached) is distinct from (takes_orders, store_restored, store_reached) then
        -- A store that was restored, or is a copy of what it was earlier, may know nothing of what this host took since then.
        if store_restored > me.restored or store_reached < me.reached then
            update orders set doubted = true where taken_by = own and state = 'taken';
        end if;
        update hosts set accepts = takes_orders, restored = store_restored, reached = store_reached where name = own;
    end if;
    if is_older(own, seen_identity, seen) then
        -- Takes that began earlier are over from here on, and further ones find what is written.
        perform from identity for update;
        if is_older(own, seen_identity, seen) then
            insert into unheard (host, may_have_taken)
                select name, accepts from hosts where joined_at is not null and removed_at is null order by name
                on conflict (host) do update
                    set since = excluded.since, may_have_taken = excluded.may_have_taken, is_left_out = false;
            update identity set known = identity_here();
        end if;
    end if;
    update identity set known = identity_here() where known is null;
    if exists (select from unheard where host = own) then
        -- Who did something of which nothing is known here may have taken orders. It may not even be a host here.
        insert into unheard as one (host, may_have_taken)
            select key, true from jsonb_each(seen) left join hosts on name = key
                where key <> own and length(key) <= 32 and (
                    name is null or removed_at is null and hosts.changes < value::bigint
                        and exists (select from unheard other where other.host = key))
                order by key limit 1000
            on conflict (host) do update set may_have_taken = true where not one.may_have_taken;
        update orders set doubted = true where taken_by = own and state = 'taken' and not doubted;
    end if;
    return query select
        identity_here(),
        (select u.since::text from unheard u where u.host = own),
        array(select waited_for()),
        (select jsonb_object_agg(h.name, h.changes) from hosts h);
end $$;

-- Whether a host may take an order, judging by what its origin wants and who declined it.
create or replace function runward.is_for(wanted runward.orders, host runward.hosts) returns boolean
language sql immutable security definer set search_path = pg_catalog, runward, pg_temp as $$
    select not wanted.declined ? host.name
        and (wanted.wanted_host = host.name or wanted.wanted_host is null and wanted.wanted_labels <@ host.labels)
$$;

-- A host says again that it took an order. Returns what the row says by then, 'claimed' if the order is not known yet or its earlier
-- taker has still to be heard, or 'lost' if it is somebody else's.
create or replace function runward.took_order(number bigint, of_origin text, of_id text, its_take integer) returns text
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare
    own text := own_name(number);
    its orders;
begin
    select * into its from orders where origin = of_origin and id = of_id for update;
    if its.taken_by = own and its.takes = its_take then
        update orders set doubted = false where origin = of_origin and id = of_id and doubted;
        delete from claims where origin = of_origin and id = of_id;
        return its.state;
    end if;
    -- No order is taken a million times. A higher number could leave none for the takes that come after it.
    if not exists (select from unheard where host = own) or its.state = 'ended' or its.given_up is not null or its.takes >= its_take
        or its_take > 1000000
        or its.taken_by is not null and not its.doubted and not exists (select from unheard where host = its.taken_by) then
        return 'lost';
    end if;
    insert into claims as other (origin, id, host, take) values (of_origin, of_id, own, its_take)
        on conflict (origin, id) do update set host = own, take = its_take, result = null where other.take < its_take;
    perform leave_to_claims(its.taken_by) where its.taken_by is not null and not exists (select from unheard where host = its.taken_by);
    -- Has the trigger look for the claim.
    update orders set state = state where origin = of_origin and id = of_id and state in ('open', 'withdrawn', 'declined');
    return coalesce(
        (select state from orders where origin = of_origin and id = of_id and taken_by = own and takes = its_take), 'claimed');
end $$;

-- What a taker that has said all again knows nothing of is that of the host with a later take.
create or replace function runward.leave_to_claims(taker text) returns void
language sql security definer set search_path = pg_catalog, runward, pg_temp as $$
    update orders o set state = 'open', taken_by = null, taken_at = null, doubted = false from claims c, hosts h
        where o.taken_by = taker and o.state = 'taken' and o.doubted and not exists (select from unheard where host = taker)
            and c.origin = o.origin and c.id = o.id and c.take > o.takes and h.name = c.host and is_for(o, h)
$$;

-- An order that nobody has is that of the host that says that it took it since: its take is a later one, and it could take it.
create or replace function runward.heed_claim() returns trigger
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare claim claims;
begin
    delete from claims c using hosts h
        where c.origin = new.origin and c.id = new.id and c.take > new.takes and h.name = c.host and is_for(new, h)
        returning c.* into claim;
    if found then
        update orders set taken_by = claim.host, takes = claim.take, taken_at = clock_timestamp(), doubted = false,
            state = case when claim.result is null then 'taken' else 'ended' end,
            result = claim.result, ended_at = case when claim.result is null then null else clock_timestamp() end
            where origin = new.origin and id = new.id;
    end if;
    return null;
end $$;
create or replace trigger heed_claim after insert or update on runward.orders for each row
    when (new.state in ('open', 'withdrawn', 'declined') and new.given_up is null) execute function runward.heed_claim();

-- An origin says which of its orders it still waits for. Of the others it knows how they ended.
create or replace function runward.still_wanted(number bigint, its_orders text[]) returns void
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare own text := own_name(number);
begin
    update orders set cancelled = true, settled_at = clock_timestamp()
        where origin = own and settled_at is null and id <> all(its_orders) and exists (select from unheard where host = own);
end $$;

-- The host has said again all that it took and ordered. What it does not know of its takes stays doubted, unless a later taker is known.
create or replace function runward.said_again(number bigint) returns void
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare own text := own_name(number);
begin
    perform from identity for update;
    delete from unheard where host = own;
    perform leave_to_claims(own);
    perform take_on();
end $$;

-- If nobody is waited for any more: what was cancelled meanwhile can't have begun, and all may take again.
create or replace function runward.take_on() returns void
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
begin
    if not exists (select waited_for()) then
        update orders set state = 'withdrawn' where state = 'open' and cancelled;
        perform pg_notify('runward_orders_' || name, '') from hosts where joined_at is not null and removed_at is null;
    end if;
end $$;

-- Counts the changes of orders by each host. Nobody else raises its count, so a lower one is always that of an older database.
create or replace function runward.count_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
begin
    update hosts set changes = changes + 1 where login = session_user and exists (select from changed);
    return null;
end $$;
create or replace trigger count_placed after insert on runward.orders referencing new table as changed
    for each statement execute function runward.count_change();
create or replace trigger count_changed after update on runward.orders referencing new table as changed
    for each statement execute function runward.count_change();
