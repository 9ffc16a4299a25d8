-- The third release.

-- Names of artifacts and principals are compared without case when they are taken. A principal acts only with standing,
-- so those of before get it, whichever artifact has their name.

create index shared_artifacts_names on shared_artifacts (id collate nocase);
update shared_artifacts set has_standing = 1 where id in (select id from principals) and deleted_at is null;

-- What the session of a step left: its delivery, verification, exit code, artifacts, and the outcomes before its last one.
-- A JSON object; null for steps without a session, and for those that an older program judged.
alter table chain_steps add column result text;
-- Since when a session in this root is known to have grown without a process on this machine: other machines write there, too.
alter table roots add column grew_elsewhere_at real;
-- Where the numbers of the ancestors are valid: [machine id, boot id, PID namespace] as JSON.
alter table hooks add column whereabouts text;


-- Who wrote this version of an artifact: its code acts for its owner only if the owner did. Code is only written by
-- actions; what else came to be belongs to those who made it.
alter table shared_artifacts add column written_by text not null default '';
update shared_artifacts set written_by = coalesce((select a.principal from actions a where a.artifact_id = shared_artifacts.id
  and a.action_type = 'write_artifact' and a.is_success order by a.seq desc limit 1), owner_id);
-- The cgroup of a run, which is ended with it.
alter table launches add column cgroup text;

-- An action is known by its run and its line, and a run by whatever it ever said of who it is and when it began, and by what
-- its launcher recorded. So a directory that is copied or moved carries nothing out again.

alter table intent_files add column run text;          -- the session where the run of a copied directory was first seen
create table intent_runs (
    session_id text not null,       -- as its run.json said, or as in handlers/layouts/native.py for its launcher's process
    started_at real not null,
    session_key text not null,
    primary key (session_id, started_at, session_key)
) strict, without rowid;
create index intent_runs_keys on intent_runs (session_key);
insert or ignore into intent_runs
    select s.session_id, s.started_at, s.key from intent_files f join sessions s on s.key = f.session_key
    union select s.session_id, a.started_at, s.key from intent_files f join sessions s on s.key = f.session_key
        join attempts a on a.session_key = s.key
    union select 'process ' || (l.launcher ->> 2) || ' ' || (l.launcher ->> 0), l.launcher ->> 1, l.session_key
        from intent_files f join launches l on l.session_key = f.session_key;
create index intent_files_runs on intent_files (run) where run is not null;

-- What a principal did not ask for uses the quota of its giver until the principal writes it.
alter table shared_artifacts add column disk_of text;       -- null: its owner's

-- What the settings gave stays with a principal. Of those of before, only what a person named is theirs to give.
alter table principals add column disk_default integer default 0;       -- null: a launched run has yet to bring it
alter table principals add column cpu_default real not null default 0;
update principals set disk_default = disk_quota where not exists (
    select 1 from events e where e.type = 'PrincipalCreateRequested' and e.payload ->> 'principal' = principals.id
    and e.payload ->> 'disk_quota' is not null
);
update principals set cpu_default = coalesce(cpu_seconds, 0) where not exists (
    select 1 from events e where e.type = 'PrincipalCreateRequested' and e.payload ->> 'principal' = principals.id
    and e.payload ->> 'cpu_seconds' is not null
);

-- The state directory of the daemon that wrote last: its record knows runs by their paths, so it is restored only there.
alter table daemon add column state_dir text;

-- A run may keep the parts of its bundle from their names after the receipt was recorded. Then they get another directory.
drop trigger receipts_are_facts;
create trigger receipts_are_facts
before update of seq, session_key, attempt, receipt_hash, prev, parts, facts, summary, problem, recorded_at on receipts
begin select raise(abort, 'a receipt is never changed'); end;
drop trigger receipts_are_placed_once;
create trigger receipts_are_placed_once before update of placed_at, place_problem, directory on receipts
when old.placed_at is not null
begin select raise(abort, 'a receipt is placed once'); end;

-- How many chain runs have each status, so that nobody has to count them.
create table chain_run_counts (
    status text primary key,
    runs integer not null
) strict, without rowid;
insert into chain_run_counts select status, count(*) from chain_runs group by status;
create trigger chain_runs_counted after insert on chain_runs
begin
    insert into chain_run_counts values (new.status, 1) on conflict (status) do update set runs = runs + 1;
end;
create trigger chain_runs_recounted after update of status on chain_runs when old.status is not new.status
begin
    update chain_run_counts set runs = runs - 1 where status = old.status;
    insert into chain_run_counts values (new.status, 1) on conflict (status) do update set runs = runs + 1;
end;
create trigger chain_runs_uncounted after delete on chain_runs
begin
    update chain_run_counts set runs = runs - 1 where status = old.status;
end;

-- The shows, so that a list of the newest reads no plays of others: triggers keep how many plays each has, and when it began.
drop view shows;
create table shows (
    path text primary key,
    topic text not null,
    plays integer not null,
    created_at real not null                -- that of its first play
) strict, without rowid;
insert into shows select show, topic, count(*), min(created_at) from plays group by show;
create index shows_newest on shows (created_at desc, path);
create index shows_topics on shows (topic);
drop index plays_of_shows;
create index plays_of_shows on plays (show, name);
create index plays_in_time on plays (show, created_at, name);
create trigger plays_counted after insert on plays
begin
    insert into shows values (new.show, new.topic, 1, new.created_at)
    on conflict (path) do update set plays = plays + 1, created_at = min(created_at, excluded.created_at);
end;
create trigger plays_uncounted after delete on plays
begin
    update shows set plays = plays - 1, created_at = coalesce((select min(created_at) from plays where show = old.show), 0)
    where path = old.show;
    delete from shows where path = old.show and plays = 0;
end;

-- Lists are read in their own order: notices from the newest on, the artifacts of an owner by their ids.
create index notices_newest on notices (created_at desc, id);
drop index shared_artifacts_owner;
create index shared_artifacts_owner on shared_artifacts (owner_id, id);
create index shared_artifacts_owned on shared_artifacts (owner_id, id) where deleted_at is null;
-- Notices that were given up are counted for each page.
create index notices_dead on notices (settled_at) where state = 'dead';

-- In the order of their lists, so that the newest are read without sorting the others.
drop index sessions_started;
create index sessions_started on sessions (started_at desc, key);
drop index chain_runs_by_time;
create index chain_runs_by_time on chain_runs (created_at desc);
drop index invocations_by_time;
create index invocations_by_time on invocations (created_at desc, step_index desc);

-- The only requests whose events have other keys than their own names.
create index events_seen on events (payload ->> 'request') where type = 'SessionSeenRequested';

-- When a session failed whose end nobody has seen; null for all others, and once it is packed, a day later. And how many
-- there are of each minute, so that nobody has to count them.
alter table sessions add column unseen_at real;
update sessions set unseen_at = finished_at
where packed = 0 and origin = 'live' and status in ('failed', 'timed_out', 'aborted') and reason_code <> 'run.aborted.user'
  and not exists (select 1 from events e where e.key = sessions.key || '#' || sessions.attempt || '/seen');
create index sessions_unseen on sessions (unseen_at desc, key) where unseen_at is not null;
create table unseen_counts (
    minute integer primary key,             -- of Unix time
    sessions integer not null
) strict;
insert into unseen_counts
    select cast(unseen_at / 60 as integer), count(*) from sessions where unseen_at is not null group by 1;
create trigger sessions_unseen_counted after update of unseen_at on sessions when old.unseen_at is not new.unseen_at
begin
    update unseen_counts set sessions = sessions - 1 where minute = cast(old.unseen_at / 60 as integer);
    delete from unseen_counts where minute = cast(old.unseen_at / 60 as integer) and sessions = 0;
    insert into unseen_counts select cast(new.unseen_at / 60 as integer), 1 where new.unseen_at is not null
    on conflict (minute) do update set sessions = sessions + 1;
end;
create trigger sessions_unseen_uncounted after delete on sessions when old.unseen_at is not null
begin
    update unseen_counts set sessions = sessions - 1 where minute = cast(old.unseen_at / 60 as integer);
    delete from unseen_counts where minute = cast(old.unseen_at / 60 as integer) and sessions = 0;
end;
create trigger sessions_unseen after update of status, attempt, finished_at, reason_code, packed on sessions
when old.unseen_at is not null or new.status in ('failed', 'timed_out', 'aborted')
begin
    update sessions set unseen_at = iif(
        packed = 0 and origin = 'live' and status in ('failed', 'timed_out', 'aborted') and reason_code <> 'run.aborted.user'
        and not exists (select 1 from events e where e.key = sessions.key || '#' || sessions.attempt || '/seen'),
        finished_at, null)
    where key = new.key;
end;
create trigger sessions_seen after insert on events when new.type = 'SessionSeenRequested'
begin
    update sessions set unseen_at = null where key = new.lane and new.key = key || '#' || attempt || '/seen';
end;
