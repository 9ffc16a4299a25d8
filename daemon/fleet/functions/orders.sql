-- An order has values, which concern its origin and its taker alone.
alter table runward.orders enable row level security;
drop policy if exists of_origin_and_taker on runward.orders;
create policy of_origin_and_taker on runward.orders for select using (
    exists (select from runward.hosts own where own.login = session_user and own.name in (origin, taken_by, given_up ->> 'host'))
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
    -- A host that vanishes in the middle of a transaction must not keep what that has locked: neither from its next program, nor from
    -- others. Programs give up after 5 s.
    perform set_config('idle_in_transaction_session_timeout', '10s', true);
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
    if not found then
        -- Nobody orders again what is settled, except from a store that was restored: it no longer knows how that ended.
        update orders set settled_at = null where origin = own and id = of_id and settled_at is not null;
    end if;
    select state into found_state from orders where origin = own and id = of_id;
    return found_state;
end $$;

-- Take the oldest orders that this host may begin, at most so many. What another host is about to take is left out.
create or replace function runward.take_orders(number bigint, most integer) returns setof runward.orders
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare own text := own_name(number);
begin
    -- In an older database, nobody takes anything until all takers have said again what they know.
    perform from identity where known is null or known = identity_here() for share;
    if not found or exists (select waited_for()) or exists (select from unheard where host = own) then
        return;
    end if;
    return query
        with fitting as (
            select open.origin, open.id from orders open join hosts me on me.name = own
            where open.state = 'open'
                and (open.begin_by is null or open.begin_by > clock_timestamp())
                and (open.wanted_host = own or open.wanted_host is null and open.wanted_labels <@ me.labels)
                and not open.declined ? own
                and not open.cancelled
                and not exists (select from unheard where unheard.host = open.origin and not is_left_out)
            order by open.placed_at, open.origin, open.id limit most for update of open skip locked
        )
        update orders taken
            set state = 'taken', taken_by = own, taken_at = clock_timestamp(), takes = taken.takes + 1,
                begun_take = case when (select me.says_begun from hosts me where me.name = own) then taken.begun_take else taken.takes + 1 end
            from fitting where taken.origin = fitting.origin and taken.id = fitting.id
            returning taken.*;
end $$;

-- The taker says that its own store has it that the step begins. That is for the origin, and decides nothing here: so it is never refused.
create or replace function runward.begin_order(number bigint, of_origin text, of_id text, take integer) returns boolean
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare own text := own_name(number);
begin
    update orders set begun_take = take
        where origin = of_origin and id = of_id and state = 'taken' and taken_by = own and takes = take and begun_take is distinct from take;
    return true;
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
    if found then
        return true;
    end if;
    update claims set result = of_result
        where origin = of_origin and id = of_id and host = own and claims.take = end_order.take and (result is null or result = of_result);
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
    -- In an older database, it may have been taken all the same.
    update orders set cancelled = true,
        state = case when state = 'open' and not exists (select waited_for()) then 'withdrawn' else state end
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

-- Have the programs look that a change of an order concerns: the hosts that may take it; its origin, once it is taken, begun or over; its taker,
-- once it is cancelled or given up. Any login of the server may listen to any channel, so nothing of the order is said: each looks for itself.
create or replace function runward.tell_of_order() returns trigger
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
begin
    perform pg_notify('runward_orders_' || host.name, '') from hosts host
        where host.joined_at is not null and host.removed_at is null and case new.state
            when 'open' then not new.declined ? host.name
                and (new.wanted_host = host.name or new.wanted_host is null and new.wanted_labels <@ host.labels)
            when 'taken' then host.name in (new.origin, case when new.cancelled then new.taken_by end)
            else host.name in (new.origin, new.given_up ->> 'host') end;
    return null;
end $$;
create or replace trigger tell_of_placed after insert on runward.orders for each row execute function runward.tell_of_order();
create or replace trigger tell_of_changed after update on runward.orders for each row
    when ((old.state, old.cancelled, old.begun_take) is distinct from (new.state, new.cancelled, new.begun_take)) execute function runward.tell_of_order();

revoke all on all functions in schema runward from public;
