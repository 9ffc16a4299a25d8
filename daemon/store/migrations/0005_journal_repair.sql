-- Comparing journals after an unclean stop, and writing again what is gone.

-- stopped_cleanly: the last daemon ended in order; a daemon that takes over clears it.
-- settled: lines up to this number were marked so long ago that no crash takes them back.
-- settling, settling_at: up to which number they were marked then, in seconds since the boot.
alter table daemon add column stopped_cleanly integer not null default 1;
alter table daemon add column boot_id text not null default '';
alter table daemon add column settled integer not null default 0;
alter table daemon add column settling integer not null default 0;
alter table daemon add column settling_at real not null default 0;
update daemon set stopped_cleanly = (epoch = 0);

-- Our lines in the journals: owed while they have neither a place nor a reason why they will never stand.
-- id = 256 * event + 8 * the handler's place in the route + the order within the job.
alter table outbox rename to outbox_before;
alter table journal_lines rename to journal_lines_before;
drop index journal_lines_of;
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
insert into journal_lines (id, directory, name, live, content, "offset", why)
select 256 * event + row_number() over (partition by event order by id) - 1,
    directory, name, live, content, "offset", why
from (
    select id, event, directory, name, live, content, null as "offset", null as why from outbox_before
    union all
    select id, event, directory, name, 0, null, "offset", why from journal_lines_before
);
drop table outbox_before;
drop table journal_lines_before;
create index journal_lines_owed on journal_lines (id) where "offset" is null and why is null;
create trigger journal_lines_keep_their_content before update of id, directory, name, content on journal_lines
begin select raise(abort, 'what was to be written is never changed'); end;

-- What the world is owed.
create view outbox as select id, event, directory, name, live, content
from journal_lines where "offset" is null and why is null;

-- Journals that get no further lines before they were compared with what the store says of them.
create table uncompared (
    directory text not null,
    name text not null,
    session_key text not null,
    primary key (directory, name)
) strict, without rowid;
