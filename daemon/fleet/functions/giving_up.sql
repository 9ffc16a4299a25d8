-- A person says that the taker of an order will not come back. It can't end the order any more, nor give it to others; nobody takes it.
-- Only the host that ordered it may say so, and who administers the fleet. A person's command has no number of a program, so there is no
-- fence: the row's lock keeps this apart from the taker's own word. Returns the state; 'given_up' if that is so now, null without such an order.
create or replace function runward.give_up_order(of_origin text, of_id text, of_note text) returns text
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare
    own text;
    its orders;
begin
    select name into own from hosts where login = session_user and joined_at is not null;
    if own is distinct from of_origin and not pg_has_role(session_user, (select nspowner from pg_namespace where nspname = 'runward'), 'member') then
        raise exception using errcode = '42501', message = 'only its origin, or who administers the fleet, may give up an order';
    end if;
    if of_note is null or length(of_note) not between 1 and 1000 then
        raise exception using errcode = '22023', message = 'a note has 1 to 1000 characters';
    end if;
    select * into its from orders where origin = of_origin and id = of_id for update;
    if not found then
        return null;
    end if;
    if its.state = 'taken' then
        update orders set state = 'declined', taken_by = null, taken_at = null, given_up = jsonb_build_object(
                'host', its.taken_by, 'take', its.takes, 'by', coalesce(own, session_user::text), 'note', of_note,
                'at', extract(epoch from clock_timestamp()))
            where origin = of_origin and id = of_id;
        return 'given_up';
    end if;
    return case when its.given_up is null then its.state else 'given_up' end;
end $$;
