-- What the open jobs of a record that was moved read instead of the payloads of their events, which stay as they are.
create table moved_payloads (
    event integer primary key,
    payload text not null
) strict;
