-- Packing: what belongs to a session that is over and owed nothing becomes one compressed row.

alter table sessions add column packed integer not null default 0 check (packed in (0, 1));

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
insert into session_counts select status, count(*) from sessions group by status;
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
