-- Steps of chain runs of this host that another host shall run. A row is there until its order is settled in the fleet's
-- database. `wanted` is what the row there shall become.
create table remote_steps (
    id text primary key,
    run text not null,
    step integer not null,
    attempt integer not null,
    host text not null,
    skill text not null,
    body text not null,
    begin_within real,
    placed_at real not null,
    wanted text not null check (wanted in ('placed', 'cancelled', 'settled'))
) strict;

-- What this host did with orders of other hosts that it took: one row for each take. `why` says why it never begins one,
-- `result` how it ended.
create table orders_taken (
    origin text not null,
    id text not null,
    take integer not null,
    state text not null check (state in ('begun', 'declined', 'ended')),
    session_key text,
    why text,
    result text,
    taken_at real not null,
    primary key (origin, id, take),
    check ((session_key is null) = (state = 'declined')),
    check ((why is null) = (state <> 'declined')),
    check ((result is null) = (state <> 'ended'))
) strict;
create index orders_taken_sessions on orders_taken (session_key) where session_key is not null;
create index orders_taken_begun on orders_taken (origin, id) where state = 'begun';

-- The outbox has them, too. Its versions only grow, also over this change.
create table fleet_owed (
    version integer primary key autoincrement,
    kind text not null check (kind in ('session', 'order', 'taken')),
    subject text not null,
    unique (kind, subject)
) strict;
insert into fleet_owed (version, kind, subject) select version, kind, subject from fleet_outbox;
delete from sqlite_sequence where name = 'fleet_owed';
insert into sqlite_sequence (name, seq) select 'fleet_owed', seq from sqlite_sequence where name = 'fleet_outbox';
drop table fleet_outbox;
alter table fleet_owed rename to fleet_outbox;
