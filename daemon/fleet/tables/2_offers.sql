-- What each host accepts from which others: its playbooks and actions by name, each with a hash of what it starts.
create table runward.skills (
    host text not null references runward.hosts (name),
    kind text not null check (kind in ('skill', 'action')),
    name text not null check (length(name) between 1 and 200),
    hash text not null check (length(hash) = 64),
    -- The names of those whose orders are accepted; '*' stands for all.
    accepted_from text[] not null check (cardinality(accepted_from) between 1 and 1000 and octet_length(array_to_string(accepted_from, '')) <= 65536),
    primary key (host, kind, name)
);

-- The steps of others that a host runs at once; null if its program has not said so.
alter table runward.hosts add column slots integer check (slots between 0 and 1000);
