-- The plays of shows, with the fields of their `_meta.json`; `further` are those that have no column. A show is its plays.
create table plays (
    session_key text primary key references sessions (key),
    show text not null,
    topic text not null,
    name text not null,
    status text,
    agent text,
    model text,
    started_at real,
    finished_at real,
    depends_on text not null,
    further text,
    created_at real not null,
    updated_at real not null
) strict, without rowid;
create index plays_of_shows on plays (show);

create view shows as
select show as path, topic, count(*) as plays, min(created_at) as created_at, max(updated_at) as updated_at
from plays group by show;
