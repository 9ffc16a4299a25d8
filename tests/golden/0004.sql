BEGIN TRANSACTION;
CREATE TABLE attempts (
    session_key text not null references sessions (key),
    attempt integer not null,
    started_at real not null,
    status text not null,
    ended_by text,
    reason_code text,
    ended_at real,
    primary key (session_key, attempt)
) strict, without rowid;
INSERT INTO "attempts" VALUES('native:runs/delivers',1,1770091506.0,'completed','declared','run.completed.ok',1770091567.0);
INSERT INTO "attempts" VALUES('native:runs/goes-on',1,1770091506.0,'running',NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('native:runs/lacks',1,1770091506.0,'failed','declared','run.failed.missing_artifact',1770091567.0);
CREATE TABLE cancellations (
    event integer primary key references events (seq),
    session_key text not null references sessions (key),
    attempt integer not null,
    directory text not null,
    processes text not null,
    said_by text not null,
    reason text not null,
    carried_out_at real,
    told integer check (told in (0, 1)),
    outcome text
) strict;
CREATE TABLE cursors (
    key text primary key,
    root text not null,
    directory text not null,
    session_key text not null,
    phase text not null,
    state text not null
) strict;
INSERT INTO "cursors" VALUES('runs/delivers','runs','delivers','native:runs/delivers','over','[[["run.json",[1466375,316,1795347108802757808]],["exit.json",[1466378,55,1795347108802871607]]],"over",1,"86e5bcf16372d673","exit.json","978350d2f69c2d97","declared",false,null,null,null,null,[],[],null,1]');
INSERT INTO "cursors" VALUES('runs/lacks','runs','lacks','native:runs/lacks','over','[[["run.json",[1466381,313,1795347108802976222]],["exit.json",[1466383,55,1795347108803041940]]],"over",1,"71d2f269dc1128c3","exit.json","3944f19576acf578","declared",false,null,null,null,null,[],[],null,1]');
INSERT INTO "cursors" VALUES('runs/goes-on','runs','goes-on','native:runs/goes-on','open','[[["run.json",[1466386,315,1795347108803133326]]],"open",1,"c66d447f8655f444","","",null,false,null,null,null,null,[],[],null,1]');
CREATE TABLE daemon (
    id integer primary key check (id = 1),
    epoch integer not null
) strict;
INSERT INTO "daemon" VALUES(1,1);
CREATE TABLE decisions (
    id integer primary key,
    event integer not null references events (seq),
    handler text not null,
    subject text not null,
    at real not null,
    verdict text not null check (verdict in ('decided', 'refused')),
    summary text not null,
    known text
) strict;
INSERT INTO "decisions" VALUES(1,1,'sessions/opened','native:runs/delivers',1.79534711125278687469e+09,'decided','contract of 2 artifacts fixed (launcher)','{"contract_basis":"launcher","contract_problem":null}');
INSERT INTO "decisions" VALUES(2,2,'sessions/ended','native:runs/delivers',1.79534711125278687469e+09,'decided','completed: exited with 0','{"evidence":"declared","exit_code":0,"signal":null,"not_delivered":{}}');
INSERT INTO "decisions" VALUES(3,3,'sessions/opened','native:runs/lacks',1.79534711125278687469e+09,'decided','contract of 2 artifacts fixed (launcher)','{"contract_basis":"launcher","contract_problem":null}');
INSERT INTO "decisions" VALUES(4,4,'sessions/ended','native:runs/lacks',1.79534711125278687469e+09,'decided','failed: missing required artifacts: report (report.md)','{"evidence":"declared","exit_code":0,"signal":null,"not_delivered":{"report.md":"absent"}}');
INSERT INTO "decisions" VALUES(5,5,'sessions/opened','native:runs/goes-on',1.79534711125278687469e+09,'decided','contract of 2 artifacts fixed (launcher)','{"contract_basis":"launcher","contract_problem":null}');
CREATE TABLE events (
    seq integer primary key,
    key text not null unique,
    type text not null,
    version integer not null,
    lane text not null,
    at real not null,
    recorded_at real not null,
    cause text,
    depth integer not null default 0 check (depth between 0 and 32),
    payload text not null,
    hash text not null
) strict;
INSERT INTO "events" VALUES(1,'native:runs/delivers#1/started','AttemptStarted',1,'native:runs/delivers',1770091506.0,1.79534711121161198611e+09,NULL,0,'{"session_key":"native:runs/delivers","attempt":1,"at":1770091506.0,"declaration":{"session_id":"delivers","layout":"native","root":"runs","path":"/srv/runward/runs/delivers","kind":"agent","artifacts_path":"/srv/runward/runs/delivers/artifacts","playbook":null,"agent":null,"invocation_id":null,"containment":null,"has_snapshot":true,"contract":{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]},"cwd":null,"prompt":null},"origin":"live","seen_over":true}','6e8451b4e053e64dc17e5406ea38c1071d3dafe31fde4f32f556b74363861e3a');
INSERT INTO "events" VALUES(2,'native:runs/delivers#1/ended','AttemptEnded',1,'native:runs/delivers',1770091567.0,1.79534711121161198611e+09,NULL,0,'{"session_key":"native:runs/delivers","attempt":1,"at":1770091567.0,"evidence":"declared","status":"completed","reason_code":"run.completed.ok","reason_summary":"exited with 0","source":"daemon","exit_code":0,"signal":null}','5ba773936e6894cd4b4dad3bca4183a2feb92369e1c48d56cfdd772eb70f7e22');
INSERT INTO "events" VALUES(3,'native:runs/lacks#1/started','AttemptStarted',1,'native:runs/lacks',1770091506.0,1.79534711121161198611e+09,NULL,0,'{"session_key":"native:runs/lacks","attempt":1,"at":1770091506.0,"declaration":{"session_id":"lacks","layout":"native","root":"runs","path":"/srv/runward/runs/lacks","kind":"agent","artifacts_path":"/srv/runward/runs/lacks/artifacts","playbook":null,"agent":null,"invocation_id":null,"containment":null,"has_snapshot":true,"contract":{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]},"cwd":null,"prompt":null},"origin":"live","seen_over":true}','01ccf4595ddbd80236ddcba454fe0d11a05d80be225f363821301d12bcc1e9e6');
INSERT INTO "events" VALUES(4,'native:runs/lacks#1/ended','AttemptEnded',1,'native:runs/lacks',1770091567.0,1.79534711121161198611e+09,NULL,0,'{"session_key":"native:runs/lacks","attempt":1,"at":1770091567.0,"evidence":"declared","status":"completed","reason_code":"run.completed.ok","reason_summary":"exited with 0","source":"daemon","exit_code":0,"signal":null}','342e824237b71f23addfd0c9c5a6b2cbfe6c5b3c46ba1fc74a3f1df462639f58');
INSERT INTO "events" VALUES(5,'native:runs/goes-on#1/started','AttemptStarted',1,'native:runs/goes-on',1770091506.0,1.79534711121161198611e+09,NULL,0,'{"session_key":"native:runs/goes-on","attempt":1,"at":1770091506.0,"declaration":{"session_id":"goes-on","layout":"native","root":"runs","path":"/srv/runward/runs/goes-on","kind":"agent","artifacts_path":"/srv/runward/runs/goes-on/artifacts","playbook":null,"agent":null,"invocation_id":null,"containment":null,"has_snapshot":true,"contract":{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]},"cwd":null,"prompt":null},"origin":"live","seen_over":false}','c53c0cd966c362015be52accd5a27eba1279328c6c3c6de6ea306bee34d9b58e');
INSERT INTO "events" VALUES(6,'native:runs/delivers#1/finished','SessionFinished',1,'native:runs/delivers',1770091567.0,1.79534711125278687469e+09,'native:runs/delivers#1/ended',1,'{"session_key":"native:runs/delivers","attempt":1,"at":1770091567.0,"status":"completed","reason_code":"run.completed.ok","delivery":"passed"}','bb4a5c0025ea45fd7759e2b848d6054f90da0f4bbeb5033955aed8dbcad0008b');
INSERT INTO "events" VALUES(7,'native:runs/lacks#1/finished','SessionFinished',1,'native:runs/lacks',1770091567.0,1.79534711125278687469e+09,'native:runs/lacks#1/ended',1,'{"session_key":"native:runs/lacks","attempt":1,"at":1770091567.0,"status":"failed","reason_code":"run.failed.missing_artifact","delivery":"partial"}','5a6f88f7ec2129f39bd6052fe7de6d0553cb1c44d4239cddaa0e3f86f91b8808');
CREATE TABLE jobs (
    id integer primary key,
    event integer not null references events (seq),
    handler text not null,
    lane text not null,
    state text not null check (state in ('waiting', 'running', 'done', 'held', 'discarded')),
    run_after real not null default 0,
    token text,
    epoch integer not null,
    tries integer not null default 0,
    error text,
    updated_at real not null,
    check (id / 32 = event)
) strict;
INSERT INTO "jobs" VALUES(32,1,'sessions/opened','native:runs/delivers','done',0.0,NULL,1,0,NULL,1.79534711125278687469e+09);
INSERT INTO "jobs" VALUES(64,2,'sessions/ended','native:runs/delivers','done',0.0,NULL,1,0,NULL,1.79534711125278687469e+09);
INSERT INTO "jobs" VALUES(96,3,'sessions/opened','native:runs/lacks','done',0.0,NULL,1,0,NULL,1.79534711125278687469e+09);
INSERT INTO "jobs" VALUES(128,4,'sessions/ended','native:runs/lacks','done',0.0,NULL,1,0,NULL,1.79534711125278687469e+09);
INSERT INTO "jobs" VALUES(160,5,'sessions/opened','native:runs/goes-on','done',0.0,NULL,1,0,NULL,1.79534711125278687469e+09);
CREATE TABLE journal_lines (
    id integer primary key,
    event integer not null,
    directory text not null,
    name text not null,
    "offset" integer,
    length integer not null,
    hash text not null,
    why text
) strict;
INSERT INTO "journal_lines" VALUES(1,1,'/srv/runward/runs/delivers','events.jsonl',0,572,'f11a4e2daff125040ccf8540bccc584f929bfc2d0f3eb9f0ed155c49b31f2947',NULL);
INSERT INTO "journal_lines" VALUES(2,1,'/srv/runward/runs/delivers','REPLAY.jsonl',0,169,'9f1f6a2cec7c29a8f7bcf0056338315f05c8c235db769200e834cf45234081ae',NULL);
INSERT INTO "journal_lines" VALUES(3,2,'/srv/runward/runs/delivers','events.jsonl',572,895,'1b3d423ccef67b78c847b877abdd59c58a73f56be45a9571a7218bb85ec09ce9',NULL);
INSERT INTO "journal_lines" VALUES(4,2,'/srv/runward/runs/delivers','REPLAY.jsonl',169,168,'fdf221bcd6ba0c0284d1855f97c844e66af5ce80437699eec2dc1ac1d6e9f800',NULL);
INSERT INTO "journal_lines" VALUES(5,3,'/srv/runward/runs/lacks','events.jsonl',0,569,'80606b9f6eb700156645ff129230618258603d20d5a759ec611be0a5a9b8cd97',NULL);
INSERT INTO "journal_lines" VALUES(6,3,'/srv/runward/runs/lacks','REPLAY.jsonl',0,166,'1a845eaa78ed6311c6d42f8107c4dcb64efe1d56d86f37a21ae3c6869a107b52',NULL);
INSERT INTO "journal_lines" VALUES(7,4,'/srv/runward/runs/lacks','events.jsonl',569,909,'fc7ed76711802f129652bf00bf0ac27651517f89b93f9ab0e3f1f52a51da9463',NULL);
INSERT INTO "journal_lines" VALUES(8,4,'/srv/runward/runs/lacks','REPLAY.jsonl',166,167,'85c6984101d1f2ee145d43ff4ae20e7e1dedb742287bafa5ac9668137d8ac44e',NULL);
INSERT INTO "journal_lines" VALUES(9,5,'/srv/runward/runs/goes-on','events.jsonl',0,571,'c6c42ab5d05c07cbccc123ea9601039cf61f59369b0f932c32ed9b68b55292f4',NULL);
INSERT INTO "journal_lines" VALUES(10,5,'/srv/runward/runs/goes-on','REPLAY.jsonl',0,168,'67bb617eeba4250f322929e79170bc2a2176f4a7176831cec1d7bda414376e32',NULL);
CREATE TABLE outbox (
    id integer primary key,
    event integer not null references events (seq),
    directory text not null,
    name text not null,
    live integer not null,
    content blob not null
) strict;
CREATE TABLE problems (
    path text not null,
    line integer,
    message text not null,
    mend text,
    since real not null
) strict;
CREATE TABLE roots (
    name text primary key,
    path text not null,
    layout text not null,
    first_seen_at real not null
) strict, without rowid;
INSERT INTO "roots" VALUES('runs','/srv/runward/runs','native',1.79534711119643497468e+09);
CREATE TABLE sessions (
    key text primary key,
    session_id text not null,
    layout text not null,
    root text not null,
    path text not null,
    kind text not null,
    status text not null
        check (status in ('running', 'completed', 'failed', 'timed_out', 'aborted', 'cancelled')),
    attempt integer not null,
    origin text not null check (origin in ('live', 'history')),
    started_at real not null,
    finished_at real,
    ended_by text check (ended_by in ('declared', 'process_gone', 'deadline', 'quiet')),
    reason_code text not null,
    reason_summary text not null,
    evidence_refs text not null,
    playbook text,
    agent text,
    invocation_id text,
    containment text,
    artifacts_path text not null,
    artifact_contract_json text,
    contract_basis text check (contract_basis in ('launcher', 'hook', 'first_look', 'late')),
    contract_problem text,
    artifact_verification_json text,
    delivery text check (delivery in ('passed', 'partial', 'missing', 'invalid'))
, folded integer not null default 0 check (folded in (0, 1))) strict;
INSERT INTO "sessions" VALUES('native:runs/delivers','delivers','native','runs','/srv/runward/runs/delivers','agent','completed',1,'live',1770091506.0,1770091567.0,'declared','run.completed.ok','exited with 0','[{"kind":"exit","id":"native:runs/delivers#1/ended","label":"declared: exited with 0"}]',NULL,NULL,NULL,NULL,'/srv/runward/runs/delivers/artifacts','{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]}','launcher',NULL,'{"status":"passed","checked_at":1795347111.2522647,"missing_required":[],"missing_optional":[],"produced":[{"id":"report","path":"report.md","size":12},{"id":"review","path":"review.md","size":12}]}','passed',0);
INSERT INTO "sessions" VALUES('native:runs/lacks','lacks','native','runs','/srv/runward/runs/lacks','agent','failed',1,'live',1770091506.0,1770091567.0,'declared','run.failed.missing_artifact','missing required artifacts: report (report.md)','[{"kind":"expected_artifact","id":"report","label":"report.md"}]',NULL,NULL,NULL,NULL,'/srv/runward/runs/lacks/artifacts','{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]}','launcher',NULL,'{"status":"failed","checked_at":1795347111.252501,"missing_required":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"}],"missing_optional":[],"produced":[{"id":"review","path":"review.md","size":12}]}','partial',0);
INSERT INTO "sessions" VALUES('native:runs/goes-on','goes-on','native','runs','/srv/runward/runs/goes-on','agent','running',1,'live',1770091506.0,NULL,NULL,'run.started.ok','it started','[{"kind":"event","id":"native:runs/goes-on#1/started","label":"AttemptStarted"}]',NULL,NULL,NULL,NULL,'/srv/runward/runs/goes-on/artifacts','{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]}','launcher',NULL,NULL,NULL,0);
CREATE TABLE starts (
    key text primary key,
    event integer not null references events (seq),
    session_key text not null,
    name text not null,
    directory text not null,
    effect text not null,
    state text not null check (state in ('owed', 'begun', 'failed')),
    why text,
    ended_at real,
    check ((state = 'owed') = (ended_at is null))
) strict;
CREATE TABLE status_history (
    id integer primary key,
    session_key text not null references sessions (key),
    attempt integer not null,
    at real not null,
    replaced text,
    status text not null,
    reason_code text not null,
    reason_summary text not null,
    evidence_refs text not null,
    source text not null
) strict;
INSERT INTO "status_history" VALUES(1,'native:runs/delivers',1,1770091506.0,NULL,'running','run.started.ok','it started','[{"kind":"event","id":"native:runs/delivers#1/started","label":"AttemptStarted"}]','daemon');
INSERT INTO "status_history" VALUES(2,'native:runs/delivers',1,1770091567.0,'running','completed','run.completed.ok','exited with 0','[{"kind":"exit","id":"native:runs/delivers#1/ended","label":"declared: exited with 0"}]','daemon');
INSERT INTO "status_history" VALUES(3,'native:runs/lacks',1,1770091506.0,NULL,'running','run.started.ok','it started','[{"kind":"event","id":"native:runs/lacks#1/started","label":"AttemptStarted"}]','daemon');
INSERT INTO "status_history" VALUES(4,'native:runs/lacks',1,1770091567.0,'running','failed','run.failed.missing_artifact','missing required artifacts: report (report.md)','[{"kind":"expected_artifact","id":"report","label":"report.md"}]','daemon');
INSERT INTO "status_history" VALUES(5,'native:runs/goes-on',1,1770091506.0,NULL,'running','run.started.ok','it started','[{"kind":"event","id":"native:runs/goes-on#1/started","label":"AttemptStarted"}]','daemon');
CREATE TRIGGER events_are_facts before update on events
begin select raise(abort, 'an event is never changed'); end;
CREATE INDEX jobs_open on jobs (lane, id) where state in ('waiting', 'held');
CREATE INDEX jobs_running on jobs (epoch) where state = 'running';
CREATE INDEX sessions_started on sessions (started_at);
CREATE TRIGGER attempts_end_once before update on attempts when old.ended_by is not null
begin select raise(abort, 'an attempt ends once'); end;
CREATE INDEX status_history_of on status_history (session_key);
CREATE INDEX decisions_about on decisions (subject);
CREATE INDEX journal_lines_of on journal_lines (directory, name);
CREATE INDEX cursors_open on cursors (root) where phase = 'open';
CREATE INDEX problems_of on problems (path);
CREATE TRIGGER sessions_keep_their_contract
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
CREATE TRIGGER sessions_are_not_replaced before delete on sessions
when exists (select 1 from attempts where session_key = old.key)
begin select raise(abort, 'a session with attempts is neither deleted nor replaced'); end;
CREATE INDEX starts_owed on starts (event) where state = 'owed';
CREATE INDEX starts_of on starts (session_key);
CREATE INDEX starts_called on starts (name);
CREATE TRIGGER starts_begin_once before update on starts when old.state <> 'owed'
begin select raise(abort, 'a run is started once'); end;
CREATE INDEX cancellations_owed on cancellations (event) where carried_out_at is null;
CREATE INDEX cancellations_of on cancellations (session_key, attempt);
COMMIT;
PRAGMA user_version = 4;
