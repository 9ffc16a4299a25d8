-- A sign of life, and where this host has something to look for: an idle host says little more than this. `words` name parts of its
-- program, `changes` counts all changes of orders, and `is_older` says that hosts still have to say again what they know. Programs that
-- give this sign say when a step begins.
create or replace function runward.pulse(number bigint, still_owes bigint, its_problems text[])
returns table (words text[], changes bigint, is_older boolean)
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare
    own text;
    found_words text[] := '{}';
begin
    own := own_name(number);
    update hosts set last_seen = clock_timestamp(), owes = still_owes, problems = its_problems, says_begun = true where name = own;
    if exists (select from orders o where o.origin = own and o.settled_at is null and o.state <> 'open')
        or exists (select from orders o where o.taken_by = own and o.state = 'taken')
        or exists (select from orders o where o.state = 'open') then
        found_words := found_words || 'orders'::text;
    end if;
    return query select found_words, (select coalesce(sum(h.changes), 0)::bigint from hosts h), exists (select from unheard);
end $$;
