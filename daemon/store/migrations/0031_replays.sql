-- The replays that grow while their sessions run: what is written of each, never the bytes. A row goes once the receipt is recorded.
-- rules: JSON, by which its lines are rendered. issue_number, policy_bundle_id: what its first line says.
-- steps: JSON [[bytes, others], …], how far the session's log and what the store adds to it were rendered, as one followed
-- the other. length, sha256: of all lines that follow from that.
-- problem: why no further line is written before the session is over.
create table replays (
    session_key text not null,
    attempt integer not null,
    rules text not null,
    issue_number integer,
    policy_bundle_id text,
    steps text not null,
    length integer not null check (length > 0),
    sha256 text not null check (length(sha256) = 64),
    problem text,
    primary key (session_key, attempt)
) strict;

create trigger replays_only_grow before update on replays
when new.length < old.length or new.session_key is not old.session_key or new.attempt is not old.attempt
    or new.rules is not old.rules or new.issue_number is not old.issue_number
    or new.policy_bundle_id is not old.policy_bundle_id
    or (new.length = old.length and new.sha256 is not old.sha256)
begin select raise(abort, 'what was shown of a replay stays'); end;
