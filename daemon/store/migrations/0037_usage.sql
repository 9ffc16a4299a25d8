-- What replies used, by UTC hour (since 1970), model, speed and size of the request. Questions are about a stretch of time, so
-- the hour comes first. Its sums are added to what is there; `usage_read` says how many looks at the session they contain.
create table usage (
    hour integer not null,
    session_key text not null,
    model text not null,
    speed text not null,
    size integer not null,
    replies integer not null,
    fresh_input integer not null,
    cache_read integer not null,
    cache_write_5m integer not null,
    cache_write_1h integer not null,
    output integer not null,
    reported_nanousd integer,
    primary key (hour, session_key, model, speed, size)
) strict, without rowid;
create index usage_of_session on usage (session_key);

create table usage_read (
    session_key text primary key,
    looks integer not null
) strict, without rowid;
create index usage_missing on usage_read (session_key) where looks = 0;

-- What earlier versions have read is read again, as if its files had changed. Until then it is missing.
insert into usage_read (session_key, looks)
select session_key, 0 from cursors where session_key glob 'claude-code:*' or session_key glob 'codex:*' group by session_key;
update places set signature = null where session_key in (select session_key from usage_read);
