-- Which events of which hosts each host accepts: '*' stands for all of them.
create table runward.hears (
    host text not null references runward.hosts (name),
    origin text not null check (length(origin) between 1 and 32),
    event text not null check (length(event) between 1 and 128),
    primary key (host, origin, event)
);
create index hears_of_event on runward.hears (event, origin);

-- Events that others accept. A row never changes, and goes after a week.
create table runward.events (
    number bigint generated always as identity primary key,
    -- The transaction that brought it. Numbers become visible out of order, so readers go by both.
    xid xid8 not null default pg_current_xact_id(),
    host text not null references runward.hosts (name),
    -- Tells it from the other events of its host.
    key text not null check (length(key) between 1 and 64),
    name text not null check (length(name) between 1 and 128),
    id text not null check (length(id) <= 1000),
    -- How many chain runs fired one another in a row before it.
    depth integer not null check (depth between 0 and 1000),
    fields jsonb not null check (jsonb_typeof(fields) = 'object' and octet_length(fields::text) <= 1048576),
    told_at timestamptz not null default clock_timestamp(),
    unique (host, key)
);
create index events_in_order on runward.events (xid, number);
create index events_of_host on runward.events (host, told_at);

-- Up to where each host has read, and when it did so last.
alter table runward.hosts add column read_xid xid8, add column read_number bigint, add column read_at timestamptz;
