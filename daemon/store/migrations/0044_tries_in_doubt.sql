-- A try of a step ends once. What another host says later of one that ended here before its order was over makes its reason more exact, and
-- nothing else of it changes.
drop trigger chain_steps_end_once;
create trigger chain_steps_end_once before update on chain_steps
when old.status not in ('waiting', 'waiting_approval', 'running') and (
    (new.run, new.step, new.attempt, new.status, new.reason_code, new.value, new.session_key, new.outcome, new.started_at, new.finished_at)
    is not (old.run, old.step, old.attempt, old.status, old.reason_code, old.value, old.session_key, old.outcome, old.started_at, old.finished_at)
    or not coalesce(old.result ->> '$.is_in_doubt', 0)
)
begin select raise(abort, 'a try of a step ends once'); end;
