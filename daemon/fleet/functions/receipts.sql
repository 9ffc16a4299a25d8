-- A receipt follows the last one of its segment, and a head is behind the last one.
create or replace function runward.receipt_follows() returns trigger
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
declare last receipts;
begin
    select * into last from receipts where host = new.host and segment = new.segment order by number desc limit 1;
    if new.number <= last.number or new.prev is distinct from last.hash then
        raise exception using errcode = 'RW004', message = format('receipt %s of %s does not follow', new.number, new.host);
    end if;
    return new;
end $$;
create or replace trigger receipts_follow before insert on runward.receipts for each row execute function runward.receipt_follows();

create or replace function runward.head_follows() returns trigger
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
begin
    if new.number <= (select max(number) from heads where host = new.host and segment = new.segment) then
        raise exception using errcode = 'RW004', message = format('head %s of %s does not follow', new.number, new.host);
    end if;
    return new;
end $$;
create or replace trigger heads_follow before insert on runward.heads for each row execute function runward.head_follows();

create or replace function runward.stays() returns trigger
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
begin
    raise exception using errcode = 'RW005', message = format('what %s has is never changed', tg_table_name);
end $$;
create or replace trigger receipts_stay before update or delete or truncate on runward.receipts
    for each statement execute function runward.stays();
create or replace trigger heads_stay before update or delete or truncate on runward.heads
    for each statement execute function runward.stays();

-- The next receipts of a segment, by their numbers. What is there already is left out. Returns whether the segment is the host's.
create or replace function runward.report_receipts(number bigint, of_segment integer, reported jsonb) returns boolean
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
#variable_conflict use_column
declare own text := own_name(report_receipts.number);
begin
    if not exists (select from hosts where name = own and segment = of_segment) then
        return false;
    end if;
    insert into receipts (host, segment, number, hash, prev, session, attempt)
        select own, of_segment, new.number, new.hash, new.prev, new.session, new.attempt
        from jsonb_to_recordset(reported) as new(number bigint, hash text, prev text, session text, attempt integer)
        where not exists (
            select from receipts known
            where known.host = own and known.segment = of_segment and known.number = new.number and known.hash = new.hash
        )
        order by new.number;
    return true;
end $$;

-- The head of the chain of events. Returns whether the segment is the host's.
create or replace function runward.report_head(number bigint, of_segment integer, of_event bigint, of_hash text) returns boolean
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
#variable_conflict use_column
declare own text := own_name(report_head.number);
begin
    if not exists (select from hosts where name = own and segment = of_segment) then
        return false;
    end if;
    insert into heads (host, segment, number, hash) select own, of_segment, of_event, of_hash
        where not exists (
            select from heads known
            where known.host = own and known.segment = of_segment and known.number = of_event and known.hash = of_hash
        );
    return true;
end $$;

-- Begin another chain behind this segment, if that has anything: otherwise it is as new. The earlier one stays as it is. `fleet verify` follows
-- all segments of each host, so a host has at most ten within a day. Returns the segment that is the host's then.
create or replace function runward.begin_segment(behind integer) returns integer
language plpgsql security definer set search_path = pg_catalog, runward, pg_temp as $$
#variable_conflict use_column
declare
    own text;
    its integer;
begin
    select name, segment into own, its from hosts where login = session_user and joined_at is not null for update;
    if its is distinct from behind or not exists (select from receipts where host = own and segment = behind)
        and not exists (select from heads where host = own and segment = behind) then
        return its;
    end if;
    -- What a segment has was reported before the next one began.
    if exists (select from receipts where host = own and segment = behind - 9 and reported_at > clock_timestamp() - interval '1 day')
        or exists (select from heads where host = own and segment = behind - 9 and reported_at > clock_timestamp() - interval '1 day') then
        raise exception using errcode = 'RW006', message = 'this host had ten segments within a day: another one may begin a day later';
    end if;
    update hosts set segment = segment + 1 where name = own returning segment into its;
    return its;
end $$;
