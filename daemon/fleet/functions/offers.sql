-- All that this host accepts from others, in place of what it said before, and how many steps of others it runs at once. The hosts
-- that order steps are told.
create or replace function runward.report_offers(number bigint, of_slots integer, offered jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare own text := own_name(number);
begin
    if jsonb_array_length(offered) > 2000 then
        raise exception using errcode = '54000', message = 'these are more than 2000 offers';
    end if;
    update hosts set slots = of_slots where name = own;
    delete from skills where host = own;
    insert into skills (host, kind, name, hash, accepted_from)
        select own, new.kind, new.name, new.hash, new.accepted_from
        from jsonb_to_recordset(offered) as new(kind text, name text, hash text, accepted_from text[]);
    perform pg_notify('runward_offers', '');
end $$;
