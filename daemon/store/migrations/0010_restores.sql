-- What a restore from a backup left behind (docs/backup.md).

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

-- An adopted line that is gone from its journal is written again as it stood.
drop view outbox;
create view outbox as select id, event, directory, name, live,
    coalesce((select a.content from adopted_lines a where a.id = l.id), l.content) as content
from journal_lines l where "offset" is null and why is null;
