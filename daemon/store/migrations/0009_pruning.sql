-- Pruning: what belongs to sessions that ended long ago goes, and a tombstone stays.

-- An event can only go quickly if nobody needs to be searched for its number: a job's number says its event's, and
-- decisions are found by their subject, so these two don't refer to `events` any more.
alter table jobs rename to jobs_before;
drop index jobs_open;
drop index jobs_running;
create table jobs (
    id integer primary key,
    event integer not null,
    handler text not null,
    lane text not null,
    state text not null check (state in ('waiting', 'running', 'done', 'held', 'discarded')),
    run_after real not null default 0,
    token text,
    epoch integer not null,
    tries integer not null default 0,
    error text,
    updated_at real not null,
    check (id / 32 = event)
) strict;
insert into jobs select * from jobs_before;
drop table jobs_before;
create index jobs_open on jobs (lane, id) where state in ('waiting', 'held');
create index jobs_running on jobs (epoch) where state = 'running';
create trigger jobs_have_an_event before insert on jobs when not exists (select 1 from events where seq = new.event)
begin select raise(abort, 'FOREIGN KEY: a job belongs to an event that is there'); end;

alter table decisions rename to decisions_before;
drop index decisions_about;
create table decisions (
    id integer primary key,
    event integer not null,
    handler text not null,
    subject text not null,
    at real not null,
    verdict text not null check (verdict in ('decided', 'refused')),
    summary text not null,
    known text
) strict;
insert into decisions select * from decisions_before;
drop table decisions_before;
create index decisions_about on decisions (subject);

create index uncompared_of on uncompared (session_key);
create index starts_by_event on starts (event);

-- What came through the inbox has keys that tell no session.
create index events_asked on events (lane) where type in ('HookSpoke', 'JobDiscardRequested', 'JobRetryRequested',
    'PlayRunRequested', 'PruneRequested', 'ScanRequested', 'SessionCancelRequested');

-- A session whose record was pruned: its attempts up to this one, the number and hash of its last event, and as JSON
-- what a further attempt goes on from.
create table tombstones (
    session_key text primary key,
    session_id text not null,
    status text not null,
    attempt integer not null,
    started_at real not null,
    finished_at real not null,
    event integer not null,
    hash text not null check (length(hash) = 64),
    pruned_at real not null,
    kept text not null
) strict, without rowid;
create index tombstones_called on tombstones (session_id);

-- Each unbroken stretch of events that are gone, with the hash of its last one: the next event follows from that.
create table absent_events (
    last integer primary key,
    first integer not null check (first <= last),
    hash text not null check (length(hash) = 64)
) strict;

create trigger events_are_not_pruned_twice before insert on events
when exists (
    select 1 from tombstones where session_key = new.lane and substr(new.key, 1, length(new.lane) + 1) = new.lane || '#'
    and cast(substr(new.key, length(new.lane) + 2) as integer) between 1 and attempt
)
begin select raise(abort, 'an event of a pruned attempt is known already'); end;

-- What people asked to be pruned: sessions that ended before a moment; owed while `ended_at` is null.
create table prunings (
    event integer primary key,
    before real not null,
    said_by text not null,
    sessions integer not null default 0,
    ended_at real
) strict;
create index prunings_owed on prunings (event) where ended_at is null;
