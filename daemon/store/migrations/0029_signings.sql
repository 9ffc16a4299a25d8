-- Signatures that people asked for: owed until settled_at, then the signature with the receipt's file, or why there is none.
-- part: JSON [name, size, sha256, temporary name].
create table signings (
    id integer primary key,
    event integer not null unique,
    session_key text not null,
    attempt integer not null,
    scheme text not null check (scheme in ('ed25519', 'nostr')),
    said_by text not null,
    settled_at real,
    signature text,
    part text,
    problem text,
    check ((settled_at is null) = (signature is null and problem is null)),
    check ((signature is null) = (part is null))
) strict;
create index signings_owed on signings (id) where settled_at is null;
create index signings_of_receipts on signings (session_key, attempt) where signature is not null;

create trigger signings_settle_once before update on signings when old.settled_at is not null
begin select raise(abort, 'a signing is settled once'); end;
