-- The receipts of what sessions did: one for each attempt, and one chain in the order in which they were recorded.
-- parts: JSON [[name, size, sha256, temporary name], …]. facts: JSON, what the parts are rendered from beside the session's files.
-- summary: JSON, what PR_SUMMARY.md says.
-- problem: why there is no receipt where there is none, else what is wrong with it.
create table receipts (
    seq integer primary key,
    session_key text not null,
    attempt integer not null,
    receipt_hash text,
    prev text,
    directory text not null,
    parts text not null,
    facts text not null,
    summary text,
    problem text,
    recorded_at real not null,
    placed_at real,
    place_problem text,
    unique (session_key, attempt),
    check (receipt_hash is not null or problem is not null),
    check (receipt_hash is not null or prev is null)
) strict;
create index receipts_to_place on receipts (seq) where placed_at is null;

create trigger receipts_form_a_chain before insert on receipts
when new.receipt_hash is not null
    and new.prev is not (select receipt_hash from receipts where receipt_hash is not null order by seq desc limit 1)
begin select raise(abort, 'a receipt follows the one before it'); end;

create trigger receipts_are_facts
before update of seq, session_key, attempt, receipt_hash, prev, directory, parts, facts, summary, problem, recorded_at on receipts
begin select raise(abort, 'a receipt is never changed'); end;

create trigger receipts_are_placed_once before update of placed_at, place_problem on receipts when old.placed_at is not null
begin select raise(abort, 'a receipt is placed once'); end;

create trigger receipts_are_not_replaced before insert on receipts
when exists (select 1 from receipts where seq = new.seq or (session_key = new.session_key and attempt = new.attempt))
begin select raise(abort, 'UNIQUE: a receipt is never replaced'); end;

create trigger receipts_stay before delete on receipts
begin select raise(abort, 'a receipt is never deleted'); end;
