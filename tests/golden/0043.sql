BEGIN TRANSACTION;
CREATE TABLE absent_events (
    last integer primary key,
    first integer not null check (first <= last),
    hash text not null check (length(hash) = 64)
) strict;
CREATE TABLE actions (
    key text primary key not null,          -- of the intent, or of the request
    seq integer unique not null,            -- the number of the event
    at real not null,
    principal text,
    session_key text,
    line integer,
    action_type text,
    artifact_id text,
    intent text not null,
    result text not null,
    is_success integer not null check (is_success in (0, 1)),
    error_code text,
    scrip_after integer,
    sandbox text
, told_in text) strict;
CREATE TABLE adopted_lines (
    id integer primary key,
    content blob not null
) strict;
CREATE TABLE approvals (
    id text primary key,
    run text not null references chain_runs (id),
    step integer not null,
    asked_at real not null,
    expires_at real,
    shown text not null,
    shown_hash text not null,
    status text not null check (status in ('asked', 'approved', 'denied', 'expired', 'changed')),
    decided_at real,
    decided_by text,
    note text
) strict, without rowid;
CREATE TABLE artifact_versions (
    id text not null,
    version integer not null,
    at real not null,
    owner_id text not null,
    content text not null references contents (hash),
    code text not null references contents (hash),
    primary key (id, version)
) strict;
CREATE TABLE artifacts (
    id text primary key,
    session_key text not null references sessions (key),
    kind text not null,
    name text not null,
    content text,
    summary text,
    passed integer check (passed in (0, 1)),
    file_path text,
    is_known integer not null check (is_known in (0, 1)),
    place integer not null,
    created_at real not null,
    updated_at real not null, invocation_id text references invocations (id) on delete cascade, is_provisional integer not null default 0 check (is_provisional in (0, 1)), names_file integer not null default 0 check (names_file in (0, 1)), file_sha256 text check (length(file_sha256) = 64), file_size integer check (file_size > 0), file_problem text check (file_problem is null or file_sha256 is null),
    unique (session_key, kind, name)
) strict, without rowid;
CREATE TABLE attempts (
    session_key text not null references sessions (key),
    attempt integer not null,
    started_at real not null,
    status text not null,
    ended_by text,
    reason_code text,
    ended_at real, produced text,
    primary key (session_key, attempt)
) strict, without rowid;
INSERT INTO "attempts" VALUES('native:runs/delivers',1,1770091506.0,'completed','declared','run.completed.ok',1770091567.0,'[["report","report.md",12,1795949064633998928],["review","review.md",12,1795949064634308287]]');
INSERT INTO "attempts" VALUES('native:runs/goes-on',1,1770091506.0,'running',NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('native:runs/lacks',1,1770091506.0,'failed','declared','run.failed.missing_artifact',1770091567.0,'[["review","review.md",12,1795949064634839321]]');
CREATE TABLE balances (
    account text not null,
    resource text not null,
    amount integer not null check (amount >= 0 or account = 'mint'),
    primary key (account, resource)
) strict;
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
, timeout real) strict;
CREATE TABLE chain_run_counts (
    status text primary key,
    runs integer not null
) strict, without rowid;
CREATE TABLE chain_runs (
    id text primary key,
    chain text not null,
    event integer not null,
    fired_by text not null,
    definition text not null,
    trigger_event text not null,
    status text not null check (status in ('running', 'completed', 'failed', 'timed_out', 'aborted', 'cancelled',
        'waiting_approval')),
    reason_code text not null,
    reason_summary text not null,
    current_step integer not null,
    created_at real not null,
    updated_at real not null,
    deadline real, said_by text not null default '', depth integer not null default 1, turn text, cause text,
    unique (chain, fired_by)
) strict, without rowid;
CREATE TABLE "chain_steps" (
    run text not null references chain_runs (id),
    step integer not null,
    attempt integer not null,
    status text not null check (status in ('waiting', 'waiting_approval', 'skipped', 'running', 'completed', 'failed',
        'timed_out', 'aborted', 'cancelled')),
    reason_code text,
    reason_summary text,
    value text,
    session_key text,
    outcome text,
    started_at real not null,
    finished_at real, result text,
    primary key (run, step, attempt)
) strict, without rowid;
CREATE TABLE chains (
    name text primary key,
    status text not null check (status in ('active', 'paused', 'disabled')),
    since real not null,
    note text not null,
    said_by text not null
) strict, without rowid;
CREATE TABLE contents (
    hash text primary key not null,         -- sha256 of the text
    content text not null
) strict;
CREATE TABLE cpu_use (
    principal text not null,
    at real not null,
    seconds real not null
) strict;
CREATE TABLE cursors (
    key text primary key,
    root text not null,
    directory text not null,
    session_key text not null,
    phase text not null,
    state text not null
, activity text check (activity in ('active', 'idle', 'waiting'))) strict;
INSERT INTO "cursors" VALUES('runs/delivers','runs','delivers','native:runs/delivers','over','[[["run.json",[1761315,316,1795949064633912025,65024,1795949064633912025]],["exit.json",[1761318,55,1795949064634454801,65024,1795949064634454801]]],"over",1,"4b8bda894e91c816","exit.json","e87c9eaa898248a0","declared",false,null,null,null,null,[],[],null,false,1,[0,0],null]',NULL);
INSERT INTO "cursors" VALUES('runs/lacks','runs','lacks','native:runs/lacks','over','[[["run.json",[1761321,313,1795949064634737721,65024,1795949064634737721]],["exit.json",[1761323,55,1795949064634961981,65024,1795949064634961981]]],"over",1,"ff662390efad68e3","exit.json","e87c9eaa898248a0","declared",false,null,null,null,null,[],[],null,false,1,[0,0],null]',NULL);
INSERT INTO "cursors" VALUES('runs/goes-on','runs','goes-on','native:runs/goes-on','open','[[["run.json",[1761326,315,1795949064635438744,65024,1795949064635438744]]],"open",1,"2ba404018db6d5ec","","",null,false,null,null,null,null,[],[],null,false,1,null,null]',NULL);
CREATE TABLE daemon (
    id integer primary key check (id = 1),
    epoch integer not null
, stopped_cleanly integer not null default 1, boot_id text not null default '', settled integer not null default 0, settling integer not null default 0, settling_at real not null default 0, clock_boot_id text not null default '', clock_ahead real, clock_at real, state_dir text) strict;
INSERT INTO "daemon" VALUES(1,1,1,'a-boot',0,1280,67474.601398182,'a-boot',1.7958816008327367306e+09,1.79594907497113156318e+09,'/srv/runward/state');
CREATE TABLE decisions (
    id integer primary key,
    event integer not null,
    handler text not null,
    subject text not null,
    at real not null,
    verdict text not null check (verdict in ('decided', 'refused')),
    summary text not null,
    known text
) strict;
INSERT INTO "decisions" VALUES(1,1,'sessions/opened','native:runs/delivers',1.79594907535668683049e+09,'decided','contract of 2 artifacts fixed (late)','{"contract_basis":"late","contract_problem":null}');
INSERT INTO "decisions" VALUES(2,2,'sessions/ended','native:runs/delivers',1.79594907535668683049e+09,'decided','completed: exited with 0','{"evidence":"declared","exit_code":0,"signal":null,"not_delivered":{}}');
INSERT INTO "decisions" VALUES(3,3,'sessions/opened','native:runs/lacks',1.79594907535668683049e+09,'decided','contract of 2 artifacts fixed (late)','{"contract_basis":"late","contract_problem":null}');
INSERT INTO "decisions" VALUES(4,5,'sessions/opened','native:runs/goes-on',1.79594907535668683049e+09,'decided','contract of 2 artifacts fixed (first_look)','{"contract_basis":"first_look","contract_problem":null}');
INSERT INTO "decisions" VALUES(5,4,'sessions/ended','native:runs/lacks',1.79594907540200638771e+09,'decided','failed: missing required artifacts: report (report.md)','{"evidence":"declared","exit_code":0,"signal":null,"not_delivered":{"report.md":"absent"}}');
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
INSERT INTO "events" VALUES(1,'native:runs/delivers#1/started','AttemptStarted',1,'native:runs/delivers',1770091506.0,1.79594907535327291485e+09,NULL,0,'{"session_key":"native:runs/delivers","attempt":1,"at":1770091506.0,"declaration":{"session_id":"delivers","layout":"native","root":"runs","path":"/srv/runward/runs/delivers","kind":"agent","artifacts_path":"/srv/runward/runs/delivers/artifacts","playbook":null,"agent":null,"invocation_id":null,"containment":null,"has_snapshot":true,"contract":{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]},"cwd":null,"prompt":null,"launcher":null},"origin":"live","seen_over":true,"log_before":null}','8f7f557d9c8887d39e7f05d6e23be49e2cb6654ea7b93aa26d9e7bb482c6ce76');
INSERT INTO "events" VALUES(2,'native:runs/delivers#1/ended','AttemptEnded',1,'native:runs/delivers',1770091567.0,1.79594907535327291485e+09,NULL,0,'{"session_key":"native:runs/delivers","attempt":1,"at":1770091567.0,"evidence":"declared","status":"completed","reason_code":"run.completed.ok","reason_summary":"exited with 0","source":"daemon","exit_code":0,"signal":null,"origin":"live","gone_by":null}','24e3892b85b5924024bbb13a08ce729a321e59e501f6c702199cc9b4b9d8fce8');
INSERT INTO "events" VALUES(3,'native:runs/lacks#1/started','AttemptStarted',1,'native:runs/lacks',1770091506.0,1.79594907535327291485e+09,NULL,0,'{"session_key":"native:runs/lacks","attempt":1,"at":1770091506.0,"declaration":{"session_id":"lacks","layout":"native","root":"runs","path":"/srv/runward/runs/lacks","kind":"agent","artifacts_path":"/srv/runward/runs/lacks/artifacts","playbook":null,"agent":null,"invocation_id":null,"containment":null,"has_snapshot":true,"contract":{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]},"cwd":null,"prompt":null,"launcher":null},"origin":"live","seen_over":true,"log_before":null}','7b6daf441292e1bdd716bbebf3620d2790914b0b3a6f9475392286e2abacb4d9');
INSERT INTO "events" VALUES(4,'native:runs/lacks#1/ended','AttemptEnded',1,'native:runs/lacks',1770091567.0,1.79594907535327291485e+09,NULL,0,'{"session_key":"native:runs/lacks","attempt":1,"at":1770091567.0,"evidence":"declared","status":"completed","reason_code":"run.completed.ok","reason_summary":"exited with 0","source":"daemon","exit_code":0,"signal":null,"origin":"live","gone_by":null}','be9f71827c4b956f70628eac17d530f42b93756b0d2324e6151ace835c6b9a16');
INSERT INTO "events" VALUES(5,'native:runs/goes-on#1/started','AttemptStarted',1,'native:runs/goes-on',1770091506.0,1.79594907535327291485e+09,NULL,0,'{"session_key":"native:runs/goes-on","attempt":1,"at":1770091506.0,"declaration":{"session_id":"goes-on","layout":"native","root":"runs","path":"/srv/runward/runs/goes-on","kind":"agent","artifacts_path":"/srv/runward/runs/goes-on/artifacts","playbook":null,"agent":null,"invocation_id":null,"containment":null,"has_snapshot":true,"contract":{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]},"cwd":null,"prompt":null,"launcher":null},"origin":"live","seen_over":false,"log_before":null}','cafb20a2ab187c4f70df042f6e74dc42839cfe63e6eed724e97b9063e932875f');
INSERT INTO "events" VALUES(6,'native:runs/delivers#1/finished','SessionFinished',1,'native:runs/delivers',1770091567.0,1.79594907535668683049e+09,'native:runs/delivers#1/ended',1,'{"session_key":"native:runs/delivers","attempt":1,"at":1770091567.0,"status":"completed","reason_code":"run.completed.ok","delivery":"passed","produced":2,"produced_bytes":24,"origin":"live","has_bundle":true}','51124f4fb25c15dad5fd4b8e0b6ca069ac9c6c76342fd635d00a0710a11b1f40');
INSERT INTO "events" VALUES(7,'native:runs/lacks#1/finished','SessionFinished',1,'native:runs/lacks',1770091567.0,1.79594907540200638771e+09,'native:runs/lacks#1/ended',1,'{"session_key":"native:runs/lacks","attempt":1,"at":1770091567.0,"status":"failed","reason_code":"run.failed.missing_artifact","delivery":"partial","produced":1,"produced_bytes":12,"origin":"live","has_bundle":true}','53af896387595a24b3ec5c1b698a4473a0f672e62c9bdff3f25639da02d28d87');
CREATE TABLE files (
    session_key text not null,
    attempt integer not null,
    id text not null,
    path text not null,
    size integer not null,
    modified_ns integer not null,
    sha256 text check (length(sha256) = 64),
    problem text check (problem in ('gone', 'empty', 'not_regular', 'outside', 'denied', 'unreadable', 'changing',
        'changed', 'too_large')),
    hashed_at real not null,
    primary key (session_key, attempt, id),
    foreign key (session_key, attempt) references attempts (session_key, attempt),
    check ((sha256 is null) = (problem is not null and problem <> 'changed'))
) strict, without rowid;
INSERT INTO "files" VALUES('native:runs/delivers',1,'report','report.md',12,1795949064633998928,'d40b628baf7f757149f5b6d6d6aca317d478ef3a29433064d21cfdd06fb33b8d',NULL,1.79594907641745543487e+09);
INSERT INTO "files" VALUES('native:runs/delivers',1,'review','review.md',12,1795949064634308287,'d40b628baf7f757149f5b6d6d6aca317d478ef3a29433064d21cfdd06fb33b8d',NULL,1.79594907641745543487e+09);
INSERT INTO "files" VALUES('native:runs/lacks',1,'review','review.md',12,1795949064634839321,'d40b628baf7f757149f5b6d6d6aca317d478ef3a29433064d21cfdd06fb33b8d',NULL,1.79594907641745543487e+09);
CREATE TABLE firings (
    id integer primary key,
    chain text not null,
    at real not null,
    fired_by text not null,
    event text not null,
    result text not null check (result like 'firing.%'),
    why text not null,
    run text,
    due_at real
) strict;
CREATE TABLE fleet_events (
    key text primary key,
    at real not null,
    name text not null,
    id text not null,
    fields text not null,
    depth integer not null
) strict;
CREATE TABLE "fleet_outbox" (
    version integer primary key autoincrement,
    kind text not null,
    subject text not null,
    unique (kind, subject)
) strict;
CREATE TABLE fleet_reporting (
    id integer primary key check (id = 1),
    epoch integer not null,
    reported_as text not null,
    walked text
, heard text not null default '[]') strict;
CREATE TABLE held_events (
    id integer primary key,
    chain text not null,
    key text not null,
    at real not null,
    items text not null,
    trigger_hash text not null,
    event text not null,
    event_id text not null,
    fields text not null,
    by_run text, depth integer not null default 0,
    unique (chain, key)
) strict;
CREATE TABLE hooks (
    session_key text primary key,
    at real not null,
    kind text not null check (kind in ('started', 'prompted', 'turn_ended', 'turn_failed', 'ended')),
    ancestors text not null,
    launcher_session text,
    declared text -- what was declared for the session at its first prompt: HookDeclaration as JSON
, whereabouts text) strict, without rowid;
CREATE TABLE intent_files (
    session_key text primary key not null,
    directory text not null,
    attempt integer not null,
    identity text,                          -- device and inode
    "offset" integer not null,
    line integer not null,
    before text not null,                   -- the last bytes before the offset, as hex
    told integer not null,
    state text not null check (state in ('open', 'over', 'read')),
    problem text
, run text) strict;
CREATE TABLE intent_runs (
    session_id text not null,       -- as its run.json said, or as in handlers/layouts/native.py for its launcher's process
    started_at real not null,
    session_key text not null,
    primary key (session_id, started_at, session_key)
) strict, without rowid;
CREATE TABLE invocations (
    id text primary key,
    skill text not null,
    status text not null check (status in ('running', 'completed', 'failed', 'timed_out', 'aborted', 'cancelled')),
    reason_code text,
    session_key text,
    chain_run_id text,
    step_index integer,
    try integer,
    node_metadata text,
    created_at real not null,
    ended_at real,
    check ((status = 'running') = (ended_at is null)),
    check ((step_index is null) = (try is null) and (step_index is null or chain_run_id is not null))
) strict, without rowid;
CREATE TABLE jobs (
    id integer primary key,
    event integer not null,
    handler text not null,
    lane text not null,
    state text not null check (state in ('waiting', 'running', 'done', 'held', 'discarded')),
    run_after real not null default 0,
    token text,
    epoch integer not null,
    tries integer not null default 0,
    error text,
    updated_at real not null, is_head integer not null default 0, is_large integer not null default 0,
    check (id / 32 = event)
) strict;
INSERT INTO "jobs" VALUES(32,1,'sessions/opened','native:runs/delivers','done',0.0,NULL,1,0,NULL,1.79594907535668683049e+09,0,0);
INSERT INTO "jobs" VALUES(64,2,'sessions/ended','native:runs/delivers','done',0.0,NULL,1,0,NULL,1.79594907535668683049e+09,0,0);
INSERT INTO "jobs" VALUES(96,3,'sessions/opened','native:runs/lacks','done',0.0,NULL,1,0,NULL,1.79594907535668683049e+09,0,0);
INSERT INTO "jobs" VALUES(128,4,'sessions/ended','native:runs/lacks','done',0.0,NULL,1,0,NULL,1.79594907540200638771e+09,0,0);
INSERT INTO "jobs" VALUES(160,5,'sessions/opened','native:runs/goes-on','done',0.0,NULL,1,0,NULL,1.79594907535668683049e+09,0,0);
INSERT INTO "jobs" VALUES(192,6,'contracts/hashes','files:native:runs/delivers#1','done',0.0,NULL,1,0,NULL,1.79594907641745543487e+09,0,0);
INSERT INTO "jobs" VALUES(194,6,'bundle/write','files:bundle:native:runs/delivers#1','done',0.0,NULL,1,0,NULL,1.79594907641745543487e+09,0,0);
INSERT INTO "jobs" VALUES(224,7,'contracts/hashes','files:native:runs/lacks#1','done',0.0,NULL,1,0,NULL,1.79594907641745543487e+09,0,0);
INSERT INTO "jobs" VALUES(226,7,'bundle/write','files:bundle:native:runs/lacks#1','done',0.0,NULL,1,0,NULL,1.79594907641745543487e+09,0,0);
CREATE TABLE journal_lines (
    id integer primary key,
    event integer generated always as (id / 256) virtual,
    directory text not null,
    name text not null,
    live integer not null,
    content blob, -- null only where it was written before contents were kept
    "offset" integer,
    places text, -- JSON [[offset, length], …] where the lines don't stand in one piece
    why text,
    check (content is not null or "offset" is not null or why is not null)
) strict;
INSERT INTO "journal_lines" VALUES(256,'/srv/runward/runs/delivers','events.jsonl',1,X'7B227473223A22323032362D30322D30335430343A30353A30362E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A2273657373696F6E5F73746172746564222C2270617468223A22222C2268617368223A2238663766353537643963383838376433396537663035643665323362653439653263623636353465613762393361613236643965376262343832633663653736222C2273657373696F6E5F6964223A2264656C6976657273222C22617474656D7074223A312C22706C6179626F6F6B223A6E756C6C2C226167656E74223A6E756C6C2C226C61796F7574223A226E6174697665222C226B696E64223A226167656E74222C22696E766F636174696F6E5F6964223A6E756C6C2C22636F6E7461696E6D656E74223A6E756C6C2C226172746966616374735F70617468223A222F7372762F72756E776172642F72756E732F64656C69766572732F617274696661637473222C22636F6E74726163745F70726F626C656D223A6E756C6C7D0A7B227473223A22323032362D30322D30335430343A30353A30362E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A22636F6E74726163745F736E617073686F74746564222C2270617468223A22222C2268617368223A2238663766353537643963383838376433396537663035643665323362653439653263623636353465613762393361613236643965376262343832633663653736222C226261736973223A226C617465222C226578706563746564223A5B7B226964223A227265706F7274222C2270617468223A227265706F72742E6D64222C227265717569726564223A747275652C22736F75726365223A22706C6179626F6F6B227D2C7B226964223A22726576696577222C2270617468223A227265766965772E6D64222C227265717569726564223A747275652C22736F75726365223A22706C6179626F6F6B227D5D2C22636F6E7472616374223A7B226578706563746564223A5B7B226964223A227265706F7274222C2270617468223A227265706F72742E6D64222C227265717569726564223A747275652C226465736372697074696F6E223A22222C22736F75726365223A22706C6179626F6F6B227D2C7B226964223A22726576696577222C2270617468223A227265766965772E6D64222C227265717569726564223A747275652C226465736372697074696F6E223A22222C22736F75726365223A22706C6179626F6F6B227D5D7D7D0A',0,NULL,NULL);
INSERT INTO "journal_lines" VALUES(512,'/srv/runward/runs/delivers','events.jsonl',0,X'7B227473223A22323032362D30322D30335430343A30363A30372E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A2261727469666163745F7665726966696564222C2270617468223A22222C2268617368223A2232346533383932623835623539323430323462626231336130386365373239613332316535396535303166366337303231393963633962346239643866636538222C22737461747573223A22706173736564222C2264656C6976657279223A22706173736564222C226D697373696E675F7265717569726564223A5B5D2C226D697373696E675F6F7074696F6E616C223A5B5D2C2270726F6475636564223A5B7B226964223A227265706F7274222C2270617468223A227265706F72742E6D64222C2273697A65223A31327D2C7B226964223A22726576696577222C2270617468223A227265766965772E6D64222C2273697A65223A31327D5D2C22617474656D7074223A312C22636865636B65645F6174223A313739353934393037352E3335353633342C226D6F6469666965645F6E73223A5B313739353934393036343633333939383932382C313739353934393036343633343330383238375D7D0A7B227473223A22323032362D30322D30335430343A30363A30372E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A227374617475735F6368616E676564222C2270617468223A22222C2268617368223A2232346533383932623835623539323430323462626231336130386365373239613332316535396535303166366337303231393963633962346239643866636538222C227265706C61636564223A2272756E6E696E67222C22737461747573223A22636F6D706C65746564222C22726561736F6E5F636F6465223A2272756E2E636F6D706C657465642E6F6B222C22726561736F6E5F73756D6D617279223A2265786974656420776974682030222C22617474656D7074223A312C2265766964656E63655F72656673223A5B7B226B696E64223A2265786974222C226964223A226E61746976653A72756E732F64656C697665727323312F656E646564222C226C6162656C223A226465636C617265643A2065786974656420776974682030227D5D2C22736F75726365223A226461656D6F6E227D0A7B227473223A22323032362D30322D30335430343A30363A30372E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A2273657373696F6E5F66696E6973686564222C2270617468223A22222C2268617368223A2232346533383932623835623539323430323462626231336130386365373239613332316535396535303166366337303231393963633962346239643866636538222C22617474656D7074223A312C22737461747573223A22636F6D706C65746564222C22726561736F6E5F636F6465223A2272756E2E636F6D706C657465642E6F6B222C2264656C6976657279223A22706173736564222C22656E6465645F6279223A226465636C61726564227D0A',923,NULL,NULL);
INSERT INTO "journal_lines" VALUES(768,'/srv/runward/runs/lacks','events.jsonl',1,X'7B227473223A22323032362D30322D30335430343A30353A30362E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A2273657373696F6E5F73746172746564222C2270617468223A22222C2268617368223A2237623664616634343132393265316264643731366262656266333632306432373930393134623062336136663934373533393232383665326162616362346439222C2273657373696F6E5F6964223A226C61636B73222C22617474656D7074223A312C22706C6179626F6F6B223A6E756C6C2C226167656E74223A6E756C6C2C226C61796F7574223A226E6174697665222C226B696E64223A226167656E74222C22696E766F636174696F6E5F6964223A6E756C6C2C22636F6E7461696E6D656E74223A6E756C6C2C226172746966616374735F70617468223A222F7372762F72756E776172642F72756E732F6C61636B732F617274696661637473222C22636F6E74726163745F70726F626C656D223A6E756C6C7D0A7B227473223A22323032362D30322D30335430343A30353A30362E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A22636F6E74726163745F736E617073686F74746564222C2270617468223A22222C2268617368223A2237623664616634343132393265316264643731366262656266333632306432373930393134623062336136663934373533393232383665326162616362346439222C226261736973223A226C617465222C226578706563746564223A5B7B226964223A227265706F7274222C2270617468223A227265706F72742E6D64222C227265717569726564223A747275652C22736F75726365223A22706C6179626F6F6B227D2C7B226964223A22726576696577222C2270617468223A227265766965772E6D64222C227265717569726564223A747275652C22736F75726365223A22706C6179626F6F6B227D5D2C22636F6E7472616374223A7B226578706563746564223A5B7B226964223A227265706F7274222C2270617468223A227265706F72742E6D64222C227265717569726564223A747275652C226465736372697074696F6E223A22222C22736F75726365223A22706C6179626F6F6B227D2C7B226964223A22726576696577222C2270617468223A227265766965772E6D64222C227265717569726564223A747275652C226465736372697074696F6E223A22222C22736F75726365223A22706C6179626F6F6B227D5D7D7D0A',0,NULL,NULL);
INSERT INTO "journal_lines" VALUES(1024,'/srv/runward/runs/lacks','events.jsonl',0,X'7B227473223A22323032362D30322D30335430343A30363A30372E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A2261727469666163745F7665726966696564222C2270617468223A22222C2268617368223A2262653966373138323763346239353666373036323865616331376435333066343262393337353662306432333234653631353161636538333563366239613136222C22737461747573223A226661696C6564222C2264656C6976657279223A227061727469616C222C226D697373696E675F7265717569726564223A5B227265706F7274225D2C226D697373696E675F6F7074696F6E616C223A5B5D2C2270726F6475636564223A5B7B226964223A22726576696577222C2270617468223A227265766965772E6D64222C2273697A65223A31327D5D2C22617474656D7074223A312C22636865636B65645F6174223A313739353934393037352E333535373830342C226D6F6469666965645F6E73223A5B313739353934393036343633343833393332315D7D0A7B227473223A22323032362D30322D30335430343A30363A30372E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A227374617475735F6368616E676564222C2270617468223A22222C2268617368223A2262653966373138323763346239353666373036323865616331376435333066343262393337353662306432333234653631353161636538333563366239613136222C227265706C61636564223A2272756E6E696E67222C22737461747573223A226661696C6564222C22726561736F6E5F636F6465223A2272756E2E6661696C65642E6D697373696E675F6172746966616374222C22726561736F6E5F73756D6D617279223A226D697373696E67207265717569726564206172746966616374733A207265706F727420287265706F72742E6D6429222C22617474656D7074223A312C2265766964656E63655F72656673223A5B7B226B696E64223A2265787065637465645F6172746966616374222C226964223A227265706F7274222C226C6162656C223A227265706F72742E6D64227D5D2C22736F75726365223A226461656D6F6E227D0A7B227473223A22323032362D30322D30335430343A30363A30372E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A2273657373696F6E5F66696E6973686564222C2270617468223A22222C2268617368223A2262653966373138323763346239353666373036323865616331376435333066343262393337353662306432333234653631353161636538333563366239613136222C22617474656D7074223A312C22737461747573223A226661696C6564222C22726561736F6E5F636F6465223A2272756E2E6661696C65642E6D697373696E675F6172746966616374222C2264656C6976657279223A227061727469616C222C22656E6465645F6279223A226465636C61726564227D0A',917,NULL,NULL);
INSERT INTO "journal_lines" VALUES(1280,'/srv/runward/runs/goes-on','events.jsonl',1,X'7B227473223A22323032362D30322D30335430343A30353A30362E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A2273657373696F6E5F73746172746564222C2270617468223A22222C2268617368223A2263616662323061326162313837633466373064663034326636653734646334323833396366653633653665656437323465393762393036336539333238373566222C2273657373696F6E5F6964223A22676F65732D6F6E222C22617474656D7074223A312C22706C6179626F6F6B223A6E756C6C2C226167656E74223A6E756C6C2C226C61796F7574223A226E6174697665222C226B696E64223A226167656E74222C22696E766F636174696F6E5F6964223A6E756C6C2C22636F6E7461696E6D656E74223A6E756C6C2C226172746966616374735F70617468223A222F7372762F72756E776172642F72756E732F676F65732D6F6E2F617274696661637473222C22636F6E74726163745F70726F626C656D223A6E756C6C7D0A7B227473223A22323032362D30322D30335430343A30353A30362E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A22636F6E74726163745F736E617073686F74746564222C2270617468223A22222C2268617368223A2263616662323061326162313837633466373064663034326636653734646334323833396366653633653665656437323465393762393036336539333238373566222C226261736973223A2266697273745F6C6F6F6B222C226578706563746564223A5B7B226964223A227265706F7274222C2270617468223A227265706F72742E6D64222C227265717569726564223A747275652C22736F75726365223A22706C6179626F6F6B227D2C7B226964223A22726576696577222C2270617468223A227265766965772E6D64222C227265717569726564223A747275652C22736F75726365223A22706C6179626F6F6B227D5D2C22636F6E7472616374223A7B226578706563746564223A5B7B226964223A227265706F7274222C2270617468223A227265706F72742E6D64222C227265717569726564223A747275652C226465736372697074696F6E223A22222C22736F75726365223A22706C6179626F6F6B227D2C7B226964223A22726576696577222C2270617468223A227265766965772E6D64222C227265717569726564223A747275652C226465736372697074696F6E223A22222C22736F75726365223A22706C6179626F6F6B227D5D7D7D0A',0,NULL,NULL);
CREATE TABLE launches (
    id text primary key,
    session_key text not null,
    at real not null,
    seal text not null,
    contract_json text,
    timeout real,
    grace real,
    launcher text not null,
    process text not null
, cgroup text) strict;
CREATE TABLE ledger_entries (
    seq integer primary key,
    at real not null,
    action text not null,                   -- the key of what asked for it
    giver text not null,
    taker text not null,
    resource text not null,
    amount integer not null check (amount > 0),  -- units of scrip, millionths of other resources
    reason text not null
) strict;
CREATE TABLE links (
    linked text primary key,
    launcher text not null
) strict, without rowid;
CREATE TABLE moved_payloads (
    event integer primary key,
    payload text not null
) strict;
CREATE TABLE notices (
    id text primary key,
    kind text not null,
    subject text not null,
    recipient text not null,
    title text not null,
    text text not null,
    created_at real not null,
    state text not null default 'pending' check (state in ('pending', 'delivered', 'dead')),
    tries integer not null default 0,
    next_at real not null,
    since real not null,
    error text,
    settled_at real,
    check ((state = 'pending') = (settled_at is null))
) strict, without rowid;
CREATE TABLE orders_taken (
    origin text not null,
    id text not null,
    take integer not null,
    state text not null check (state in ('begun', 'declined', 'ended')),
    session_key text,
    why text,
    result text,
    taken_at real not null, depth integer not null default 0,
    primary key (origin, id, take),
    check ((session_key is null) = (state = 'declined')),
    check ((why is null) = (state <> 'declined')),
    check ((result is null) = (state <> 'ended'))
) strict;
CREATE TABLE packed (
    session_key text primary key,
    recorded_at real not null,
    document blob not null
) strict;
CREATE TABLE places (
    key text primary key,
    root text not null,
    place text not null,
    session_key text,
    signature text
) strict, without rowid;
CREATE TABLE plays (
    session_key text primary key references sessions (key),
    show text not null,
    topic text not null,
    name text not null,
    status text,
    agent text,
    model text,
    started_at real,
    finished_at real,
    depends_on text not null,
    further text,
    created_at real not null,
    updated_at real not null
) strict;
CREATE TABLE principals (
    id text primary key not null,
    created_at real not null,
    users text not null,                    -- JSON: the users that may act as it beside the daemon's
    disk_quota integer not null,
    disk_used integer not null check (disk_used >= 0),
    cpu_seconds real,                       -- in each window; null: no limit
    version integer not null
, disk_default integer default 0, cpu_default real not null default 0) strict;
CREATE TABLE problems (
    path text not null,
    line integer,
    message text not null,
    mend text,
    since real not null
) strict;
CREATE TABLE prunings (
    event integer primary key,
    before real not null,
    said_by text not null,
    sessions integer not null default 0,
    ended_at real
) strict;
CREATE TABLE receipts (
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
INSERT INTO "receipts" VALUES(1,'native:runs/delivers',1,'sha256:ebc3c78a61f53f14e655407da4b7deb0e488cb2317ac8628e9aacb76f37d6137',NULL,'/srv/runward/runs/delivers','[["REPLAY.jsonl",463,"c1188a5346c2dbd71e91bf712ec38595a853fd54aeba59c0c30422fcb71c63f9",".REPLAY.jsonl.ad2167374ea8.tmp"],["PR_SUMMARY.md",256,"ec14bb83997ffd989c59938b7ca2683612e478e0de1eb33c0b2347ac6134e152",".PR_SUMMARY.md.09a44795d300.tmp"],["RECEIPT.json",1051,"669cf99153f6b9e2e234e9fe7150035524bc225a031478a737f44cabdc3e5a85",".RECEIPT.json.bd453bf666be.tmp"]]','["native:runs/delivers","delivers","native","/srv/runward/runs/delivers","/srv/runward/runs/delivers",1,[1770091506.0,1770091567.0,null,null,"8f7f557d9c8887d39e7f05d6e23be49e2cb6654ea7b93aa26d9e7bb482c6ce76",null,0,[1,1]],[1770091567.0,"completed","run.completed.ok","exited with 0","passed","51124f4fb25c15dad5fd4b8e0b6ca069ac9c6c76342fd635d00a0710a11b1f40"],["seed","local-dev",65536,["pytest*","python -m pytest*","python3 -m pytest*","python -m unittest*","python3 -m unittest*","uv run pytest*","tox*","nox*","cargo test*","cargo nextest*","cargo check*","cargo clippy*","go test*","go vet*","jest*","npx jest*","npm test*","npm run test*","yarn test*","pnpm test*","vitest*","npx vitest*","make test*","make check*","mypy*","ruff check*"],[],null],[],[],null,null,null,null,0,null,null]','["delivers",[],[],[],null,null,61.0,0.0,null,null,null,null,false,null,0,0]',NULL,1.79594907641745543487e+09,1.7959490766315062046e+09,NULL);
INSERT INTO "receipts" VALUES(2,'native:runs/lacks',1,'sha256:888ad23c31c0447217f18e03de4aac24e163874a4ee781c1bd4ffd95238b595a','sha256:ebc3c78a61f53f14e655407da4b7deb0e488cb2317ac8628e9aacb76f37d6137','/srv/runward/runs/lacks','[["REPLAY.jsonl",470,"d3a85106579aeabf2a1318e49345a415ce54e3734a82a8e4cad6910cc9406c6b",".REPLAY.jsonl.16bde00e44f0.tmp"],["PR_SUMMARY.md",443,"961e72825f3f7cb921379ad8dbc73af675172f5c92fdd8f8c98d5517ae386fe2",".PR_SUMMARY.md.419cff6e69bd.tmp"],["RECEIPT.json",1126,"07db000bd8ba72e9cc583a435d2205c0bb71e1688743c2986a7755a34f0b23ec",".RECEIPT.json.8f83a0299a98.tmp"]]','["native:runs/lacks","lacks","native","/srv/runward/runs/lacks","/srv/runward/runs/lacks",1,[1770091506.0,1770091567.0,null,null,"7b6daf441292e1bdd716bbebf3620d2790914b0b3a6f9475392286e2abacb4d9",null,0,[1,1]],[1770091567.0,"failed","run.failed.missing_artifact","missing required artifacts: report (report.md)","partial","53af896387595a24b3ec5c1b698a4473a0f672e62c9bdff3f25639da02d28d87"],["seed","local-dev",65536,["pytest*","python -m pytest*","python3 -m pytest*","python -m unittest*","python3 -m unittest*","uv run pytest*","tox*","nox*","cargo test*","cargo nextest*","cargo check*","cargo clippy*","go test*","go vet*","jest*","npx jest*","npm test*","npm run test*","yarn test*","pnpm test*","vitest*","npx vitest*","make test*","make check*","mypy*","ruff check*"],[],null],[],["check which artifacts are missing, and have them delivered: `runward session show lacks`"],null,null,null,null,0,null,null]','["lacks",[],[],[],null,null,61.0,0.0,null,null,null,["missing required artifacts: report (report.md)",["check which artifacts are missing, and have them delivered: `runward session show lacks`"]],false,null,0,0]',NULL,1.79594907641745543487e+09,1.79594907663169646265e+09,NULL);
CREATE TABLE "remote_steps" (
    id text primary key,
    run text not null,
    step integer not null,
    attempt integer not null,
    host text,
    labels text not null default '[]',
    skill text not null,
    body text not null,
    begin_within real,
    placed_at real not null,
    wanted text not null check (wanted in ('placed', 'cancelled', 'settled')),
    check ((host is null) = (labels <> '[]'))
) strict;
CREATE TABLE replays (
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
CREATE TABLE restores (
    id integer primary key,
    at real not null,
    head_seq integer not null,
    head_hash text not null,
    epoch integer not null
) strict;
CREATE TABLE roots (
    name text primary key,
    path text not null,
    layout text not null,
    first_seen_at real not null
, identity text, grew_elsewhere_at real) strict, without rowid;
INSERT INTO "roots" VALUES('runs','/srv/runward/runs','native',1.79594907490950250628e+09,'65024:1761312',NULL);
CREATE TABLE schedules (
    chain text primary key,
    words text,
    since real not null,
    due real,
    timer text,
    runs integer not null,
    last_due real,
    updated_at real not null
) strict, without rowid;
CREATE TABLE session_counts (
    status text primary key,
    sessions integer not null
) strict, without rowid;
INSERT INTO "session_counts" VALUES('completed',1);
INSERT INTO "session_counts" VALUES('failed',1);
INSERT INTO "session_counts" VALUES('running',1);
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
, folded integer not null default 0 check (folded in (0, 1)), packed integer not null default 0 check (packed in (0, 1)), unseen_at real) strict;
INSERT INTO "sessions" VALUES('native:runs/delivers','delivers','native','runs','/srv/runward/runs/delivers','agent','completed',1,'live',1770091506.0,1770091567.0,'declared','run.completed.ok','exited with 0','[{"kind":"exit","id":"native:runs/delivers#1/ended","label":"declared: exited with 0"}]',NULL,NULL,NULL,NULL,'/srv/runward/runs/delivers/artifacts','{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]}','late',NULL,'{"status":"passed","checked_at":1795949075.355634,"missing_required":[],"missing_optional":[],"produced":[{"id":"report","path":"report.md","size":12},{"id":"review","path":"review.md","size":12}]}','passed',0,0,NULL);
INSERT INTO "sessions" VALUES('native:runs/lacks','lacks','native','runs','/srv/runward/runs/lacks','agent','failed',1,'live',1770091506.0,1770091567.0,'declared','run.failed.missing_artifact','missing required artifacts: report (report.md)','[{"kind":"expected_artifact","id":"report","label":"report.md"}]',NULL,NULL,NULL,NULL,'/srv/runward/runs/lacks/artifacts','{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]}','late',NULL,'{"status":"failed","checked_at":1795949075.3557804,"missing_required":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"}],"missing_optional":[],"produced":[{"id":"review","path":"review.md","size":12}]}','partial',0,0,1770091567.0);
INSERT INTO "sessions" VALUES('native:runs/goes-on','goes-on','native','runs','/srv/runward/runs/goes-on','agent','running',1,'live',1770091506.0,NULL,NULL,'run.started.ok','it started','[{"kind":"event","id":"native:runs/goes-on#1/started","label":"AttemptStarted"}]',NULL,NULL,NULL,NULL,'/srv/runward/runs/goes-on/artifacts','{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]}','first_look',NULL,NULL,NULL,0,0,NULL);
CREATE TABLE shared_artifacts (
    id text primary key not null,
    type text not null,
    content text not null references contents (hash),
    code text not null references contents (hash),
    owner_id text not null,
    created_at real not null,
    updated_at real not null,
    executable integer not null check (executable in (0, 1)),
    price integer not null,
    policy text,
    deleted_at real,
    deleted_by text,
    interface text,
    depends_on text not null,
    has_standing integer not null check (has_standing in (0, 1)),
    can_execute integer not null check (can_execute in (0, 1)),
    memory_artifact_id text,
    access_contract_id text,
    version integer not null
, written_by text not null default '', disk_of text) strict;
CREATE TABLE shows (
    path text primary key,
    topic text not null,
    plays integer not null,
    created_at real not null                -- that of its first play
) strict, without rowid;
CREATE TABLE signings (
    id integer primary key,
    event integer not null unique,
    session_key text not null,
    attempt integer not null,
    scheme text not null check (scheme in ('ed25519', 'nostr')),
    said_by text not null,
    settled_at real,
    signature text,
    part text,
    problem text,
    check ((settled_at is null) = (signature is null and problem is null)),
    check ((signature is null) = (part is null))
) strict;
CREATE TABLE starts (
    key text primary key,
    event integer not null references events (seq),
    session_key text not null,
    name text not null,
    directory text not null,
    effect text not null,
    state text not null check (state in ('owed', 'begun', 'failed')),
    why text,
    ended_at real, is_seen integer not null default 0,
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
INSERT INTO "status_history" VALUES(4,'native:runs/goes-on',1,1770091506.0,NULL,'running','run.started.ok','it started','[{"kind":"event","id":"native:runs/goes-on#1/started","label":"AttemptStarted"}]','daemon');
INSERT INTO "status_history" VALUES(5,'native:runs/lacks',1,1770091567.0,'running','failed','run.failed.missing_artifact','missing required artifacts: report (report.md)','[{"kind":"expected_artifact","id":"report","label":"report.md"}]','daemon');
CREATE TABLE tombstones (
    session_key text primary key,
    session_id text not null,
    status text not null,
    attempt integer not null,
    started_at real not null,
    finished_at real not null,
    event integer not null,
    hash text not null check (length(hash) = 64),
    pruned_at real not null,
    kept text not null
) strict, without rowid;
CREATE TABLE uncompared (
    directory text not null,
    name text not null,
    session_key text not null,
    primary key (directory, name)
) strict, without rowid;
CREATE TABLE unseen_counts (
    minute integer primary key,             -- of Unix time
    sessions integer not null
) strict;
INSERT INTO "unseen_counts" VALUES(29501526,1);
CREATE TABLE "usage" (
    hour integer not null,
    session_key text not null,
    model text not null,
    speed text not null,
    size integer not null,
    -- Before the columns that are not of the key: SQLite 3.40 takes the others for NULL when it checks the table.
    is_reported integer not null check (is_reported = (reported_nanousd is not null)),
    replies integer not null,
    fresh_input integer not null,
    cache_read integer not null,
    cache_write_5m integer not null,
    cache_write_1h integer not null,
    output integer not null,
    reported_nanousd integer,
    primary key (hour, session_key, model, speed, size, is_reported)
) strict, without rowid;
CREATE TABLE usage_read (
    session_key text primary key,
    looks integer not null
) strict, without rowid;
CREATE TABLE watched_files (
    glob text not null,
    path text not null,
    signature text not null,
    primary key (glob, path)
) strict, without rowid;
CREATE TABLE watched_globs (
    glob text primary key,
    since real not null
) strict, without rowid;
CREATE TABLE worktrees (
    session_key text primary key,
    event integer not null,
    name text not null,
    repo text not null,
    removed_at real,
    note text
) strict;
CREATE TRIGGER events_are_facts before update on events
begin select raise(abort, 'an event is never changed'); end;
CREATE TRIGGER attempts_end_once before update on attempts when old.ended_by is not null
begin select raise(abort, 'an attempt ends once'); end;
CREATE INDEX status_history_of on status_history (session_key);
CREATE INDEX cursors_open on cursors (root) where phase = 'open';
CREATE INDEX problems_of on problems (path);
CREATE TRIGGER sessions_are_not_replaced before delete on sessions
when exists (select 1 from attempts where session_key = old.key)
begin select raise(abort, 'a session with attempts is neither deleted nor replaced'); end;
CREATE INDEX starts_owed on starts (event) where state = 'owed';
CREATE INDEX starts_of on starts (session_key);
CREATE INDEX starts_called on starts (name);
CREATE INDEX cancellations_owed on cancellations (event) where carried_out_at is null;
CREATE INDEX cancellations_of on cancellations (session_key, attempt);
CREATE INDEX journal_lines_owed on journal_lines (id) where "offset" is null and why is null;
CREATE TRIGGER journal_lines_keep_their_content before update of id, directory, name, content on journal_lines
begin select raise(abort, 'what was to be written is never changed'); end;
CREATE TRIGGER files_are_facts before update on files
begin select raise(abort, 'what was recorded of a file is never changed'); end;
CREATE INDEX places_in on places (root);
CREATE INDEX places_of on places (session_key);
CREATE INDEX links_of on links (launcher);
CREATE INDEX jobs_open on jobs (lane, id) where state in ('waiting', 'held');
CREATE INDEX jobs_running on jobs (epoch) where state = 'running';
CREATE TRIGGER jobs_have_an_event before insert on jobs when not exists (select 1 from events where seq = new.event)
begin select raise(abort, 'FOREIGN KEY: a job belongs to an event that is there'); end;
CREATE INDEX decisions_about on decisions (subject);
CREATE INDEX uncompared_of on uncompared (session_key);
CREATE INDEX starts_by_event on starts (event);
CREATE INDEX tombstones_called on tombstones (session_id);
CREATE TRIGGER events_are_not_pruned_twice before insert on events
when exists (
    select 1 from tombstones where session_key = new.lane and substr(new.key, 1, length(new.lane) + 1) = new.lane || '#'
    and cast(substr(new.key, length(new.lane) + 2) as integer) between 1 and attempt
)
begin select raise(abort, 'an event of a pruned attempt is known already'); end;
CREATE INDEX prunings_owed on prunings (event) where ended_at is null;
CREATE VIEW outbox as select id, event, directory, name, live,
    coalesce((select a.content from adopted_lines a where a.id = l.id), l.content) as content
from journal_lines l where "offset" is null and why is null;
CREATE INDEX sessions_unpacked on sessions (finished_at) where packed = 0 and finished_at is not null;
CREATE INDEX sessions_called on sessions (session_id);
CREATE TRIGGER sessions_counted after insert on sessions
begin
    insert into session_counts values (new.status, 1) on conflict (status) do update set sessions = sessions + 1;
end;
CREATE TRIGGER sessions_recounted after update of status on sessions when old.status is not new.status
begin
    update session_counts set sessions = sessions - 1 where status = old.status;
    insert into session_counts values (new.status, 1) on conflict (status) do update set sessions = sessions + 1;
end;
CREATE TRIGGER sessions_uncounted after delete on sessions
begin
    update session_counts set sessions = sessions - 1 where status = old.status;
end;
CREATE INDEX launches_of_sessions on launches (session_key, at);
CREATE TRIGGER launches_are_facts before update on launches
begin select raise(abort, 'a launch is never changed'); end;
CREATE TRIGGER sessions_keep_their_contract
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
CREATE INDEX jobs_due on jobs (run_after) where state in ('waiting', 'held');
CREATE TRIGGER events_are_not_replaced before insert on events
when exists (select 1 from events where seq = new.seq or key = new.key)
begin select raise(abort, 'UNIQUE: an event is never replaced'); end;
CREATE TRIGGER sessions_are_not_replaced_by_inserting before insert on sessions
when exists (select 1 from sessions where key = new.key)
begin select raise(abort, 'UNIQUE: a session is never replaced'); end;
CREATE TRIGGER attempts_are_not_replaced before insert on attempts
when exists (select 1 from attempts where session_key = new.session_key and attempt = new.attempt)
begin select raise(abort, 'UNIQUE: an attempt is never replaced'); end;
CREATE TRIGGER status_history_is_not_replaced before insert on status_history
when exists (select 1 from status_history where id = new.id)
begin select raise(abort, 'UNIQUE: a change of status is never replaced'); end;
CREATE TRIGGER decisions_are_not_replaced before insert on decisions
when exists (select 1 from decisions where id = new.id)
begin select raise(abort, 'UNIQUE: a decision is never replaced'); end;
CREATE TRIGGER files_are_not_replaced before insert on files
when exists (select 1 from files where session_key = new.session_key and attempt = new.attempt and id = new.id)
begin select raise(abort, 'UNIQUE: what was recorded of a file is never replaced'); end;
CREATE TRIGGER journal_lines_are_not_replaced before insert on journal_lines
when exists (select 1 from journal_lines where id = new.id)
begin select raise(abort, 'UNIQUE: what was to be written is never replaced'); end;
CREATE TRIGGER starts_are_not_replaced before insert on starts
when exists (select 1 from starts where key = new.key)
begin select raise(abort, 'UNIQUE: a run is started once'); end;
CREATE TRIGGER launches_are_not_replaced before insert on launches
when exists (select 1 from launches where id = new.id)
begin select raise(abort, 'UNIQUE: a launch is never replaced'); end;
CREATE INDEX chain_runs_of on chain_runs (chain, created_at);
CREATE TRIGGER chain_runs_end_once before update on chain_runs
when old.status not in ('running', 'waiting_approval')
begin select raise(abort, 'a chain run ends once'); end;
CREATE TRIGGER chain_runs_keep_what_fired_them before update of id, chain, fired_by, definition, trigger_event on chain_runs
begin select raise(abort, 'what fired a chain run, and its definition, never change'); end;
CREATE TRIGGER chain_runs_are_not_replaced before insert on chain_runs
when exists (select 1 from chain_runs where id = new.id or (chain = new.chain and fired_by = new.fired_by))
begin select raise(abort, 'UNIQUE: an event fires a chain once'); end;
CREATE INDEX events_asked on events (lane) where substr(key, 1, length(lane) + 1) <> lane || '#';
CREATE UNIQUE INDEX chain_steps_sessions on chain_steps (session_key) where session_key is not null;
CREATE TRIGGER chain_steps_end_once before update on chain_steps
when old.status not in ('waiting', 'waiting_approval', 'running')
begin select raise(abort, 'a try of a step ends once'); end;
CREATE INDEX approvals_of on approvals (run);
CREATE INDEX approvals_asked on approvals (asked_at) where status = 'asked';
CREATE TRIGGER approvals_are_decided_once before update on approvals
when old.status <> 'asked' or new.id <> old.id or new.run <> old.run or new.step <> old.step
    or new.shown <> old.shown or new.shown_hash <> old.shown_hash
begin select raise(abort, 'an approval is decided once, for what was shown'); end;
CREATE TRIGGER approvals_are_not_replaced before insert on approvals
when exists (select 1 from approvals where id = new.id)
begin select raise(abort, 'UNIQUE: an approval is asked for once'); end;
CREATE INDEX firings_of on firings (chain, at);
CREATE INDEX firings_by_events on firings (chain, at) where result = 'firing.fired.event';
CREATE TRIGGER firings_never_change before update on firings
begin select raise(abort, 'what became of a firing never changes'); end;
CREATE INDEX chain_runs_open on chain_runs (chain, created_at) where status in ('running', 'waiting_approval');
CREATE INDEX artifacts_by_time on artifacts (created_at);
CREATE INDEX artifacts_of_kind on artifacts (kind, created_at);
CREATE TRIGGER artifacts_keep_whose_they_are before update of id, session_key, kind, name, created_at on artifacts
begin select raise(abort, 'an outcome stays what it is of'); end;
CREATE INDEX notices_pending on notices (next_at) where state = 'pending';
CREATE INDEX notices_settled on notices (settled_at) where state <> 'pending';
CREATE TRIGGER notices_stay_delivered before update on notices when old.state = 'delivered'
begin select raise(abort, 'a notice is delivered once'); end;
CREATE TRIGGER held_events_never_change before update on held_events
begin select raise(abort, 'what an event told never changes'); end;
CREATE TRIGGER chain_runs_keep_their_cause before update of cause on chain_runs
begin select raise(abort, 'what fired a chain run never changes'); end;
CREATE INDEX chain_steps_slots on chain_steps (status) where status in ('running', 'waiting');
CREATE INDEX worktrees_owed on worktrees (event) where removed_at is null;
CREATE TRIGGER worktrees_are_removed_once before update on worktrees when old.removed_at is not null
begin select raise(abort, 'a worktree is removed once'); end;
CREATE INDEX receipts_to_place on receipts (seq) where placed_at is null;
CREATE TRIGGER receipts_form_a_chain before insert on receipts
when new.receipt_hash is not null
    and new.prev is not (select receipt_hash from receipts where receipt_hash is not null order by seq desc limit 1)
begin select raise(abort, 'a receipt follows the one before it'); end;
CREATE TRIGGER receipts_are_not_replaced before insert on receipts
when exists (select 1 from receipts where seq = new.seq or (session_key = new.session_key and attempt = new.attempt))
begin select raise(abort, 'UNIQUE: a receipt is never replaced'); end;
CREATE TRIGGER receipts_stay before delete on receipts
begin select raise(abort, 'a receipt is never deleted'); end;
CREATE UNIQUE INDEX invocations_of_steps on invocations (chain_run_id, step_index, try) where step_index is not null;
CREATE UNIQUE INDEX invocations_of_chain_runs on invocations (chain_run_id)
where chain_run_id is not null and step_index is null;
CREATE UNIQUE INDEX invocations_of_sessions on invocations (session_key) where session_key is not null;
CREATE TRIGGER invocations_end_once before update on invocations
when old.status <> 'running' or new.id <> old.id or new.skill <> old.skill or new.session_key is not old.session_key
    or new.chain_run_id is not old.chain_run_id or new.step_index is not old.step_index or new.try is not old.try
begin select raise(abort, 'an invocation stays what it is, and ends once'); end;
CREATE TRIGGER invocations_are_not_replaced before insert on invocations
when exists (select 1 from invocations where id = new.id)
begin select raise(abort, 'UNIQUE: an invocation is ordered once'); end;
CREATE INDEX chain_runs_by_event on chain_runs (event);
CREATE INDEX firings_of_runs on firings (run) where run is not null;
CREATE INDEX artifacts_of_invocations on artifacts (invocation_id) where invocation_id is not null;
CREATE INDEX ledger_entries_giver on ledger_entries (giver);
CREATE INDEX ledger_entries_taker on ledger_entries (taker);
CREATE TRIGGER ledger_entries_move after insert on ledger_entries begin
    insert or ignore into balances (account, resource, amount) values (new.giver, new.resource, 0);
    insert or ignore into balances (account, resource, amount) values (new.taker, new.resource, 0);
    update balances set amount = amount - new.amount where account = new.giver and resource = new.resource;
    update balances set amount = amount + new.amount where account = new.taker and resource = new.resource;
end;
CREATE TRIGGER ledger_entries_stay before update on ledger_entries begin
    select raise(abort, 'an entry of the ledger is never changed');
end;
CREATE TRIGGER ledger_entries_last before delete on ledger_entries begin
    select raise(abort, 'an entry of the ledger is never deleted');
end;
CREATE INDEX cpu_use_principal on cpu_use (principal, at);
CREATE INDEX actions_principal on actions (principal, seq);
CREATE INDEX actions_artifact on actions (artifact_id, seq);
CREATE INDEX intent_files_owed on intent_files (state) where state <> 'read';
CREATE INDEX signings_owed on signings (id) where settled_at is null;
CREATE INDEX signings_of_receipts on signings (session_key, attempt) where signature is not null;
CREATE TRIGGER signings_settle_once before update on signings when old.settled_at is not null
begin select raise(abort, 'a signing is settled once'); end;
CREATE TRIGGER replays_only_grow before update on replays
when new.length < old.length or new.session_key is not old.session_key or new.attempt is not old.attempt
    or new.rules is not old.rules or new.issue_number is not old.issue_number
    or new.policy_bundle_id is not old.policy_bundle_id
    or (new.length = old.length and new.sha256 is not old.sha256)
begin select raise(abort, 'what was shown of a replay stays'); end;
CREATE INDEX shared_artifacts_names on shared_artifacts (id collate nocase);
CREATE INDEX intent_runs_keys on intent_runs (session_key);
CREATE INDEX intent_files_runs on intent_files (run) where run is not null;
CREATE TRIGGER receipts_are_facts
before update of seq, session_key, attempt, receipt_hash, prev, parts, facts, summary, problem, recorded_at on receipts
begin select raise(abort, 'a receipt is never changed'); end;
CREATE TRIGGER receipts_are_placed_once before update of placed_at, place_problem, directory on receipts
when old.placed_at is not null
begin select raise(abort, 'a receipt is placed once'); end;
CREATE TRIGGER chain_runs_counted after insert on chain_runs
begin
    insert into chain_run_counts values (new.status, 1) on conflict (status) do update set runs = runs + 1;
end;
CREATE TRIGGER chain_runs_recounted after update of status on chain_runs when old.status is not new.status
begin
    update chain_run_counts set runs = runs - 1 where status = old.status;
    insert into chain_run_counts values (new.status, 1) on conflict (status) do update set runs = runs + 1;
end;
CREATE TRIGGER chain_runs_uncounted after delete on chain_runs
begin
    update chain_run_counts set runs = runs - 1 where status = old.status;
end;
CREATE INDEX shows_newest on shows (created_at desc, path);
CREATE INDEX shows_topics on shows (topic);
CREATE INDEX plays_of_shows on plays (show, name);
CREATE INDEX plays_in_time on plays (show, created_at, name);
CREATE TRIGGER plays_counted after insert on plays
begin
    insert into shows values (new.show, new.topic, 1, new.created_at)
    on conflict (path) do update set plays = plays + 1, created_at = min(created_at, excluded.created_at);
end;
CREATE TRIGGER plays_uncounted after delete on plays
begin
    update shows set plays = plays - 1, created_at = coalesce((select min(created_at) from plays where show = old.show), 0)
    where path = old.show;
    delete from shows where path = old.show and plays = 0;
end;
CREATE INDEX notices_newest on notices (created_at desc, id);
CREATE INDEX shared_artifacts_owner on shared_artifacts (owner_id, id);
CREATE INDEX shared_artifacts_owned on shared_artifacts (owner_id, id) where deleted_at is null;
CREATE INDEX notices_dead on notices (settled_at) where state = 'dead';
CREATE INDEX sessions_started on sessions (started_at desc, key);
CREATE INDEX chain_runs_by_time on chain_runs (created_at desc);
CREATE INDEX invocations_by_time on invocations (created_at desc, step_index desc);
CREATE INDEX events_seen on events (payload ->> 'request') where type = 'SessionSeenRequested';
CREATE INDEX sessions_unseen on sessions (unseen_at desc, key) where unseen_at is not null;
CREATE TRIGGER sessions_unseen_counted after update of unseen_at on sessions when old.unseen_at is not new.unseen_at
begin
    update unseen_counts set sessions = sessions - 1 where minute = cast(old.unseen_at / 60 as integer);
    delete from unseen_counts where minute = cast(old.unseen_at / 60 as integer) and sessions = 0;
    insert into unseen_counts select cast(new.unseen_at / 60 as integer), 1 where new.unseen_at is not null
    on conflict (minute) do update set sessions = sessions + 1;
end;
CREATE TRIGGER sessions_unseen_uncounted after delete on sessions when old.unseen_at is not null
begin
    update unseen_counts set sessions = sessions - 1 where minute = cast(old.unseen_at / 60 as integer);
    delete from unseen_counts where minute = cast(old.unseen_at / 60 as integer) and sessions = 0;
end;
CREATE TRIGGER sessions_unseen after update of status, attempt, finished_at, reason_code, packed on sessions
when old.unseen_at is not null or new.status in ('failed', 'timed_out', 'aborted')
begin
    update sessions set unseen_at = iif(
        packed = 0 and origin = 'live' and status in ('failed', 'timed_out', 'aborted') and reason_code <> 'run.aborted.user'
        and not exists (select 1 from events e where e.key = sessions.key || '#' || sessions.attempt || '/seen'),
        finished_at, null)
    where key = new.key;
end;
CREATE TRIGGER sessions_seen after insert on events when new.type = 'SessionSeenRequested'
begin
    update sessions set unseen_at = null where key = new.lane and new.key = key || '#' || attempt || '/seen';
end;
CREATE INDEX jobs_next on jobs ((lane glob 'timer:schedule:*'), run_after, id)
  where is_head = 1 and state = 'waiting' and lane not glob 'files:*';
CREATE INDEX jobs_next_in_background on jobs (is_large, run_after, id)
  where is_head = 1 and state = 'waiting' and lane glob 'files:*';
CREATE TRIGGER jobs_head_after_insert after insert on jobs when new.state in ('waiting', 'held')
begin
    update jobs set is_head = 1 - is_head
    where id in (select id from jobs where lane = new.lane and state in ('waiting', 'held') order by id limit 2)
      and is_head <> (id = (select min(id) from jobs where lane = new.lane and state in ('waiting', 'held')));
end;
CREATE TRIGGER jobs_head_after_update after update of state on jobs
when (new.state in ('waiting', 'held')) <> (old.state in ('waiting', 'held'))
begin
    update jobs set is_head = 0 where id = new.id and is_head = 1;
    update jobs set is_head = 1 - is_head
    where id in (select id from jobs where lane = new.lane and state in ('waiting', 'held') order by id limit 2)
      and is_head <> (id = (select min(id) from jobs where lane = new.lane and state in ('waiting', 'held')));
end;
CREATE TRIGGER jobs_head_after_delete after delete on jobs when old.state in ('waiting', 'held')
begin
    update jobs set is_head = 1
    where id = (select min(id) from jobs where lane = old.lane and state in ('waiting', 'held')) and is_head = 0;
end;
CREATE INDEX jobs_offered on jobs (lane) where state in ('waiting', 'held') and handler = 'chains/offered';
CREATE INDEX jobs_repairing on jobs (event) where state in ('waiting', 'held') and handler = 'journal/repair';
CREATE TRIGGER starts_begin_once
before update of key, event, session_key, name, directory, effect, state, why, ended_at on starts
when old.state <> 'owed' and not (old.state = 'begun' and new.state = 'begun' and old.why is null and new.why is not null
    and (new.key, new.event, new.session_key, new.name, new.directory, new.effect, new.ended_at)
        = (old.key, old.event, old.session_key, old.name, old.directory, old.effect, old.ended_at))
begin select raise(abort, 'a run is started once'); end;
CREATE INDEX starts_unseen on starts (event) where state = 'begun' and why is null and is_seen = 0;
CREATE TRIGGER starts_seen after insert on sessions when new.invocation_id is not null
begin
    update starts set is_seen = 1 where session_key = new.key and is_seen = 0;
end;
CREATE INDEX hooks_of_launched on hooks (launcher_session) where launcher_session is not null;
CREATE INDEX sessions_ending on sessions (substr(session_id, -8))
where session_id glob '????????-????-????-????-????????????';
CREATE INDEX usage_missing on usage_read (session_key) where looks = 0;
CREATE INDEX usage_of_session on usage (session_key);
CREATE INDEX orders_taken_sessions on orders_taken (session_key) where session_key is not null;
CREATE INDEX orders_taken_begun on orders_taken (origin, id) where state = 'begun';
CREATE INDEX fleet_events_at on fleet_events (at);
DELETE FROM "sqlite_sequence";
COMMIT;
PRAGMA user_version = 43;
