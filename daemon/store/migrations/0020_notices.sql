-- What people outside are told, each until it is delivered or given up.
create table notices (
    id text primary key,
    kind text not null,
    subject text not null,
    recipient text not null,
    title text not null,
    text text not null,
    created_at real not null,
    state text not null default 'pending' check (state in ('pending', 'delivered', 'dead')),
    tries integer not null default 0,
    next_at real not null,
    since real not null,
    error text,
    settled_at real,
    check ((state = 'pending') = (settled_at is null))
) strict, without rowid;
create index notices_pending on notices (next_at) where state = 'pending';
create index notices_settled on notices (settled_at) where state <> 'pending';

create trigger notices_stay_delivered before update on notices when old.state = 'delivered'
begin select raise(abort, 'a notice is delivered once'); end;
