-- The road of a finished run: events, jobs, sessions, what is owed to the world, and why.
-- Times are Unix seconds. Every table is STRICT; the guarantees that matter are the database's own.

create table daemon (
    id integer primary key check (id = 1),
    epoch integer not null
) strict;
insert into daemon (id, epoch) values (1, 0);

create table roots (
    name text primary key,
    path text not null,
    layout text not null,
    first_seen_at real not null
) strict, without rowid;

-- One hash chain: hash = sha256 over the previous hash and this row's own facts.
create table events (
    seq integer primary key,
    key text not null unique,
    type text not null,
    version integer not null,
    lane text not null,
    at real not null,
    recorded_at real not null,
    cause text,
    depth integer not null default 0 check (depth between 0 and 32),
    payload text not null,
    hash text not null
) strict;
create trigger events_are_facts before update on events
begin select raise(abort, 'an event is never changed'); end;

-- One job for each handler of an event: id = 32 * event + the handler's place in the route.
create table jobs (
    id integer primary key,
    event integer not null references events (seq),
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
create index jobs_open on jobs (lane, id) where state in ('waiting', 'held');
create index jobs_running on jobs (epoch) where state = 'running';

create table sessions (
    key text primary key,
    session_id text not null,
    layout text not null,
    root text not null,
    path text not null,
    kind text not null,
    status text not null
        check (status in ('running', 'completed', 'failed', 'timed_out', 'aborted', 'cancelled')),
    attempt integer not null,
    origin text not null check (origin in ('live', 'history')),
    started_at real not null,
    finished_at real,
    ended_by text check (ended_by in ('declared', 'process_gone', 'deadline', 'quiet')),
    reason_code text not null,
    reason_summary text not null,
    evidence_refs text not null,
    playbook text,
    agent text,
    invocation_id text,
    containment text,
    artifacts_path text not null,
    artifact_contract_json text,
    contract_basis text check (contract_basis in ('launcher', 'hook', 'first_look', 'late')),
    contract_problem text,
    artifact_verification_json text,
    delivery text check (delivery in ('passed', 'partial', 'missing', 'invalid'))
) strict;
create index sessions_started on sessions (started_at);
create trigger sessions_keep_their_contract before update of artifact_contract_json, contract_basis on sessions
when old.artifact_contract_json is not new.artifact_contract_json or old.contract_basis is not new.contract_basis
begin select raise(abort, 'a contract never changes after it was snapshotted'); end;

create table attempts (
    session_key text not null references sessions (key),
    attempt integer not null,
    started_at real not null,
    status text not null,
    ended_by text,
    reason_code text,
    ended_at real,
    primary key (session_key, attempt)
) strict, without rowid;
create trigger attempts_end_once before update on attempts when old.ended_by is not null
begin select raise(abort, 'an attempt ends once'); end;

create table status_history (
    id integer primary key,
    session_key text not null references sessions (key),
    attempt integer not null,
    at real not null,
    replaced text,
    status text not null,
    reason_code text not null,
    reason_summary text not null,
    evidence_refs text not null,
    source text not null
) strict;
create index status_history_of on status_history (session_key);

create table decisions (
    id integer primary key,
    event integer not null references events (seq),
    handler text not null,
    subject text not null,
    at real not null,
    verdict text not null check (verdict in ('decided', 'refused')),
    summary text not null,
    known text
) strict;
create index decisions_about on decisions (subject);

-- What the world is owed: bytes for a journal. Small, for a row goes when its line is synced.
create table outbox (
    id integer primary key,
    event integer not null references events (seq),
    directory text not null,
    name text not null,
    live integer not null,
    content blob not null
) strict;

-- Our lines in the journals: where each stands, or why it never will.
create table journal_lines (
    id integer primary key,
    event integer not null,
    directory text not null,
    name text not null,
    "offset" integer,
    length integer not null,
    hash text not null,
    why text
) strict;
create index journal_lines_of on journal_lines (directory, name);

create table cursors (
    key text primary key,
    root text not null,
    directory text not null,
    session_key text not null,
    phase text not null,
    state text not null
) strict;
create index cursors_open on cursors (root) where phase = 'open';

create table problems (
    path text not null,
    line integer,
    message text not null,
    mend text,
    since real not null
) strict;
create index problems_of on problems (path);
