-- What launchers record before they let their commands go. Only they may say how these runs ended, and under which
-- contract they run.

create table launches (
    id text primary key,
    session_key text not null,
    at real not null,
    seal text not null,
    contract_json text,
    timeout real,
    grace real,
    launcher text not null,
    process text not null
) strict;
create index launches_of_sessions on launches (session_key, at);

create trigger launches_are_facts before update on launches
begin select raise(abort, 'a launch is never changed'); end;

drop trigger sessions_keep_their_contract;
create trigger sessions_keep_their_contract
before update of artifact_contract_json, contract_basis, folded on sessions
when (
    old.artifact_contract_json is not new.artifact_contract_json
    or old.contract_basis is not new.contract_basis
    or old.folded is not new.folded
)
and not (
    old.folded is new.folded
    and new.contract_basis is iif(new.artifact_contract_json is null, null, 'launcher')
    and exists (
        select 1 from launches
        where session_key = new.key and contract_json is new.artifact_contract_json
    )
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
begin select raise(abort, 'a contract never changes, but for the one fold of a flow and for what a launcher recorded'); end;
