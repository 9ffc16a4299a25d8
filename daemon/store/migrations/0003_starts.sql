-- Runs that the daemon starts: each once for its key, owed until its launcher said that it began.
-- `directory` is its run's, `effect` the StartRun as JSON; `state` failed means that it never will begin, and `why`.

create table starts (
    key text primary key,
    event integer not null references events (seq),
    session_key text not null,
    name text not null,
    directory text not null,
    effect text not null,
    state text not null check (state in ('owed', 'begun', 'failed')),
    why text,
    ended_at real,
    check ((state = 'owed') = (ended_at is null))
) strict;
create index starts_owed on starts (event) where state = 'owed';
create index starts_of on starts (session_key);
create index starts_called on starts (name);
create trigger starts_begin_once before update on starts when old.state <> 'owed'
begin select raise(abort, 'a run is started once'); end;
