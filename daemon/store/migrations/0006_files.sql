-- What an attempt had produced when it was judged: `[[id, path, size, modified_ns], …]`, null where nothing was.
alter table attempts add column produced text;

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
