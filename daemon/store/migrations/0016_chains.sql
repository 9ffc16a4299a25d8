-- Chain runs: what was fired, with the definition that it keeps to its end, and how each of its steps stands.
create table chains (
    name text primary key,
    status text not null check (status in ('active', 'paused', 'disabled')),
    since real not null,
    note text not null,
    said_by text not null
) strict, without rowid;

create table chain_runs (
    id text primary key,
    chain text not null,
    event integer not null,
    fired_by text not null,
    definition text not null,
    trigger_event text not null,
    status text not null check (status in ('running', 'completed', 'failed', 'timed_out', 'aborted', 'cancelled',
        'waiting_approval')),
    reason_code text not null,
    reason_summary text not null,
    current_step integer not null,
    created_at real not null,
    updated_at real not null,
    deadline real,
    unique (chain, fired_by)
) strict, without rowid;
create index chain_runs_of on chain_runs (chain, created_at);
create index chain_runs_by_time on chain_runs (created_at);

create trigger chain_runs_end_once before update on chain_runs
when old.status not in ('running', 'waiting_approval')
begin select raise(abort, 'a chain run ends once'); end;

create trigger chain_runs_keep_what_fired_them before update of id, chain, fired_by, definition, trigger_event on chain_runs
begin select raise(abort, 'what fired a chain run, and its definition, never change'); end;

create trigger chain_runs_are_not_replaced before insert on chain_runs
when exists (select 1 from chain_runs where id = new.id or (chain = new.chain and fired_by = new.fired_by))
begin select raise(abort, 'UNIQUE: an event fires a chain once'); end;

create table chain_steps (
    run text not null references chain_runs (id),
    step integer not null,
    attempt integer not null,
    status text not null check (status in ('skipped', 'running', 'completed', 'failed', 'timed_out', 'aborted',
        'cancelled')),
    reason_code text,
    reason_summary text,
    value text,
    session_key text,
    outcome text,
    started_at real not null,
    finished_at real,
    primary key (run, step, attempt)
) strict, without rowid;
create unique index chain_steps_sessions on chain_steps (session_key) where session_key is not null;

create trigger chain_steps_end_once before update on chain_steps when old.status <> 'running'
begin select raise(abort, 'a try of a step ends once'); end;

-- What came through the inbox is found without a list of the types of events: its key is not of its lane.
drop index events_asked;
create index events_asked on events (lane) where substr(key, 1, length(lane) + 1) <> lane || '#';

-- A start that a restore gave up is owed, with the reason, until the daemon says so. What began keeps for good that its
-- directory was gone before anybody looked into it.
drop trigger starts_begin_once;
create trigger starts_begin_once before update on starts
when old.state <> 'owed' and not (old.state = 'begun' and new.state = 'begun' and old.why is null and new.why is not null
    and (new.key, new.event, new.session_key, new.name, new.directory, new.effect, new.ended_at)
        = (old.key, old.event, old.session_key, old.name, old.directory, old.effect, old.ended_at))
begin select raise(abort, 'a run is started once'); end;
