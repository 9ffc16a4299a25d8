-- The schema of version 31: stores of earlier versions are refused. What came later is in further files.

create table daemon (
    id integer primary key check (id = 1),
    epoch integer not null
, stopped_cleanly integer not null default 1, boot_id text not null default '', settled integer not null default 0, settling integer not null default 0, settling_at real not null default 0, clock_boot_id text not null default '', clock_ahead real, clock_at real) strict;
insert into daemon (id, epoch) values (1, 0);

create table roots (
    name text primary key,
    path text not null,
    layout text not null,
    first_seen_at real not null
, identity text) strict, without rowid;

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
, folded integer not null default 0 check (folded in (0, 1)), packed integer not null default 0 check (packed in (0, 1))) strict;
create index sessions_started on sessions (started_at);

create table attempts (
    session_key text not null references sessions (key),
    attempt integer not null,
    started_at real not null,
    status text not null,
    ended_by text,
    reason_code text,
    ended_at real, produced text,
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

create table cursors (
    key text primary key,
    root text not null,
    directory text not null,
    session_key text not null,
    phase text not null,
    state text not null
, activity text check (activity in ('active', 'idle', 'waiting'))) strict;
create index cursors_open on cursors (root) where phase = 'open';

create table problems (
    path text not null,
    line integer,
    message text not null,
    mend text,
    since real not null
) strict;
create index problems_of on problems (path);

-- `insert or replace` would put another session in its place; it fires this with recursive_triggers on.

create trigger sessions_are_not_replaced before delete on sessions
when exists (select 1 from attempts where session_key = old.key)
begin select raise(abort, 'a session with attempts is neither deleted nor replaced'); end;

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
, timeout real) strict;
create index cancellations_owed on cancellations (event) where carried_out_at is null;
create index cancellations_of on cancellations (session_key, attempt);

-- Our lines in the journals: where each stands, or why it never will.

create table journal_lines (
    id integer primary key,
    event integer generated always as (id / 256) virtual,
    directory text not null,
    name text not null,
    live integer not null,
    content blob, -- null only where it was written before contents were kept
    "offset" integer,
    places text, -- JSON [[offset, length], …] where the lines don't stand in one piece
    why text,
    check (content is not null or "offset" is not null or why is not null)
) strict;
create index journal_lines_owed on journal_lines (id) where "offset" is null and why is null;

create trigger journal_lines_keep_their_content before update of id, directory, name, content on journal_lines
begin select raise(abort, 'what was to be written is never changed'); end;

-- Journals that get no further lines before they were compared with what the store says of them.

create table uncompared (
    directory text not null,
    name text not null,
    session_key text not null,
    primary key (directory, name)
) strict, without rowid;

-- The hash of each produced file, or why it has none. Size and time are of what was hashed, which differs from
-- what was verified where the problem is `changed`; without a hash they are what was verified.

create table files (
    session_key text not null,
    attempt integer not null,
    id text not null,
    path text not null,
    size integer not null,
    modified_ns integer not null,
    sha256 text check (length(sha256) = 64),
    problem text check (problem in ('gone', 'empty', 'not_regular', 'outside', 'denied', 'unreadable', 'changing',
        'changed', 'too_large')),
    hashed_at real not null,
    primary key (session_key, attempt, id),
    foreign key (session_key, attempt) references attempts (session_key, attempt),
    check ((sha256 is null) = (problem is not null and problem <> 'changed'))
) strict, without rowid;

create trigger files_are_facts before update on files
begin select raise(abort, 'what was recorded of a file is never changed'); end;

-- Where files of sessions were seen: `place` is relative to the root. `signature` ([inode, size, mtime in ns]) is that of
-- the file as it was read to its end, null where it is to be looked at again; `session_key` is null for what is no session.

create table places (
    key text primary key,
    root text not null,
    place text not null,
    session_key text,
    signature text
) strict, without rowid;
create index places_in on places (root);
create index places_of on places (session_key);

-- Sessions that were started inside a launcher's run, by that run's session id.

create table links (
    linked text primary key,
    launcher text not null
) strict, without rowid;
create index links_of on links (launcher);

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

-- One job for each handler of an event: id = 32 * event + the handler's place in the route.

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
create index jobs_open on jobs (lane, id) where state in ('waiting', 'held');
create index jobs_running on jobs (epoch) where state = 'running';

create trigger jobs_have_an_event before insert on jobs when not exists (select 1 from events where seq = new.event)
begin select raise(abort, 'FOREIGN KEY: a job belongs to an event that is there'); end;

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
create index decisions_about on decisions (subject);
create index uncompared_of on uncompared (session_key);
create index starts_by_event on starts (event);

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

-- Each restore of this store: when, the end of the chain that the backup had, and the epoch that it began.

create table restores (
    id integer primary key,
    at real not null,
    head_seq integer not null,
    head_hash text not null,
    epoch integer not null
) strict;

-- Lines that stood in their journal already when this store, restored, came to owe them: `content` is what stands
-- there. It says the same as the row of this number in journal_lines, under the hash of an event that is gone.

create table adopted_lines (
    id integer primary key,
    content blob not null
) strict;

-- What the world is owed.

create view outbox as select id, event, directory, name, live,
    coalesce((select a.content from adopted_lines a where a.id = l.id), l.content) as content
from journal_lines l where "offset" is null and why is null;

-- `document` is what `packed_document.py` says; the rows that it stands for are gone from their tables. `recorded_at` is
-- when the session's last event was recorded.

create table packed (
    session_key text primary key,
    recorded_at real not null,
    document blob not null
) strict;

-- What may be packed next, the longest over first.
create index sessions_unpacked on sessions (finished_at) where packed = 0 and finished_at is not null;

-- People know a session by its id.
create index sessions_called on sessions (session_id);

-- How many sessions have each status, so that nobody has to count them.

create table session_counts (
    status text primary key,
    sessions integer not null
) strict, without rowid;

create trigger sessions_counted after insert on sessions
begin
    insert into session_counts values (new.status, 1) on conflict (status) do update set sessions = sessions + 1;
end;

create trigger sessions_recounted after update of status on sessions when old.status is not new.status
begin
    update session_counts set sessions = sessions - 1 where status = old.status;
    insert into session_counts values (new.status, 1) on conflict (status) do update set sessions = sessions + 1;
end;

create trigger sessions_uncounted after delete on sessions
begin
    update session_counts set sessions = sessions - 1 where status = old.status;
end;

create table launches (
    id text primary key,
    session_key text not null,
    at real not null,
    seal text not null,
    contract_json text,
    timeout real,
    grace real,
    launcher text not null,
    process text not null
) strict;
create index launches_of_sessions on launches (session_key, at);

create trigger launches_are_facts before update on launches
begin select raise(abort, 'a launch is never changed'); end;

create trigger sessions_keep_their_contract
before update of artifact_contract_json, contract_basis, folded on sessions
when (
    old.artifact_contract_json is not new.artifact_contract_json
    or old.contract_basis is not new.contract_basis
    or old.folded is not new.folded
)
and not (
    old.folded is new.folded
    and new.contract_basis is iif(new.artifact_contract_json is null, null, 'launcher')
    and exists (
        select 1 from launches
        where session_key = new.key and contract_json is new.artifact_contract_json
    )
)
and not (
    old.folded = 0 and new.folded = 1
    and old.status = 'running' and old.attempt = 1 and old.origin = 'live'
    and exists (select 1 from attempts where session_key = old.key and attempt = 1 and ended_by is null)
    and not exists (select 1 from attempts where session_key = old.key and attempt > 1)
    and (new.contract_basis is null) = (new.artifact_contract_json is null)
    and (old.artifact_contract_json is null or old.contract_basis is new.contract_basis)
    and (old.artifact_contract_json is null or new.artifact_contract_json is not null)
    and (
        new.artifact_contract_json is null
        or (
            json_remove(new.artifact_contract_json, '$.expected') = '{}'
            and json_type(new.artifact_contract_json, '$.expected') = 'array'
        )
    )
    and not exists (
        select 1
        from json_each(old.artifact_contract_json, '$.expected') was
        left join json_each(new.artifact_contract_json, '$.expected') now on now.key = was.key
        where now.value is not was.value
    )
    and not exists (
        select 1 from json_each(new.artifact_contract_json, '$.expected') added
        where added.key >= coalesce(json_array_length(old.artifact_contract_json, '$.expected'), 0)
        and added.value ->> '$.source' is not 'role_default'
    )
)
begin select raise(abort, 'a contract never changes, but for the one fold of a flow and for what a launcher recorded'); end;

-- Jobs that are due later: the next one is found by its time, and what waits costs nothing until then.
create index jobs_due on jobs (run_after) where state in ('waiting', 'held');

-- `insert or replace` deletes the row that is there, and fires neither its update nor its delete triggers.
-- So a fact that stands is guarded on the way in as well.

create trigger events_are_not_replaced before insert on events
when exists (select 1 from events where seq = new.seq or key = new.key)
begin select raise(abort, 'UNIQUE: an event is never replaced'); end;

create trigger sessions_are_not_replaced_by_inserting before insert on sessions
when exists (select 1 from sessions where key = new.key)
begin select raise(abort, 'UNIQUE: a session is never replaced'); end;

create trigger attempts_are_not_replaced before insert on attempts
when exists (select 1 from attempts where session_key = new.session_key and attempt = new.attempt)
begin select raise(abort, 'UNIQUE: an attempt is never replaced'); end;

create trigger status_history_is_not_replaced before insert on status_history
when exists (select 1 from status_history where id = new.id)
begin select raise(abort, 'UNIQUE: a change of status is never replaced'); end;

create trigger decisions_are_not_replaced before insert on decisions
when exists (select 1 from decisions where id = new.id)
begin select raise(abort, 'UNIQUE: a decision is never replaced'); end;

create trigger files_are_not_replaced before insert on files
when exists (select 1 from files where session_key = new.session_key and attempt = new.attempt and id = new.id)
begin select raise(abort, 'UNIQUE: what was recorded of a file is never replaced'); end;

create trigger journal_lines_are_not_replaced before insert on journal_lines
when exists (select 1 from journal_lines where id = new.id)
begin select raise(abort, 'UNIQUE: what was to be written is never replaced'); end;

create trigger starts_are_not_replaced before insert on starts
when exists (select 1 from starts where key = new.key)
begin select raise(abort, 'UNIQUE: a run is started once'); end;

create trigger launches_are_not_replaced before insert on launches
when exists (select 1 from launches where id = new.id)
begin select raise(abort, 'UNIQUE: a launch is never replaced'); end;

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
    deadline real, said_by text not null default '', depth integer not null default 1, turn text, cause text,
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

-- What came through the inbox has keys that tell no session.
create index events_asked on events (lane) where substr(key, 1, length(lane) + 1) <> lane || '#';

create trigger starts_begin_once before update on starts
when old.state <> 'owed' and not (old.state = 'begun' and new.state = 'begun' and old.why is null and new.why is not null
    and (new.key, new.event, new.session_key, new.name, new.directory, new.effect, new.ended_at)
        = (old.key, old.event, old.session_key, old.name, old.directory, old.effect, old.ended_at))
begin select raise(abort, 'a run is started once'); end;

create table "chain_steps" (
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
create unique index chain_steps_sessions on chain_steps (session_key) where session_key is not null;

create trigger chain_steps_end_once before update on chain_steps
when old.status not in ('waiting', 'waiting_approval', 'running')
begin select raise(abort, 'a try of a step ends once'); end;

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

-- Every firing, skip and miss of a chain, with its reason.

create table firings (
    id integer primary key,
    chain text not null,
    at real not null,
    fired_by text not null,
    event text not null,
    result text not null check (result like 'firing.%'),
    why text not null,
    run text,
    due_at real
) strict;
create index firings_of on firings (chain, at);
create index firings_by_events on firings (chain, at) where result = 'firing.fired.event';

create trigger firings_never_change before update on firings
begin select raise(abort, 'what became of a firing never changes'); end;

-- When each chain is due next. A schedule without words is gone; one whose timer is empty must be set anew.

create table schedules (
    chain text primary key,
    words text,
    since real not null,
    due real,
    timer text,
    runs integer not null,
    last_due real,
    updated_at real not null
) strict, without rowid;
create index chain_runs_open on chain_runs (chain, created_at) where status in ('running', 'waiting_approval');

-- What sessions found out. A session has one outcome of a kind and name: a later one takes its content, and keeps the id.

create table artifacts (
    id text primary key,
    session_key text not null references sessions (key),
    kind text not null,
    name text not null,
    content text,
    summary text,
    passed integer check (passed in (0, 1)),
    file_path text,
    is_known integer not null check (is_known in (0, 1)),
    place integer not null,
    created_at real not null,
    updated_at real not null, invocation_id text references invocations (id) on delete cascade, is_provisional integer not null default 0 check (is_provisional in (0, 1)), names_file integer not null default 0 check (names_file in (0, 1)), file_sha256 text check (length(file_sha256) = 64), file_size integer check (file_size > 0), file_problem text check (file_problem is null or file_sha256 is null),
    unique (session_key, kind, name)
) strict, without rowid;
create index artifacts_by_time on artifacts (created_at);
create index artifacts_of_kind on artifacts (kind, created_at);

create trigger artifacts_keep_whose_they_are before update of id, session_key, kind, name, created_at on artifacts
begin select raise(abort, 'an outcome stays what it is of'); end;

-- What people outside are told, each until it is delivered or given up.

create table notices (
    id text primary key,
    kind text not null,
    subject text not null,
    recipient text not null,
    title text not null,
    text text not null,
    created_at real not null,
    state text not null default 'pending' check (state in ('pending', 'delivered', 'dead')),
    tries integer not null default 0,
    next_at real not null,
    since real not null,
    error text,
    settled_at real,
    check ((state = 'pending') = (settled_at is null))
) strict, without rowid;
create index notices_pending on notices (next_at) where state = 'pending';
create index notices_settled on notices (settled_at) where state <> 'pending';

create trigger notices_stay_delivered before update on notices when old.state = 'delivered'
begin select raise(abort, 'a notice is delivered once'); end;

-- What the composite trigger of each chain has seen: an event is held until the rest happens, or it is too old.

create table held_events (
    id integer primary key,
    chain text not null,
    key text not null,
    at real not null,
    items text not null,
    trigger_hash text not null,
    event text not null,
    event_id text not null,
    fields text not null,
    by_run text,
    unique (chain, key)
) strict;

create trigger held_events_never_change before update on held_events
begin select raise(abort, 'what an event told never changes'); end;

create trigger chain_runs_keep_their_cause before update of cause on chain_runs
begin select raise(abort, 'what fired a chain run never changes'); end;

-- The files whose changes fire chains: which globs are watched, and how each file was when it was told of last.

create table watched_globs (
    glob text primary key,
    since real not null
) strict, without rowid;

create table watched_files (
    glob text not null,
    path text not null,
    signature text not null,
    primary key (glob, path)
) strict, without rowid;

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

-- The receipts of what sessions did: one for each attempt, and one chain in the order in which they were recorded.
-- parts: JSON [[name, size, sha256, temporary name], …]. facts: JSON, what the parts are rendered from beside the session's files.
-- summary: JSON, what PR_SUMMARY.md says.
-- problem: why there is no receipt where there is none, else what is wrong with it.

create table receipts (
    seq integer primary key,
    session_key text not null,
    attempt integer not null,
    receipt_hash text,
    prev text,
    directory text not null,
    parts text not null,
    facts text not null,
    summary text,
    problem text,
    recorded_at real not null,
    placed_at real,
    place_problem text,
    unique (session_key, attempt),
    check (receipt_hash is not null or problem is not null),
    check (receipt_hash is not null or prev is null)
) strict;
create index receipts_to_place on receipts (seq) where placed_at is null;

create trigger receipts_form_a_chain before insert on receipts
when new.receipt_hash is not null
    and new.prev is not (select receipt_hash from receipts where receipt_hash is not null order by seq desc limit 1)
begin select raise(abort, 'a receipt follows the one before it'); end;

create trigger receipts_are_facts
before update of seq, session_key, attempt, receipt_hash, prev, directory, parts, facts, summary, problem, recorded_at on receipts
begin select raise(abort, 'a receipt is never changed'); end;

create trigger receipts_are_placed_once before update of placed_at, place_problem on receipts when old.placed_at is not null
begin select raise(abort, 'a receipt is placed once'); end;

create trigger receipts_are_not_replaced before insert on receipts
when exists (select 1 from receipts where seq = new.seq or (session_key = new.session_key and attempt = new.attempt))
begin select raise(abort, 'UNIQUE: a receipt is never replaced'); end;

create trigger receipts_stay before delete on receipts
begin select raise(abort, 'a receipt is never deleted'); end;

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

-- Chain runs are pruned, and what fired one stays as long as it does.
create index chain_runs_by_event on chain_runs (event);
create index firings_of_runs on firings (run) where run is not null;
create index artifacts_of_invocations on artifacts (invocation_id) where invocation_id is not null;

create table principals (
    id text primary key not null,
    created_at real not null,
    users text not null,                    -- JSON: the users that may act as it beside the daemon's
    disk_quota integer not null,
    disk_used integer not null check (disk_used >= 0),
    cpu_seconds real,                       -- in each window; null: no limit
    version integer not null
) strict;

create table contents (
    hash text primary key not null,         -- sha256 of the text
    content text not null
) strict;

create table shared_artifacts (
    id text primary key not null,
    type text not null,
    content text not null references contents (hash),
    code text not null references contents (hash),
    owner_id text not null,
    created_at real not null,
    updated_at real not null,
    executable integer not null check (executable in (0, 1)),
    price integer not null,
    policy text,
    deleted_at real,
    deleted_by text,
    interface text,
    depends_on text not null,
    has_standing integer not null check (has_standing in (0, 1)),
    can_execute integer not null check (can_execute in (0, 1)),
    memory_artifact_id text,
    access_contract_id text,
    version integer not null
) strict;
create index shared_artifacts_owner on shared_artifacts (owner_id);

create table artifact_versions (
    id text not null,
    version integer not null,
    at real not null,
    owner_id text not null,
    content text not null references contents (hash),
    code text not null references contents (hash),
    primary key (id, version)
) strict;

create table ledger_entries (
    seq integer primary key,
    at real not null,
    action text not null,                   -- the key of what asked for it
    giver text not null,
    taker text not null,
    resource text not null,
    amount integer not null check (amount > 0),  -- units of scrip, millionths of other resources
    reason text not null
) strict;
create index ledger_entries_giver on ledger_entries (giver);
create index ledger_entries_taker on ledger_entries (taker);

create table balances (
    account text not null,
    resource text not null,
    amount integer not null check (amount >= 0 or account = 'mint'),
    primary key (account, resource)
) strict;

-- Each entry moves what it says; nothing else does.

create trigger ledger_entries_move after insert on ledger_entries begin
    insert or ignore into balances (account, resource, amount) values (new.giver, new.resource, 0);
    insert or ignore into balances (account, resource, amount) values (new.taker, new.resource, 0);
    update balances set amount = amount - new.amount where account = new.giver and resource = new.resource;
    update balances set amount = amount + new.amount where account = new.taker and resource = new.resource;
end;

create trigger ledger_entries_stay before update on ledger_entries begin
    select raise(abort, 'an entry of the ledger is never changed');
end;

create trigger ledger_entries_last before delete on ledger_entries begin
    select raise(abort, 'an entry of the ledger is never deleted');
end;

create table cpu_use (
    principal text not null,
    at real not null,
    seconds real not null
) strict;
create index cpu_use_principal on cpu_use (principal, at);

create table actions (
    key text primary key not null,          -- of the intent, or of the request
    seq integer unique not null,            -- the number of the event
    at real not null,
    principal text,
    session_key text,
    line integer,
    action_type text,
    artifact_id text,
    intent text not null,
    result text not null,
    is_success integer not null check (is_success in (0, 1)),
    error_code text,
    scrip_after integer,
    sandbox text
) strict;
create index actions_principal on actions (principal, seq);
create index actions_artifact on actions (artifact_id, seq);

-- How far the intents of each run were read, and how many of them have their result.

create table intent_files (
    session_key text primary key not null,
    directory text not null,
    attempt integer not null,
    identity text,                          -- device and inode
    "offset" integer not null,
    line integer not null,
    before text not null,                   -- the last bytes before the offset, as hex
    told integer not null,
    state text not null check (state in ('open', 'over', 'read')),
    problem text
) strict;
create index intent_files_owed on intent_files (state) where state <> 'read';

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
) strict;
create index plays_of_shows on plays (show);

create view shows as
select show as path, topic, count(*) as plays, min(created_at) as created_at, max(updated_at) as updated_at
from plays group by show;

-- Signatures that people asked for: owed until settled_at, then the signature with the receipt's file, or why there is none.
-- part: JSON [name, size, sha256, temporary name].

create table signings (
    id integer primary key,
    event integer not null unique,
    session_key text not null,
    attempt integer not null,
    scheme text not null check (scheme in ('ed25519', 'nostr')),
    said_by text not null,
    settled_at real,
    signature text,
    part text,
    problem text,
    check ((settled_at is null) = (signature is null and problem is null)),
    check ((signature is null) = (part is null))
) strict;
create index signings_owed on signings (id) where settled_at is null;
create index signings_of_receipts on signings (session_key, attempt) where signature is not null;

create trigger signings_settle_once before update on signings when old.settled_at is not null
begin select raise(abort, 'a signing is settled once'); end;

-- The replays that grow while their sessions run: what is written of each, never the bytes. A row goes once the receipt is recorded.
-- rules: JSON, by which its lines are rendered. issue_number, policy_bundle_id: what its first line says.
-- steps: JSON [[bytes, others], …], how far the session's log and what the store adds to it were rendered, as one followed
-- the other. length, sha256: of all lines that follow from that.
-- problem: why no further line is written before the session is over.

create table replays (
    session_key text not null,
    attempt integer not null,
    rules text not null,
    issue_number integer,
    policy_bundle_id text,
    steps text not null,
    length integer not null check (length > 0),
    sha256 text not null check (length(sha256) = 64),
    problem text,
    primary key (session_key, attempt)
) strict;

create trigger replays_only_grow before update on replays
when new.length < old.length or new.session_key is not old.session_key or new.attempt is not old.attempt
    or new.rules is not old.rules or new.issue_number is not old.issue_number
    or new.policy_bundle_id is not old.policy_bundle_id
    or (new.length = old.length and new.sha256 is not old.sha256)
begin select raise(abort, 'what was shown of a replay stays'); end;
