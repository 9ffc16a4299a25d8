-- Replies whose cost the agent reported have sums of their own. Before, a sum of both kinds had the cost of the first kind alone.
create table usage_apart (
    hour integer not null,
    session_key text not null,
    model text not null,
    speed text not null,
    size integer not null,
    -- Before the columns that are not of the key: SQLite 3.40 takes the others for NULL when it checks the table.
    is_reported integer not null check (is_reported = (reported_nanousd is not null)),
    replies integer not null,
    fresh_input integer not null,
    cache_read integer not null,
    cache_write_5m integer not null,
    cache_write_1h integer not null,
    output integer not null,
    reported_nanousd integer,
    primary key (hour, session_key, model, speed, size, is_reported)
) strict, without rowid;
insert into usage_apart
select
    hour, session_key, model, speed, size, reported_nanousd is not null, replies, fresh_input, cache_read, cache_write_5m,
    cache_write_1h, output, reported_nanousd
from usage;
drop table usage;
alter table usage_apart rename to usage;
create index usage_of_session on usage (session_key);

-- Sessions with reported costs are read again from the beginning, and those of the agents whose logs have more requests than were
-- counted: those of sub-agents, and what the agent asked for itself. Until then they are missing.
update usage_read set looks = 0
where session_key glob 'copilot:*' or session_key glob 'qwen:*'
    or session_key in (select session_key from usage where is_reported);
update places set signature = null where session_key in (select session_key from usage_read where looks = 0);
update cursors set state = json_set(state, '$[4]', null)
where json_valid(state) and (session_key glob 'copilot:*' or session_key glob 'qwen:*'
    or session_key in (select session_key from usage where is_reported));
