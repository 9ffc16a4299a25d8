-- Sessions of other tools: a session is known by its key wherever its files lie, so its row in `cursors` has that key.

-- active, idle or waiting (for a person), while it runs; null where its layout doesn't tell.
alter table cursors add column activity text check (activity in ('active', 'idle', 'waiting'));

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
