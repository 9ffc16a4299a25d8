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
    updated_at real not null,
    unique (session_key, kind, name)
) strict, without rowid;
create index artifacts_by_time on artifacts (created_at);
create index artifacts_of_kind on artifacts (kind, created_at);

create trigger artifacts_keep_whose_they_are before update of id, session_key, kind, name, created_at on artifacts
begin select raise(abort, 'an outcome stays what it is of'); end;
