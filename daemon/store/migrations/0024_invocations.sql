-- Invocations: each use of a skill that was ordered. A chain run is one (its root), so is each try of a step of it, and
-- each run of a playbook that a person asked for.
create table invocations (
    id text primary key,
    skill text not null,
    status text not null check (status in ('running', 'completed', 'failed', 'timed_out', 'aborted', 'cancelled')),
    reason_code text,
    session_key text,
    chain_run_id text,
    step_index integer,
    try integer,
    node_metadata text,
    created_at real not null,
    ended_at real,
    check ((status = 'running') = (ended_at is null)),
    check ((step_index is null) = (try is null) and (step_index is null or chain_run_id is not null))
) strict, without rowid;
create unique index invocations_of_steps on invocations (chain_run_id, step_index, try) where step_index is not null;
create unique index invocations_of_chain_runs on invocations (chain_run_id)
where chain_run_id is not null and step_index is null;
create unique index invocations_of_sessions on invocations (session_key) where session_key is not null;
create index invocations_by_time on invocations (created_at);

create trigger invocations_end_once before update on invocations
when old.status <> 'running' or new.id <> old.id or new.skill <> old.skill or new.session_key is not old.session_key
    or new.chain_run_id is not old.chain_run_id or new.step_index is not old.step_index or new.try is not old.try
begin select raise(abort, 'an invocation stays what it is, and ends once'); end;

create trigger invocations_are_not_replaced before insert on invocations
when exists (select 1 from invocations where id = new.id)
begin select raise(abort, 'UNIQUE: an invocation is ordered once'); end;

-- Until now any run could name an invocation, and there were none.
update sessions set invocation_id = null where invocation_id is not null;

-- Chain runs are pruned, and what fired one stays as long as it does.
create index chain_runs_by_event on chain_runs (event);
create index firings_of_runs on firings (run) where run is not null;

-- What a session found out belongs to the invocation that the session was ordered for, and goes with it.
alter table artifacts add column invocation_id text references invocations (id) on delete cascade;
create index artifacts_of_invocations on artifacts (invocation_id) where invocation_id is not null;
