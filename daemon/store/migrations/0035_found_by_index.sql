-- Jobs of two handlers are looked for by name, whatever else waits.
create index jobs_offered on jobs (lane) where state in ('waiting', 'held') and handler = 'chains/offered';
create index jobs_repairing on jobs (event) where state in ('waiting', 'held') and handler = 'journal/repair';

-- Whether the session of a start is known and linked to its invocation. A start without the mark may be seen all the same, so
-- each start of the daemon asks about those. One with it is never unseen again.
alter table starts add column is_seen integer not null default 0;
drop trigger starts_begin_once;
create trigger starts_begin_once
before update of key, event, session_key, name, directory, effect, state, why, ended_at on starts
when old.state <> 'owed' and not (old.state = 'begun' and new.state = 'begun' and old.why is null and new.why is not null
    and (new.key, new.event, new.session_key, new.name, new.directory, new.effect, new.ended_at)
        = (old.key, old.event, old.session_key, old.name, old.directory, old.effect, old.ended_at))
begin select raise(abort, 'a run is started once'); end;
update starts set is_seen = 1
where exists (select 1 from sessions where key = starts.session_key and invocation_id is not null);
create index starts_unseen on starts (event) where state = 'begun' and why is null and is_seen = 0;
create trigger starts_seen after insert on sessions when new.invocation_id is not null
begin
    update starts set is_seen = 1 where session_key = new.key and is_seen = 0;
end;

create index hooks_of_launched on hooks (launcher_session) where launcher_session is not null;
