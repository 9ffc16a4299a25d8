-- What this host owes to its fleet: which sessions changed. What is told of one is read when it is delivered. The daemon's
-- connection writes this by temporary triggers while it has a fleet, and a row goes once the fleet has it. `version` only grows.
create table fleet_outbox (
    version integer primary key autoincrement,
    kind text not null check (kind in ('session')),
    subject text not null,
    unique (kind, subject)
) strict;

-- Since when nothing went unnoticed: under which epoch the triggers were there, and what is reported where. Sessions that
-- changed before are owed, too. `walked` is the last one up to which they are, null once all are.
create table fleet_reporting (
    id integer primary key check (id = 1),
    epoch integer not null,
    reported_as text not null,
    walked text
) strict;
