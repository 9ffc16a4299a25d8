-- The one fold of a flow's legs (ADR-0029, DAG-flow extension): a contract may change once more while the session's
-- first attempt is open, and only by entries of the legs' agents that are put behind those that are there.

alter table sessions add column folded integer not null default 0 check (folded in (0, 1));

drop trigger sessions_keep_their_contract;
create trigger sessions_keep_their_contract
before update of artifact_contract_json, contract_basis, folded on sessions
when (
    old.artifact_contract_json is not new.artifact_contract_json
    or old.contract_basis is not new.contract_basis
    or old.folded is not new.folded
)
and not (
    old.folded = 0 and new.folded = 1
    and old.status = 'running' and old.attempt = 1 and old.origin = 'live'
    and exists (select 1 from attempts where session_key = old.key and attempt = 1 and ended_by is null)
    and not exists (select 1 from attempts where session_key = old.key and attempt > 1)
    and (new.contract_basis is null) = (new.artifact_contract_json is null)
    and (old.artifact_contract_json is null or old.contract_basis is new.contract_basis)
    and (old.artifact_contract_json is null or new.artifact_contract_json is not null)
    and (
        new.artifact_contract_json is null
        or (
            json_remove(new.artifact_contract_json, '$.expected') = '{}'
            and json_type(new.artifact_contract_json, '$.expected') = 'array'
        )
    )
    and not exists (
        select 1
        from json_each(old.artifact_contract_json, '$.expected') was
        left join json_each(new.artifact_contract_json, '$.expected') now on now.key = was.key
        where now.value is not was.value
    )
    and not exists (
        select 1 from json_each(new.artifact_contract_json, '$.expected') added
        where added.key >= coalesce(json_array_length(old.artifact_contract_json, '$.expected'), 0)
        and added.value ->> '$.source' is not 'role_default'
    )
)
begin select raise(abort, 'a contract never changes after it was snapshotted, but for the one fold of a flow'); end;

-- `insert or replace` would put another session in its place; it fires this with recursive_triggers on.
create trigger sessions_are_not_replaced before delete on sessions
when exists (select 1 from attempts where session_key = old.key)
begin select raise(abort, 'a session with attempts is neither deleted nor replaced'); end;
