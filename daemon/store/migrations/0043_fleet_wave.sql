-- A step may want any host that has labels: then it names none, and `labels` has them, as a list in JSON.
create table remote_steps_of_labels (
    id text primary key,
    run text not null,
    step integer not null,
    attempt integer not null,
    host text,
    labels text not null default '[]',
    skill text not null,
    body text not null,
    begin_within real,
    placed_at real not null,
    wanted text not null check (wanted in ('placed', 'cancelled', 'settled')),
    check ((host is null) = (labels <> '[]'))
) strict;
insert into remote_steps_of_labels (id, run, step, attempt, host, skill, body, begin_within, placed_at, wanted)
    select id, run, step, attempt, host, skill, body, begin_within, placed_at, wanted from remote_steps;
drop table remote_steps;
alter table remote_steps_of_labels rename to remote_steps;

-- The outbox takes whatever a host owes to its fleet: each kind is named where its rows are noted. Its versions only grow, also over
-- this change.
create table fleet_owed (
    version integer primary key autoincrement,
    kind text not null,
    subject text not null,
    unique (kind, subject)
) strict;
insert into fleet_owed (version, kind, subject) select version, kind, subject from fleet_outbox;
delete from sqlite_sequence where name = 'fleet_owed';
insert into sqlite_sequence (name, seq) select 'fleet_owed', seq from sqlite_sequence where name = 'fleet_outbox';
drop table fleet_outbox;
alter table fleet_owed rename to fleet_outbox;

-- Events of this host that others accept, until the fleet has them. `depth` is that of the chain run behind one.
create table fleet_events (
    key text primary key,
    at real not null,
    name text not null,
    id text not null,
    fields text not null,
    depth integer not null
) strict;
create index fleet_events_at on fleet_events (at);

-- The names of the events that other hosts accept from this one, as the fleet said last: a list, in JSON.
alter table fleet_reporting add column heard text not null default '[]';

-- How many chain runs on other hosts fired one another in a row before an event that is held.
alter table held_events add column depth integer not null default 0;

-- How many chain runs fired one another in a row before an order that was taken.
alter table orders_taken add column depth integer not null default 0;
