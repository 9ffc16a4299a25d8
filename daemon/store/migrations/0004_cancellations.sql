-- Runs that a person wants ended: what is owed while `carried_out_at` is null, then what came of it.
create table cancellations (
    event integer primary key references events (seq),
    session_key text not null references sessions (key),
    attempt integer not null,
    directory text not null,
    processes text not null,
    said_by text not null,
    reason text not null,
    carried_out_at real,
    told integer check (told in (0, 1)),
    outcome text
) strict;
create index cancellations_owed on cancellations (event) where carried_out_at is null;
create index cancellations_of on cancellations (session_key, attempt);
