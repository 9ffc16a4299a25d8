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
CREATE TABLE cursors (
    key text primary key,
    root text not null,
    directory text not null,
    session_key text not null,
    phase text not null,
    state text not null
) strict;
INSERT INTO "cursors" VALUES('runs/delivers','runs','delivers','native:runs/delivers','over','[[["run.json",[1466375,316,1795347106511443007]],["exit.json",[1466378,55,1795347106511544738]]],"over",1,"3258528a9e4d72c5","exit.json","3bdff9adbf976a50","declared",false,null,null,null,null,[],1]');
INSERT INTO "cursors" VALUES('runs/lacks','runs','lacks','native:runs/lacks','over','[[["run.json",[1466381,313,1795347106511642373]],["exit.json",[1466383,55,1795347106511710454]]],"over",1,"9bed7d6abd129b4f","exit.json","e422a9439b3d00af","declared",false,null,null,null,null,[],1]');
INSERT INTO "cursors" VALUES('runs/goes-on','runs','goes-on','native:runs/goes-on','open','[[["run.json",[1466386,315,1795347106511860967]]],"open",1,"5c7ff294f8841729","","",null,false,null,null,null,null,[],1]');
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
INSERT INTO "decisions" VALUES(1,1,'sessions/opened','native:runs/delivers',1.79534710840039277079e+09,'decided','contract of 2 artifacts fixed (launcher)','{"contract_basis":"launcher","contract_problem":null}');
INSERT INTO "decisions" VALUES(2,2,'sessions/ended','native:runs/delivers',1.79534710840039277079e+09,'decided','completed: exited with 0','{"evidence":"declared","exit_code":0,"signal":null,"not_delivered":{}}');
INSERT INTO "decisions" VALUES(3,3,'sessions/opened','native:runs/lacks',1.79534710840039277079e+09,'decided','contract of 2 artifacts fixed (launcher)','{"contract_basis":"launcher","contract_problem":null}');
INSERT INTO "decisions" VALUES(4,4,'sessions/ended','native:runs/lacks',1.79534710840039277079e+09,'decided','failed: missing required artifacts: report (report.md)','{"evidence":"declared","exit_code":0,"signal":null,"not_delivered":{"report.md":"absent"}}');
INSERT INTO "decisions" VALUES(5,5,'sessions/opened','native:runs/goes-on',1.79534710840039277079e+09,'decided','contract of 2 artifacts fixed (launcher)','{"contract_basis":"launcher","contract_problem":null}');
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
INSERT INTO "events" VALUES(1,'native:runs/delivers#1/started','AttemptStarted',1,'native:runs/delivers',1770091506.0,1.79534710839211440087e+09,NULL,0,'{"session_key":"native:runs/delivers","attempt":1,"at":1770091506.0,"declaration":{"session_id":"delivers","layout":"native","root":"runs","path":"/srv/runward/runs/delivers","kind":"agent","artifacts_path":"/srv/runward/runs/delivers/artifacts","playbook":null,"agent":null,"invocation_id":null,"containment":null,"has_snapshot":true,"contract":{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]}},"origin":"live","seen_over":true}','f2c0af5fadbb14b51f80812cea7d80b099feb0573b4884ab13bcf606840cad02');
INSERT INTO "events" VALUES(2,'native:runs/delivers#1/ended','AttemptEnded',1,'native:runs/delivers',1770091567.0,1.79534710839211440087e+09,NULL,0,'{"session_key":"native:runs/delivers","attempt":1,"at":1770091567.0,"evidence":"declared","status":"completed","reason_code":"run.completed.ok","reason_summary":"exited with 0","source":"daemon","exit_code":0,"signal":null}','b32ba61e339da9fc0ce64a78916b4eaea23bfd80198ba1072a12953194f58ae2');
INSERT INTO "events" VALUES(3,'native:runs/lacks#1/started','AttemptStarted',1,'native:runs/lacks',1770091506.0,1.79534710839211440087e+09,NULL,0,'{"session_key":"native:runs/lacks","attempt":1,"at":1770091506.0,"declaration":{"session_id":"lacks","layout":"native","root":"runs","path":"/srv/runward/runs/lacks","kind":"agent","artifacts_path":"/srv/runward/runs/lacks/artifacts","playbook":null,"agent":null,"invocation_id":null,"containment":null,"has_snapshot":true,"contract":{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]}},"origin":"live","seen_over":true}','66c252221420f9c0cd7a39be54f6d71d813613e45fa2fefb67dbb7d7cd3a6b1a');
INSERT INTO "events" VALUES(4,'native:runs/lacks#1/ended','AttemptEnded',1,'native:runs/lacks',1770091567.0,1.79534710839211440087e+09,NULL,0,'{"session_key":"native:runs/lacks","attempt":1,"at":1770091567.0,"evidence":"declared","status":"completed","reason_code":"run.completed.ok","reason_summary":"exited with 0","source":"daemon","exit_code":0,"signal":null}','32e8cb254c9c381701b086cb1453df2a258227e9d0cb616f37eba8c2b53f50ec');
INSERT INTO "events" VALUES(5,'native:runs/goes-on#1/started','AttemptStarted',1,'native:runs/goes-on',1770091506.0,1.79534710839211440087e+09,NULL,0,'{"session_key":"native:runs/goes-on","attempt":1,"at":1770091506.0,"declaration":{"session_id":"goes-on","layout":"native","root":"runs","path":"/srv/runward/runs/goes-on","kind":"agent","artifacts_path":"/srv/runward/runs/goes-on/artifacts","playbook":null,"agent":null,"invocation_id":null,"containment":null,"has_snapshot":true,"contract":{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]}},"origin":"live","seen_over":false}','65fe5a7527b7abfcebb6e42c007751532e8d565bb50c054440f079bf16668bd4');
INSERT INTO "events" VALUES(6,'native:runs/delivers#1/finished','SessionFinished',1,'native:runs/delivers',1770091567.0,1.79534710840039277079e+09,'native:runs/delivers#1/ended',1,'{"session_key":"native:runs/delivers","attempt":1,"at":1770091567.0,"status":"completed","reason_code":"run.completed.ok","delivery":"passed"}','a077c06b1f6ee5926faffd67f3053a669772f98aa9916d4da2b3a3ab4a511aa5');
INSERT INTO "events" VALUES(7,'native:runs/lacks#1/finished','SessionFinished',1,'native:runs/lacks',1770091567.0,1.79534710840039277079e+09,'native:runs/lacks#1/ended',1,'{"session_key":"native:runs/lacks","attempt":1,"at":1770091567.0,"status":"failed","reason_code":"run.failed.missing_artifact","delivery":"partial"}','ded7170050afed3109235fff68aaa3ab5a0ad166acf5315436db4bc0f920fc2f');
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
INSERT INTO "jobs" VALUES(32,1,'sessions/opened','native:runs/delivers','done',0.0,NULL,1,0,NULL,1.79534710840039277079e+09);
INSERT INTO "jobs" VALUES(64,2,'sessions/ended','native:runs/delivers','done',0.0,NULL,1,0,NULL,1.79534710840039277079e+09);
INSERT INTO "jobs" VALUES(96,3,'sessions/opened','native:runs/lacks','done',0.0,NULL,1,0,NULL,1.79534710840039277079e+09);
INSERT INTO "jobs" VALUES(128,4,'sessions/ended','native:runs/lacks','done',0.0,NULL,1,0,NULL,1.79534710840039277079e+09);
INSERT INTO "jobs" VALUES(160,5,'sessions/opened','native:runs/goes-on','done',0.0,NULL,1,0,NULL,1.79534710840039277079e+09);
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
INSERT INTO "journal_lines" VALUES(1,1,'/srv/runward/runs/delivers','events.jsonl',0,572,'e3de9f148c2fb85459e5fd5087e9c03c6d084e56856527143490d6bb1ce812ba',NULL);
INSERT INTO "journal_lines" VALUES(2,1,'/srv/runward/runs/delivers','REPLAY.jsonl',0,169,'0ec20271022e11adc502da99cb2f876817008da54c60c3806f0675a581e3b4c3',NULL);
INSERT INTO "journal_lines" VALUES(3,2,'/srv/runward/runs/delivers','events.jsonl',572,895,'ec83a214890fea9f6ef87ea7b08ded6eda9893961717e85aa9f549d59f9331b4',NULL);
INSERT INTO "journal_lines" VALUES(4,2,'/srv/runward/runs/delivers','REPLAY.jsonl',169,168,'8dbb1e745994d050c7ca51f9ff4d04a730bc0252a0a69f3a78b3c99504a7adb8',NULL);
INSERT INTO "journal_lines" VALUES(5,3,'/srv/runward/runs/lacks','events.jsonl',0,569,'ea392f847313e59fff69dc969779671d62d298740ab458d13bfef9bce2c535e0',NULL);
INSERT INTO "journal_lines" VALUES(6,3,'/srv/runward/runs/lacks','REPLAY.jsonl',0,166,'4fe1c32bd872d815bc1d3c6ef38ed14419f6409e3ef05dc67cf988bb47eb785b',NULL);
INSERT INTO "journal_lines" VALUES(7,4,'/srv/runward/runs/lacks','events.jsonl',569,909,'b2afaa38d77330b8ff5360e1acbfb70ecc2a761e486b7a8cc68a9cc2afeb6419',NULL);
INSERT INTO "journal_lines" VALUES(8,4,'/srv/runward/runs/lacks','REPLAY.jsonl',166,167,'53d14c047b579e8a04a907ab889eef6b16b88fdb16ee3cfa64c40de7954e2a69',NULL);
INSERT INTO "journal_lines" VALUES(9,5,'/srv/runward/runs/goes-on','events.jsonl',0,571,'c03dbb5b83825d325ae2fbe8a24809db26409f1c489ec80c3f8602735c59d2df',NULL);
INSERT INTO "journal_lines" VALUES(10,5,'/srv/runward/runs/goes-on','REPLAY.jsonl',0,168,'2ce8ddd0703f5b4f4e0ea09a74f267b6fadf21fdc3a55a8e2b365381ff0d116c',NULL);
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
INSERT INTO "roots" VALUES('runs','/srv/runward/runs','native',1.79534710837241125104e+09);
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
) strict;
INSERT INTO "sessions" VALUES('native:runs/delivers','delivers','native','runs','/srv/runward/runs/delivers','agent','completed',1,'live',1770091506.0,1770091567.0,'declared','run.completed.ok','exited with 0','[{"kind":"exit","id":"native:runs/delivers#1/ended","label":"declared: exited with 0"}]',NULL,NULL,NULL,NULL,'/srv/runward/runs/delivers/artifacts','{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]}','launcher',NULL,'{"status":"passed","checked_at":1795347108.3999937,"missing_required":[],"missing_optional":[],"produced":[{"id":"report","path":"report.md","size":12},{"id":"review","path":"review.md","size":12}]}','passed');
INSERT INTO "sessions" VALUES('native:runs/lacks','lacks','native','runs','/srv/runward/runs/lacks','agent','failed',1,'live',1770091506.0,1770091567.0,'declared','run.failed.missing_artifact','missing required artifacts: report (report.md)','[{"kind":"expected_artifact","id":"report","label":"report.md"}]',NULL,NULL,NULL,NULL,'/srv/runward/runs/lacks/artifacts','{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]}','launcher',NULL,'{"status":"failed","checked_at":1795347108.4002025,"missing_required":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"}],"missing_optional":[],"produced":[{"id":"review","path":"review.md","size":12}]}','partial');
INSERT INTO "sessions" VALUES('native:runs/goes-on','goes-on','native','runs','/srv/runward/runs/goes-on','agent','running',1,'live',1770091506.0,NULL,NULL,'run.started.ok','it started','[{"kind":"event","id":"native:runs/goes-on#1/started","label":"AttemptStarted"}]',NULL,NULL,NULL,NULL,'/srv/runward/runs/goes-on/artifacts','{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]}','launcher',NULL,NULL,NULL);
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
CREATE TRIGGER sessions_keep_their_contract before update of artifact_contract_json, contract_basis on sessions
when old.artifact_contract_json is not new.artifact_contract_json or old.contract_basis is not new.contract_basis
begin select raise(abort, 'a contract never changes after it was snapshotted'); end;
CREATE TRIGGER attempts_end_once before update on attempts when old.ended_by is not null
begin select raise(abort, 'an attempt ends once'); end;
CREATE INDEX status_history_of on status_history (session_key);
CREATE INDEX decisions_about on decisions (subject);
CREATE INDEX journal_lines_of on journal_lines (directory, name);
CREATE INDEX cursors_open on cursors (root) where phase = 'open';
CREATE INDEX problems_of on problems (path);
COMMIT;
PRAGMA user_version = 1;
