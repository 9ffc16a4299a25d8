-- `insert or replace` deletes the row that is there, and fires neither its update nor its delete triggers.
-- So a fact that stands is guarded on the way in as well.
create trigger events_are_not_replaced before insert on events
when exists (select 1 from events where seq = new.seq or key = new.key)
begin select raise(abort, 'UNIQUE: an event is never replaced'); end;

create trigger sessions_are_not_replaced_by_inserting before insert on sessions
when exists (select 1 from sessions where key = new.key)
begin select raise(abort, 'UNIQUE: a session is never replaced'); end;

create trigger attempts_are_not_replaced before insert on attempts
when exists (select 1 from attempts where session_key = new.session_key and attempt = new.attempt)
begin select raise(abort, 'UNIQUE: an attempt is never replaced'); end;

create trigger status_history_is_not_replaced before insert on status_history
when exists (select 1 from status_history where id = new.id)
begin select raise(abort, 'UNIQUE: a change of status is never replaced'); end;

create trigger decisions_are_not_replaced before insert on decisions
when exists (select 1 from decisions where id = new.id)
begin select raise(abort, 'UNIQUE: a decision is never replaced'); end;

create trigger files_are_not_replaced before insert on files
when exists (select 1 from files where session_key = new.session_key and attempt = new.attempt and id = new.id)
begin select raise(abort, 'UNIQUE: what was recorded of a file is never replaced'); end;

create trigger journal_lines_are_not_replaced before insert on journal_lines
when exists (select 1 from journal_lines where id = new.id)
begin select raise(abort, 'UNIQUE: what was to be written is never replaced'); end;

create trigger starts_are_not_replaced before insert on starts
when exists (select 1 from starts where key = new.key)
begin select raise(abort, 'UNIQUE: a run is started once'); end;

create trigger launches_are_not_replaced before insert on launches
when exists (select 1 from launches where id = new.id)
begin select raise(abort, 'UNIQUE: a launch is never replaced'); end;
