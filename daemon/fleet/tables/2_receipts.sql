-- The chains of each host, which nobody changes any more: of its receipts, and the heads of its chain of events. A segment begins
-- another chain, after the store of the host was restored: the earlier one stays.
alter table runward.hosts add column segment integer not null default 1;

create table runward.receipts (
    host text not null references runward.hosts (name),
    segment integer not null,
    -- Of the receipt in the host's store. Numbers only grow; some are left out.
    number bigint not null check (number > 0),
    hash text not null check (hash ~ '^sha256:[0-9a-f]{64}$'),
    -- The hash of the receipt before it.
    prev text,
    -- The session and the attempt that it is of.
    session text check (length(session) <= 200),
    attempt integer,
    reported_at timestamptz not null default clock_timestamp(),
    primary key (host, segment, number)
);
create index receipts_of_session on runward.receipts (host, session);

create table runward.heads (
    host text not null references runward.hosts (name),
    segment integer not null,
    -- Of the last event in the host's store, and its hash.
    number bigint not null check (number > 0),
    hash text not null check (hash ~ '^[0-9a-f]{64}$'),
    reported_at timestamptz not null default clock_timestamp(),
    primary key (host, segment, number)
);
