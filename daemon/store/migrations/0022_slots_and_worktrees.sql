-- The steps that have a slot, and those that may wait for one, are found without the others.
create index chain_steps_slots on chain_steps (status) where status in ('running', 'waiting');

-- Worktrees of steps that are over and are not kept: owed until they are removed.
create table worktrees (
    session_key text primary key,
    event integer not null,
    name text not null,
    repo text not null,
    removed_at real,
    note text
) strict;
create index worktrees_owed on worktrees (event) where removed_at is null;

create trigger worktrees_are_removed_once before update on worktrees when old.removed_at is not null
begin select raise(abort, 'a worktree is removed once'); end;
