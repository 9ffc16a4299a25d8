-- The exchange: artifacts that outlive their sessions, the principals who own them, and what each of them holds.

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
