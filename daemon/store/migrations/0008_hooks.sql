-- What the hook of a session said last, by the session's key; the session itself may not be known yet. `ancestors` are
-- the processes that it ran under, `[[pid, start_ticks, boot_id], …]`, the nearest first; the agent is one of them.
create table hooks (
    session_key text primary key,
    at real not null,
    kind text not null check (kind in ('started', 'prompted', 'turn_ended', 'turn_failed', 'ended')),
    ancestors text not null,
    launcher_session text,
    declared text -- what was declared for the session at its first prompt: HookDeclaration as JSON
) strict, without rowid;
