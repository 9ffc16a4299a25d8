-- A step may wait: for its next try, or for a person. A try of a step that waits ends once, as any.
create table chain_steps_that_wait (
    run text not null references chain_runs (id),
    step integer not null,
    attempt integer not null,
    status text not null check (status in ('waiting', 'waiting_approval', 'skipped', 'running', 'completed', 'failed',
        'timed_out', 'aborted', 'cancelled')),
    reason_code text,
    reason_summary text,
    value text,
    session_key text,
    outcome text,
    started_at real not null,
    finished_at real,
    primary key (run, step, attempt)
) strict, without rowid;
insert into chain_steps_that_wait select * from chain_steps;
drop table chain_steps;
alter table chain_steps_that_wait rename to chain_steps;
create unique index chain_steps_sessions on chain_steps (session_key) where session_key is not null;

create trigger chain_steps_end_once before update on chain_steps
when old.status not in ('waiting', 'waiting_approval', 'running')
begin select raise(abort, 'a try of a step ends once'); end;

-- Who fired a chain may be kept from approving what it does.
alter table chain_runs add column said_by text not null default '';

-- What people are shown before a step runs, and what they decided: for exactly that, and once.
create table approvals (
    id text primary key,
    run text not null references chain_runs (id),
    step integer not null,
    asked_at real not null,
    expires_at real,
    shown text not null,
    shown_hash text not null,
    status text not null check (status in ('asked', 'approved', 'denied', 'expired', 'changed')),
    decided_at real,
    decided_by text,
    note text
) strict, without rowid;
create index approvals_of on approvals (run);
create index approvals_asked on approvals (asked_at) where status = 'asked';

create trigger approvals_are_decided_once before update on approvals
when old.status <> 'asked' or new.id <> old.id or new.run <> old.run or new.step <> old.step
    or new.shown <> old.shown or new.shown_hash <> old.shown_hash
begin select raise(abort, 'an approval is decided once, for what was shown'); end;

create trigger approvals_are_not_replaced before insert on approvals
when exists (select 1 from approvals where id = new.id)
begin select raise(abort, 'UNIQUE: an approval is asked for once'); end;
