BEGIN TRANSACTION;
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
INSERT INTO "attempts" VALUES('native:runs/delivers',1,1770091506.0,'completed','declared','run.completed.ok',1770091567.0,'[["report","report.md",12,1795347114462916556],["review","review.md",12,1795347114462946401]]');
INSERT INTO "attempts" VALUES('native:runs/goes-on',1,1770091506.0,'running',NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES('native:runs/lacks',1,1770091506.0,'failed','declared','run.failed.missing_artifact',1770091567.0,'[["review","review.md",12,1795347114463107410]]');
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
INSERT INTO "cursors" VALUES('runs/delivers','runs','delivers','native:runs/delivers','over','[[["run.json",[1466375,316,1795347114462880883]],["exit.json",[1466378,55,1795347114462984768]]],"over",1,"ef81ffe9bdae1cba","exit.json","2cad3d1a6adc355f","declared",false,null,null,null,null,[],[],null,1]');
INSERT INTO "cursors" VALUES('runs/lacks','runs','lacks','native:runs/lacks','over','[[["run.json",[1466381,313,1795347114463077735]],["exit.json",[1466383,55,1795347114463140529]]],"over",1,"9f57c540e9bfe7ba","exit.json","c433ef74ea41a76c","declared",false,null,null,null,null,[],[],null,1]');
INSERT INTO "cursors" VALUES('runs/goes-on','runs','goes-on','native:runs/goes-on','open','[[["run.json",[1466386,315,1795347114463230062]]],"open",1,"a35621959beaf650","","",null,false,null,null,null,null,[],[],null,1]');
CREATE TABLE daemon (
    id integer primary key check (id = 1),
    epoch integer not null
, stopped_cleanly integer not null default 1, boot_id text not null default '', settled integer not null default 0, settling integer not null default 0, settling_at real not null default 0) strict;
INSERT INTO "daemon" VALUES(1,1,1,'a-boot',0,0,0.0);
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
INSERT INTO "decisions" VALUES(1,1,'sessions/opened','native:runs/delivers',1.79534711668892979627e+09,'decided','contract of 2 artifacts fixed (launcher)','{"contract_basis":"launcher","contract_problem":null}');
INSERT INTO "decisions" VALUES(2,2,'sessions/ended','native:runs/delivers',1.79534711668892979627e+09,'decided','completed: exited with 0','{"evidence":"declared","exit_code":0,"signal":null,"not_delivered":{}}');
INSERT INTO "decisions" VALUES(3,3,'sessions/opened','native:runs/lacks',1.79534711668892979627e+09,'decided','contract of 2 artifacts fixed (launcher)','{"contract_basis":"launcher","contract_problem":null}');
INSERT INTO "decisions" VALUES(4,4,'sessions/ended','native:runs/lacks',1.79534711668892979627e+09,'decided','failed: missing required artifacts: report (report.md)','{"evidence":"declared","exit_code":0,"signal":null,"not_delivered":{"report.md":"absent"}}');
INSERT INTO "decisions" VALUES(5,5,'sessions/opened','native:runs/goes-on',1.79534711668892979627e+09,'decided','contract of 2 artifacts fixed (launcher)','{"contract_basis":"launcher","contract_problem":null}');
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
INSERT INTO "events" VALUES(1,'native:runs/delivers#1/started','AttemptStarted',1,'native:runs/delivers',1770091506.0,1.79534711668008971213e+09,NULL,0,'{"session_key":"native:runs/delivers","attempt":1,"at":1770091506.0,"declaration":{"session_id":"delivers","layout":"native","root":"runs","path":"/srv/runward/runs/delivers","kind":"agent","artifacts_path":"/srv/runward/runs/delivers/artifacts","playbook":null,"agent":null,"invocation_id":null,"containment":null,"has_snapshot":true,"contract":{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]},"cwd":null,"prompt":null},"origin":"live","seen_over":true}','5ed493cf0cd0334431e6239493f279860a78b28be791c1ec80747b8d263c44f3');
INSERT INTO "events" VALUES(2,'native:runs/delivers#1/ended','AttemptEnded',1,'native:runs/delivers',1770091567.0,1.79534711668008971213e+09,NULL,0,'{"session_key":"native:runs/delivers","attempt":1,"at":1770091567.0,"evidence":"declared","status":"completed","reason_code":"run.completed.ok","reason_summary":"exited with 0","source":"daemon","exit_code":0,"signal":null}','97475078f96bfeec048f11ca2f8860826fefc23a20e6eeab538cb092c42dd2d5');
INSERT INTO "events" VALUES(3,'native:runs/lacks#1/started','AttemptStarted',1,'native:runs/lacks',1770091506.0,1.79534711668008971213e+09,NULL,0,'{"session_key":"native:runs/lacks","attempt":1,"at":1770091506.0,"declaration":{"session_id":"lacks","layout":"native","root":"runs","path":"/srv/runward/runs/lacks","kind":"agent","artifacts_path":"/srv/runward/runs/lacks/artifacts","playbook":null,"agent":null,"invocation_id":null,"containment":null,"has_snapshot":true,"contract":{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]},"cwd":null,"prompt":null},"origin":"live","seen_over":true}','d8d981e63978ba7b94849636a55086edaec846d25c1fcb236bd3de4860561e42');
INSERT INTO "events" VALUES(4,'native:runs/lacks#1/ended','AttemptEnded',1,'native:runs/lacks',1770091567.0,1.79534711668008971213e+09,NULL,0,'{"session_key":"native:runs/lacks","attempt":1,"at":1770091567.0,"evidence":"declared","status":"completed","reason_code":"run.completed.ok","reason_summary":"exited with 0","source":"daemon","exit_code":0,"signal":null}','f44488c28bf65a7d2d9710bf23280fb2e23e177e99cf0616d7c5f7f3a0e712c7');
INSERT INTO "events" VALUES(5,'native:runs/goes-on#1/started','AttemptStarted',1,'native:runs/goes-on',1770091506.0,1.79534711668008971213e+09,NULL,0,'{"session_key":"native:runs/goes-on","attempt":1,"at":1770091506.0,"declaration":{"session_id":"goes-on","layout":"native","root":"runs","path":"/srv/runward/runs/goes-on","kind":"agent","artifacts_path":"/srv/runward/runs/goes-on/artifacts","playbook":null,"agent":null,"invocation_id":null,"containment":null,"has_snapshot":true,"contract":{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]},"cwd":null,"prompt":null},"origin":"live","seen_over":false}','61f8df08477b7987a8a323ac1fd82291b206d2f9cabd3305fa39a8e94f444377');
INSERT INTO "events" VALUES(6,'native:runs/delivers#1/finished','SessionFinished',1,'native:runs/delivers',1770091567.0,1.79534711668892979627e+09,'native:runs/delivers#1/ended',1,'{"session_key":"native:runs/delivers","attempt":1,"at":1770091567.0,"status":"completed","reason_code":"run.completed.ok","delivery":"passed","produced":2,"produced_bytes":24}','738d16ccee3c1f4e19f56f74f6821c01aa4e12f30470ae677e943ca684e0fa90');
INSERT INTO "events" VALUES(7,'native:runs/lacks#1/finished','SessionFinished',1,'native:runs/lacks',1770091567.0,1.79534711668892979627e+09,'native:runs/lacks#1/ended',1,'{"session_key":"native:runs/lacks","attempt":1,"at":1770091567.0,"status":"failed","reason_code":"run.failed.missing_artifact","delivery":"partial","produced":1,"produced_bytes":12}','e85c9f5234b66fbc8ef9ff0019c92e5abf6a5a8d1d960194385573e64089bc99');
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
INSERT INTO "files" VALUES('native:runs/delivers',1,'report','report.md',12,1795347114462916556,'d40b628baf7f757149f5b6d6d6aca317d478ef3a29433064d21cfdd06fb33b8d',NULL,1.79534711670868420596e+09);
INSERT INTO "files" VALUES('native:runs/delivers',1,'review','review.md',12,1795347114462946401,'d40b628baf7f757149f5b6d6d6aca317d478ef3a29433064d21cfdd06fb33b8d',NULL,1.79534711670868420596e+09);
INSERT INTO "files" VALUES('native:runs/lacks',1,'review','review.md',12,1795347114463107410,'d40b628baf7f757149f5b6d6d6aca317d478ef3a29433064d21cfdd06fb33b8d',NULL,1.79534711670868420596e+09);
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
INSERT INTO "jobs" VALUES(32,1,'sessions/opened','native:runs/delivers','done',0.0,NULL,1,0,NULL,1.79534711668892979627e+09);
INSERT INTO "jobs" VALUES(64,2,'sessions/ended','native:runs/delivers','done',0.0,NULL,1,0,NULL,1.79534711668892979627e+09);
INSERT INTO "jobs" VALUES(96,3,'sessions/opened','native:runs/lacks','done',0.0,NULL,1,0,NULL,1.79534711668892979627e+09);
INSERT INTO "jobs" VALUES(128,4,'sessions/ended','native:runs/lacks','done',0.0,NULL,1,0,NULL,1.79534711668892979627e+09);
INSERT INTO "jobs" VALUES(160,5,'sessions/opened','native:runs/goes-on','done',0.0,NULL,1,0,NULL,1.79534711668892979627e+09);
INSERT INTO "jobs" VALUES(192,6,'contracts/hashes','files:native:runs/delivers#1','done',0.0,NULL,1,0,NULL,1.79534711670868420596e+09);
INSERT INTO "jobs" VALUES(224,7,'contracts/hashes','files:native:runs/lacks#1','done',0.0,NULL,1,0,NULL,1.79534711670868420596e+09);
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
INSERT INTO "journal_lines" VALUES(256,'/srv/runward/runs/delivers','events.jsonl',1,X'7B227473223A22323032362D30322D30335430343A30353A30362E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A2273657373696F6E5F73746172746564222C2270617468223A22222C2268617368223A2235656434393363663063643033333434333165363233393439336632373938363061373862323862653739316331656338303734376238643236336334346633222C2273657373696F6E5F6964223A2264656C6976657273222C22617474656D7074223A312C22706C6179626F6F6B223A6E756C6C2C226167656E74223A6E756C6C7D0A7B227473223A22323032362D30322D30335430343A30353A30362E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A22636F6E74726163745F736E617073686F74746564222C2270617468223A22222C2268617368223A2235656434393363663063643033333434333165363233393439336632373938363061373862323862653739316331656338303734376238643236336334346633222C226261736973223A226C61756E63686572222C226578706563746564223A5B7B226964223A227265706F7274222C2270617468223A227265706F72742E6D64222C227265717569726564223A747275652C22736F75726365223A22706C6179626F6F6B227D2C7B226964223A22726576696577222C2270617468223A227265766965772E6D64222C227265717569726564223A747275652C22736F75726365223A22706C6179626F6F6B227D5D7D0A',0,NULL,NULL);
INSERT INTO "journal_lines" VALUES(257,'/srv/runward/runs/delivers','REPLAY.jsonl',1,X'7B226576656E74223A2253657373696F6E5374617274222C2273657373696F6E5F6964223A2264656C6976657273222C2274223A22323032362D30322D30335430343A30353A30362E3030303030305A222C22617474656D7074223A312C2268617368223A2235656434393363663063643033333434333165363233393439336632373938363061373862323862653739316331656338303734376238643236336334346633227D0A',0,NULL,NULL);
INSERT INTO "journal_lines" VALUES(512,'/srv/runward/runs/delivers','events.jsonl',0,X'7B227473223A22323032362D30322D30335430343A30363A30372E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A2261727469666163745F7665726966696564222C2270617468223A22222C2268617368223A2239373437353037386639366266656563303438663131636132663838363038323666656663323361323065366565616235333863623039326334326464326435222C22737461747573223A22706173736564222C2264656C6976657279223A22706173736564222C226D697373696E675F7265717569726564223A5B5D2C226D697373696E675F6F7074696F6E616C223A5B5D2C2270726F6475636564223A5B7B226964223A227265706F7274222C2270617468223A227265706F72742E6D64222C2273697A65223A31327D2C7B226964223A22726576696577222C2270617468223A227265766965772E6D64222C2273697A65223A31327D5D7D0A7B227473223A22323032362D30322D30335430343A30363A30372E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A227374617475735F6368616E676564222C2270617468223A22222C2268617368223A2239373437353037386639366266656563303438663131636132663838363038323666656663323361323065366565616235333863623039326334326464326435222C227265706C61636564223A2272756E6E696E67222C22737461747573223A22636F6D706C65746564222C22726561736F6E5F636F6465223A2272756E2E636F6D706C657465642E6F6B222C22726561736F6E5F73756D6D617279223A2265786974656420776974682030227D0A7B227473223A22323032362D30322D30335430343A30363A30372E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A2273657373696F6E5F66696E6973686564222C2270617468223A22222C2268617368223A2239373437353037386639366266656563303438663131636132663838363038323666656663323361323065366565616235333863623039326334326464326435222C22617474656D7074223A312C22737461747573223A22636F6D706C65746564222C22726561736F6E5F636F6465223A2272756E2E636F6D706C657465642E6F6B222C2264656C6976657279223A22706173736564222C22656E6465645F6279223A226465636C61726564227D0A',572,NULL,NULL);
INSERT INTO "journal_lines" VALUES(513,'/srv/runward/runs/delivers','REPLAY.jsonl',0,X'7B226576656E74223A2253657373696F6E456E64222C22737461747573223A2253756363657373222C22636F6E666964656E6365223A6E756C6C2C2274223A22323032362D30322D30335430343A30363A30372E3030303030305A222C2268617368223A2239373437353037386639366266656563303438663131636132663838363038323666656663323361323065366565616235333863623039326334326464326435227D0A',169,NULL,NULL);
INSERT INTO "journal_lines" VALUES(768,'/srv/runward/runs/lacks','events.jsonl',1,X'7B227473223A22323032362D30322D30335430343A30353A30362E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A2273657373696F6E5F73746172746564222C2270617468223A22222C2268617368223A2264386439383165363339373862613762393438343936333661353530383665646165633834366432356331666362323336626433646534383630353631653432222C2273657373696F6E5F6964223A226C61636B73222C22617474656D7074223A312C22706C6179626F6F6B223A6E756C6C2C226167656E74223A6E756C6C7D0A7B227473223A22323032362D30322D30335430343A30353A30362E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A22636F6E74726163745F736E617073686F74746564222C2270617468223A22222C2268617368223A2264386439383165363339373862613762393438343936333661353530383665646165633834366432356331666362323336626433646534383630353631653432222C226261736973223A226C61756E63686572222C226578706563746564223A5B7B226964223A227265706F7274222C2270617468223A227265706F72742E6D64222C227265717569726564223A747275652C22736F75726365223A22706C6179626F6F6B227D2C7B226964223A22726576696577222C2270617468223A227265766965772E6D64222C227265717569726564223A747275652C22736F75726365223A22706C6179626F6F6B227D5D7D0A',0,NULL,NULL);
INSERT INTO "journal_lines" VALUES(769,'/srv/runward/runs/lacks','REPLAY.jsonl',1,X'7B226576656E74223A2253657373696F6E5374617274222C2273657373696F6E5F6964223A226C61636B73222C2274223A22323032362D30322D30335430343A30353A30362E3030303030305A222C22617474656D7074223A312C2268617368223A2264386439383165363339373862613762393438343936333661353530383665646165633834366432356331666362323336626433646534383630353631653432227D0A',0,NULL,NULL);
INSERT INTO "journal_lines" VALUES(1024,'/srv/runward/runs/lacks','events.jsonl',0,X'7B227473223A22323032362D30322D30335430343A30363A30372E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A2261727469666163745F7665726966696564222C2270617468223A22222C2268617368223A2266343434383863323862663635613764326439373130626632333238306662326532336531373765393963663036313664376335663766336130653731326337222C22737461747573223A226661696C6564222C2264656C6976657279223A227061727469616C222C226D697373696E675F7265717569726564223A5B227265706F7274225D2C226D697373696E675F6F7074696F6E616C223A5B5D2C2270726F6475636564223A5B7B226964223A22726576696577222C2270617468223A227265766965772E6D64222C2273697A65223A31327D5D7D0A7B227473223A22323032362D30322D30335430343A30363A30372E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A227374617475735F6368616E676564222C2270617468223A22222C2268617368223A2266343434383863323862663635613764326439373130626632333238306662326532336531373765393963663036313664376335663766336130653731326337222C227265706C61636564223A2272756E6E696E67222C22737461747573223A226661696C6564222C22726561736F6E5F636F6465223A2272756E2E6661696C65642E6D697373696E675F6172746966616374222C22726561736F6E5F73756D6D617279223A226D697373696E67207265717569726564206172746966616374733A207265706F727420287265706F72742E6D6429227D0A7B227473223A22323032362D30322D30335430343A30363A30372E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A2273657373696F6E5F66696E6973686564222C2270617468223A22222C2268617368223A2266343434383863323862663635613764326439373130626632333238306662326532336531373765393963663036313664376335663766336130653731326337222C22617474656D7074223A312C22737461747573223A226661696C6564222C22726561736F6E5F636F6465223A2272756E2E6661696C65642E6D697373696E675F6172746966616374222C2264656C6976657279223A227061727469616C222C22656E6465645F6279223A226465636C61726564227D0A',569,NULL,NULL);
INSERT INTO "journal_lines" VALUES(1025,'/srv/runward/runs/lacks','REPLAY.jsonl',0,X'7B226576656E74223A2253657373696F6E456E64222C22737461747573223A224661696C6564222C22636F6E666964656E6365223A6E756C6C2C2274223A22323032362D30322D30335430343A30363A30372E3030303030305A222C2268617368223A2266343434383863323862663635613764326439373130626632333238306662326532336531373765393963663036313664376335663766336130653731326337227D0A',166,NULL,NULL);
INSERT INTO "journal_lines" VALUES(1280,'/srv/runward/runs/goes-on','events.jsonl',1,X'7B227473223A22323032362D30322D30335430343A30353A30362E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A2273657373696F6E5F73746172746564222C2270617468223A22222C2268617368223A2236316638646630383437376237393837613861333233616331666438323239316232303664326639636162643333303566613339613865393466343434333737222C2273657373696F6E5F6964223A22676F65732D6F6E222C22617474656D7074223A312C22706C6179626F6F6B223A6E756C6C2C226167656E74223A6E756C6C7D0A7B227473223A22323032362D30322D30335430343A30353A30362E3030303030305A222C22726F6C65223A2272756E77617264222C226576656E74223A22636F6E74726163745F736E617073686F74746564222C2270617468223A22222C2268617368223A2236316638646630383437376237393837613861333233616331666438323239316232303664326639636162643333303566613339613865393466343434333737222C226261736973223A226C61756E63686572222C226578706563746564223A5B7B226964223A227265706F7274222C2270617468223A227265706F72742E6D64222C227265717569726564223A747275652C22736F75726365223A22706C6179626F6F6B227D2C7B226964223A22726576696577222C2270617468223A227265766965772E6D64222C227265717569726564223A747275652C22736F75726365223A22706C6179626F6F6B227D5D7D0A',0,NULL,NULL);
INSERT INTO "journal_lines" VALUES(1281,'/srv/runward/runs/goes-on','REPLAY.jsonl',1,X'7B226576656E74223A2253657373696F6E5374617274222C2273657373696F6E5F6964223A22676F65732D6F6E222C2274223A22323032362D30322D30335430343A30353A30362E3030303030305A222C22617474656D7074223A312C2268617368223A2236316638646630383437376237393837613861333233616331666438323239316232303664326639636162643333303566613339613865393466343434333737227D0A',0,NULL,NULL);
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
INSERT INTO "roots" VALUES('runs','/srv/runward/runs','native',1.79534711666247367859e+09);
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
INSERT INTO "sessions" VALUES('native:runs/delivers','delivers','native','runs','/srv/runward/runs/delivers','agent','completed',1,'live',1770091506.0,1770091567.0,'declared','run.completed.ok','exited with 0','[{"kind":"exit","id":"native:runs/delivers#1/ended","label":"declared: exited with 0"}]',NULL,NULL,NULL,NULL,'/srv/runward/runs/delivers/artifacts','{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]}','launcher',NULL,'{"status":"passed","checked_at":1795347116.6884785,"missing_required":[],"missing_optional":[],"produced":[{"id":"report","path":"report.md","size":12},{"id":"review","path":"review.md","size":12}]}','passed',0);
INSERT INTO "sessions" VALUES('native:runs/lacks','lacks','native','runs','/srv/runward/runs/lacks','agent','failed',1,'live',1770091506.0,1770091567.0,'declared','run.failed.missing_artifact','missing required artifacts: report (report.md)','[{"kind":"expected_artifact","id":"report","label":"report.md"}]',NULL,NULL,NULL,NULL,'/srv/runward/runs/lacks/artifacts','{"expected":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"},{"id":"review","path":"review.md","required":true,"description":"","source":"playbook"}]}','launcher',NULL,'{"status":"failed","checked_at":1795347116.6887097,"missing_required":[{"id":"report","path":"report.md","required":true,"description":"","source":"playbook"}],"missing_optional":[],"produced":[{"id":"review","path":"review.md","size":12}]}','partial',0);
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
CREATE TABLE uncompared (
    directory text not null,
    name text not null,
    session_key text not null,
    primary key (directory, name)
) strict, without rowid;
CREATE TRIGGER events_are_facts before update on events
begin select raise(abort, 'an event is never changed'); end;
CREATE INDEX jobs_open on jobs (lane, id) where state in ('waiting', 'held');
CREATE INDEX jobs_running on jobs (epoch) where state = 'running';
CREATE INDEX sessions_started on sessions (started_at);
CREATE TRIGGER attempts_end_once before update on attempts when old.ended_by is not null
begin select raise(abort, 'an attempt ends once'); end;
CREATE INDEX status_history_of on status_history (session_key);
CREATE INDEX decisions_about on decisions (subject);
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
CREATE INDEX journal_lines_owed on journal_lines (id) where "offset" is null and why is null;
CREATE TRIGGER journal_lines_keep_their_content before update of id, directory, name, content on journal_lines
begin select raise(abort, 'what was to be written is never changed'); end;
CREATE VIEW outbox as select id, event, directory, name, live, content
from journal_lines where "offset" is null and why is null;
CREATE TRIGGER files_are_facts before update on files
begin select raise(abort, 'what was recorded of a file is never changed'); end;
COMMIT;
PRAGMA user_version = 6;
