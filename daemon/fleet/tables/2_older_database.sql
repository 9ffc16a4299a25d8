-- What shows that this database is older than its hosts know: it was restored, or is a replica that was promoted.
create table runward.identity (
    is_only boolean primary key default true check (is_only),
    -- The database under which the fleet works, as `identity_here` names it. Null until a host has compared it.
    known text
);
insert into runward.identity default values;

-- Raised by each change of an order by this host. Each host remembers the highest that it saw, of all.
alter table runward.hosts add column changes bigint not null default 0;
-- Whether it takes orders, as it says; of one that doesn't say, yes.
alter table runward.hosts add column accepts boolean not null default true;
-- The last restore of its store, by the epoch that began with it, and how far its store had come.
alter table runward.hosts add column restored bigint not null default 0;
alter table runward.hosts add column reached bigint not null default 0;

-- The taker's store may know nothing of this take: it begins and returns it only if it does.
alter table runward.orders add column doubted boolean not null default false;

-- The hosts that have yet to say again what they know, since the database is older than one of them knew. Nobody takes anything
-- until those that may have taken something have done so, or a person leaves them out. One may be missing in `hosts`.
create table runward.unheard (
    host text primary key check (length(host) <= 32),
    since timestamptz not null default clock_timestamp(),
    -- It takes orders, or changed some that the database knows nothing of.
    may_have_taken boolean not null,
    is_left_out boolean not null default false
);

-- What hosts say again that they took, until the order is there, or its earlier taker gives it back.
create table runward.claims (
    origin text not null check (length(origin) <= 32),
    id text not null check (length(id) between 1 and 200),
    host text not null references runward.hosts (name),
    take integer not null check (take > 0),
    result jsonb check (octet_length(result::text) <= 1048576),
    primary key (origin, id)
);
