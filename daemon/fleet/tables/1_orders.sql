-- The orders of a fleet: one row for each step that one host wants another one to run. Only the state of the row decides who may
-- begin: taking is atomic, is the permission to begin, and never expires. Hosts change orders through the functions below
-- alone. Each begins with the fence, and each may be called again with the same words: that changes nothing.
create table runward.orders (
    origin text not null references runward.hosts (name),
    -- Of the origin's choice: it names the step, so the same step is ordered once.
    id text not null check (length(id) between 1 and 200),
    -- The host that is wanted, or labels that it must have.
    wanted_host text check (length(wanted_host) between 1 and 32),
    wanted_labels text[] not null check (octet_length(array_to_string(wanted_labels, '')) <= 4096),
    skill text not null check (length(skill) between 1 and 200),
    body jsonb not null check (jsonb_typeof(body) = 'object' and octet_length(body::text) <= 1048576),
    placed_at timestamptz not null default clock_timestamp(),
    begin_by timestamptz,
    state text not null default 'open' check (state in ('open', 'taken', 'ended', 'declined', 'withdrawn')),
    cancelled boolean not null default false,
    -- Counts the takes, so that what is said of one can't be meant for another.
    takes integer not null default 0,
    taken_by text references runward.hosts (name),
    taken_at timestamptz,
    -- Why each host that had taken it never will begin it, by its name.
    declined jsonb not null default '{}' check (octet_length(declined::text) <= 1048576),
    result jsonb check (octet_length(result::text) <= 1048576),
    ended_at timestamptz,
    settled_at timestamptz,
    primary key (origin, id),
    check ((wanted_host is null) = (cardinality(wanted_labels) > 0)),
    check ((taken_by is not null) = (state in ('taken', 'ended'))),
    check ((result is not null) = (state = 'ended'))
);
create index orders_open on runward.orders (placed_at, origin, id) where state = 'open';
create index orders_placed on runward.orders (placed_at desc, origin, id);
create index orders_taken on runward.orders (taken_by, taken_at) where state = 'taken';
create index orders_unsettled on runward.orders (origin, placed_at) where settled_at is null;
