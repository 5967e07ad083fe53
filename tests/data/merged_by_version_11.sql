PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE stm (id TEXT PRIMARY KEY, content TEXT NOT NULL, categories TEXT, importance REAL DEFAULT 1.0, created_at TEXT, updated_at TEXT, access_count INTEGER DEFAULT 0, source TEXT DEFAULT 'agent', expires_at TEXT, source_message_id TEXT, confidence REAL, last_accessed TEXT, mood);
INSERT INTO stm(rowid,id,content,categories,importance,created_at,updated_at,access_count,source,expires_at,source_message_id,confidence,last_accessed,mood) VALUES(2,'stm_000000000008','Note 0: w226q w91bq w102q w414q w1e2q w7edq w731q w78eq wa6cq w612q.','["note"]',2.0,'2026-01-02T10:00:00.000008','2026-06-30T12:00:00.000000',2,'consolidation:{"merged_from":["stm_000000000000"],"merged_count":1,"run_id":"20260630T120000Z-3b1cc62b","at":"2026-06-30T12:00:00.000000","previous_source":"agent"}',NULL,X'00ff',0.5,NULL,5);
INSERT INTO stm(rowid,id,content,categories,importance,created_at,updated_at,access_count,source,expires_at,source_message_id,confidence,last_accessed,mood) VALUES(4,'stm_000000000009','Note 1: w619q wafbq w377q w6c0q wb9dq w76q w871q w38cq w701q w7eeq.','["note"]',1.0,'2026-01-02T10:00:00.000009','2026-06-30T12:00:00.000000',1,'consolidation:{"merged_from":["stm_000000000001"],"merged_count":1,"run_id":"20260630T120000Z-3b1cc62b","at":"2026-06-30T12:00:00.000000","previous_source":"agent"}',NULL,NULL,NULL,NULL,'3');
INSERT INTO stm(rowid,id,content,categories,importance,created_at,updated_at,access_count,source,expires_at,source_message_id,confidence,last_accessed,mood) VALUES(6,'stm_00000000000a','Note 2: w803q w6c0q w81fq wab9q w309q w4daq w48bq w966q w7fdq w815q.','["note"]',1.0,'2026-01-02T10:00:00.000010','2026-06-30T12:00:00.000000',3,'consolidation:{"merged_from":["stm_000000000002"],"merged_count":1,"run_id":"20260630T120000Z-3b1cc62b","at":"2026-06-30T12:00:00.000000","previous_source":"agent"}',NULL,NULL,NULL,NULL,NULL);
INSERT INTO stm(rowid,id,content,categories,importance,created_at,updated_at,access_count,source,expires_at,source_message_id,confidence,last_accessed,mood) VALUES(7,'stm_000000000003','Note 3: w79q w782q wb2q w4efq wb41q w9d6q w97dq w940q w64cq wa5aq.','["note"]',1.0,'2026-01-01T10:00:00.000003','2026-01-01T10:00:00.000000',0,'agent',NULL,NULL,NULL,NULL,NULL);
INSERT INTO stm(rowid,id,content,categories,importance,created_at,updated_at,access_count,source,expires_at,source_message_id,confidence,last_accessed,mood) VALUES(8,'stm_000000000004','Note 4: w833q w211q w84cq w8fbq w349q w6d1q we5q w7b2q w5d5q w91eq.','["note"]',1.0,'2026-01-01T10:00:00.000004','2026-01-01T10:00:00.000000',1,'agent',NULL,NULL,NULL,NULL,NULL);
PRAGMA writable_schema=ON;
INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','stm_fts','stm_fts',0,'CREATE VIRTUAL TABLE stm_fts USING fts5(content, content='''', tokenize=''porter unicode61'')');
CREATE TABLE IF NOT EXISTS 'stm_fts_data'(id INTEGER PRIMARY KEY, block BLOB);
INSERT INTO stm_fts_data VALUES(1,X'053c');
INSERT INTO stm_fts_data VALUES(10,X'000000000104040004010101020101030101040101');
INSERT INTO stm_fts_data VALUES(137438953473,X'0000023202303001020301020301013103020301020301013205020301020301013307020301013408020301046e6f7465010202010202010202010202010202010202010202010202010577313032710102060102060303653271010208010208020432313171080205030332367101020401020402043330397105020801020803033439710802080303373771030206010206030338637103020b01020b020434313471010207010207030338627105020a01020a0303646171050209010209030365667107020702043564357108020c02043631327101020d01020d04023971030204010204030334637107020c0303633071030207010207010205010205030364317108020902043730317103020c01020c030333317101020a01020a0302367103020901020903033832710702050402657101020b01020b03023971070204030362327108020b03036564710102090102090402657103020d01020d030366647105020c01020c020438303371050204010204030331357105020d01020d0402667105020601020603033333710802040303346371080206030337317103020a01020a03036662710802070204393162710102050102050402657108020d030334307107020b030336367105020b01020b030337647107020a030364367107020902046135617107020d030336637101020c01020c03036239710502070102070303666271030205010205020362327107020603033431710702080303396471030208010208020365357108020a0409090906061e0d0b090b0c080b0b0c0b0b08090c0a0811080c0b0a080a07080b0a0b0c0b0a08080b080c07080b0808090b0b0b08080b');
INSERT INTO stm_fts_data VALUES(274877906945,X'0000005e023032050101046e6f746505010105773330397105010204343862710501030364617105010204366330710501020437666471050102043830337105010303313571050104026671050102043936367105010204616239710501040508090807080808070608');
INSERT INTO stm_fts_data VALUES(412316860417,X'0000005d023031030101046e6f7465030101057733373771030103033863710301020436313971030103036330710301020437303171030103023671030103036565710301020438373171030102046166627103010204623964710301040508090708070806070808');
INSERT INTO stm_fts_data VALUES(549755813889,X'0000005f023030010101046e6f74650101010577313032710101030365327101010204323236710101020434313471010102043631327101010204373331710101030338657101010303656471010102043931627101010204613663710101040508090708080808070708');
CREATE TABLE IF NOT EXISTS 'stm_fts_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
INSERT INTO stm_fts_idx VALUES(1,X'',2);
INSERT INTO stm_fts_idx VALUES(2,X'',2);
INSERT INTO stm_fts_idx VALUES(3,X'',2);
INSERT INTO stm_fts_idx VALUES(4,X'',2);
CREATE TABLE IF NOT EXISTS 'stm_fts_docsize'(id INTEGER PRIMARY KEY, sz BLOB);
INSERT INTO stm_fts_docsize VALUES(2,X'0c');
INSERT INTO stm_fts_docsize VALUES(4,X'0c');
INSERT INTO stm_fts_docsize VALUES(6,X'0c');
INSERT INTO stm_fts_docsize VALUES(7,X'0c');
INSERT INTO stm_fts_docsize VALUES(8,X'0c');
CREATE TABLE IF NOT EXISTS 'stm_fts_config'(k PRIMARY KEY, v) WITHOUT ROWID;
INSERT INTO stm_fts_config VALUES('version',4);
CREATE TABLE embeddings (id TEXT PRIMARY KEY, source_type TEXT, source_id TEXT, content TEXT, embedding BLOB, model TEXT, created_at TEXT, UNIQUE(source_type, source_id));
INSERT INTO embeddings(rowid,id,source_type,source_id,content,embedding,model,created_at) VALUES(2,'emb_000000000008','stm','stm_000000000008','Note 0: w226q w91bq w102q w414q w1e2q w7edq w731q w78eq wa6cq w612q.',X'910edb3de89fdcbefd72ef3f356cac3edde5c5bfe2e8313f82f88a3f9a666b3c924703be849335bf4bb401401aca39bf0f37643ea2a5313d015612c041d71bbf','m','2026-01-01T00:00:00');
INSERT INTO embeddings(rowid,id,source_type,source_id,content,embedding,model,created_at) VALUES(4,'emb_000000000009','stm','stm_000000000009','Note 1: w619q wafbq w377q w6c0q wb9dq w76q w871q w38cq w701q w7eeq.',X'cce85ebf98c399be862040bf4413c2bf5db40b40c8e52cbfba72f6bf2a4b8f3f157fcf3ea8c45cbe20228dbf8b1295bf6697f2be9424ca3f9c7908404925d2bf','m','2026-01-01T00:00:00');
INSERT INTO embeddings(rowid,id,source_type,source_id,content,embedding,model,created_at) VALUES(6,'emb_00000000000a','stm','stm_00000000000a','Note 2: w803q w6c0q w81fq wab9q w309q w4daq w48bq w966q w7fdq w815q.',X'248ec4bf39bf9b3feb97d1bfbc64513e8b099cbfed21563f89e4b1bfa76ec43fc37c873ecdcecebf90c5a13f6564433fc567ee3ec80fc03e90ea033fb90150bf','m','2026-01-01T00:00:00');
INSERT INTO embeddings(rowid,id,source_type,source_id,content,embedding,model,created_at) VALUES(7,'emb_000000000003','stm','stm_000000000003','Note 3: w79q w782q wb2q w4efq wb41q w9d6q w97dq w940q w64cq wa5aq.',X'a318113f34a7843f963ada3f8c7145bed720f6bf5742fabeea6d093e7cc0983f7aa6a03f86d5c5be0c2244bf8f004e3e135f19c037d43ebf39d4df3f4085803d','m','2026-01-01T00:00:00');
INSERT INTO embeddings(rowid,id,source_type,source_id,content,embedding,model,created_at) VALUES(8,'emb_000000000004','stm','stm_000000000004','Note 4: w833q w211q w84cq w8fbq w349q w6d1q we5q w7b2q w5d5q w91eq.',X'b2760fc02b2a4cbfc0a7c8bffdcf723f5a2346bd964bec3cc2d0d9bf6757e0be2e1629bfb436973fae81f43edb3cabbf518419bfe9c04abe4de4873f0657303f','m','2026-01-01T00:00:00');
CREATE TABLE memfold_schema (
    version INTEGER NOT NULL,
    store_uuid TEXT NOT NULL,
    created_at TEXT NOT NULL,
    engine_version TEXT NOT NULL);
INSERT INTO memfold_schema(rowid,version,store_uuid,created_at,engine_version) VALUES(1,11,'store_3daa4d16dddff373a7d9b6c9c392be7e','2026-06-30T12:00:00.000000','0.1.0');
CREATE TABLE memfold_plans (
    plan_id TEXT PRIMARY KEY NOT NULL,
    plan_digest TEXT NOT NULL,
    store_id TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    config_hash TEXT NOT NULL,
    overrides TEXT NOT NULL,
    engine_version TEXT NOT NULL,
    now TEXT NOT NULL,
    saved_at TEXT NOT NULL);
INSERT INTO memfold_plans(rowid,plan_id,plan_digest,store_id,schema_version,config_hash,overrides,engine_version,now,saved_at) VALUES(1,'pd7f4cb2c4d8c','748b9c79426879ccf58ab21620bd7fe4294af3f50b41d15b10e0bd61fd2c24a0','store_3daa4d16dddff373a7d9b6c9c392be7e',1,'sha256:f3a466e12415afc1ab1059be20bfb0e1387bafce00d8474d210c5fed03a4c658','{}','0.1.0','2026-06-30T12:00:00Z','2026-06-30T12:00:00.000000');
CREATE TABLE memfold_actions (
    plan_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    type TEXT NOT NULL,
    risk TEXT NOT NULL,
    rule_id TEXT NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    amended TEXT,
    base_digests TEXT NOT NULL,
    access_count INTEGER,
    run_id TEXT,
    unit INTEGER,
    note TEXT,
    PRIMARY KEY (plan_id, position));
INSERT INTO memfold_actions(rowid,plan_id,position,type,risk,rule_id,state,body,amended,base_digests,access_count,run_id,unit,note) VALUES(1,'pd7f4cb2c4d8c',0,'merge','identical','R1-exact-duplicate-merge','applied','{"type":"merge","targetIds":["stm_00000000000a","stm_000000000002"],"canonicalId":"stm_00000000000a","risk":"identical","rationale":{"ruleId":"R1-exact-duplicate-merge","reasons":["equal text","similarity >= 0.85","proven to say the same","cluster_size >= 2"],"evidence":{"similarity":1.0,"clusterId":"cluster_0001"}}}',NULL,'{"stm_000000000002":"56a21958c2424232dde6c8b8ee5ee20263cd21209d6bf1b3817572d67738b278","stm_00000000000a":"2a5d35155af8d4558e5eca8d2970b598f91cd64ec163bff4cd3040250271c617"}',NULL,'20260630T120000Z-3b1cc62b',1,NULL);
INSERT INTO memfold_actions(rowid,plan_id,position,type,risk,rule_id,state,body,amended,base_digests,access_count,run_id,unit,note) VALUES(2,'pd7f4cb2c4d8c',1,'merge','identical','R1-exact-duplicate-merge','applied','{"type":"merge","targetIds":["stm_000000000009","stm_000000000001"],"canonicalId":"stm_000000000009","risk":"identical","rationale":{"ruleId":"R1-exact-duplicate-merge","reasons":["equal text","similarity >= 0.85","proven to say the same","cluster_size >= 2"],"evidence":{"similarity":1.0,"clusterId":"cluster_0002"}}}',NULL,'{"stm_000000000001":"4c5332f378b7d7ae7372889e512ba42663a4aab63573e9f81c8911daddbb72c6","stm_000000000009":"bab47e98a1ae9d36f6b93324bb30a64d54494093f2ce9be4eadaa8b569b42a5c"}',NULL,'20260630T120000Z-3b1cc62b',2,NULL);
INSERT INTO memfold_actions(rowid,plan_id,position,type,risk,rule_id,state,body,amended,base_digests,access_count,run_id,unit,note) VALUES(3,'pd7f4cb2c4d8c',2,'merge','identical','R1-exact-duplicate-merge','applied','{"type":"merge","targetIds":["stm_000000000008","stm_000000000000"],"canonicalId":"stm_000000000008","risk":"identical","rationale":{"ruleId":"R1-exact-duplicate-merge","reasons":["equal text","similarity >= 0.85","proven to say the same","cluster_size >= 2"],"evidence":{"similarity":1.0,"clusterId":"cluster_0003"}}}',NULL,'{"stm_000000000000":"42c30ffd53bc176402cb7ed52b893d7fef043957a34dcba882692cc77e84e4d0","stm_000000000008":"8b72a59f8d93700726826fe7a449ea6f6127284479f54a4c678b45a0c686410a"}',NULL,'20260630T120000Z-3b1cc62b',3,NULL);
CREATE TABLE memfold_runs (
    seq INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    plan_id TEXT,
    target TEXT,
    state TEXT NOT NULL,
    holder TEXT NOT NULL,
    started_at TEXT NOT NULL,
    heartbeat_at TEXT NOT NULL,
    finished_at TEXT,
    applied INTEGER NOT NULL DEFAULT 0,
    stale INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    engine_version TEXT NOT NULL,
    prev_hash TEXT NOT NULL, chained INTEGER);
INSERT INTO memfold_runs VALUES(1,'20260630T120000Z-3b1cc62b','execute','pd7f4cb2c4d8c',NULL,'done','vm 12731','2026-06-30T12:00:00.000000','2026-06-30T12:00:00.000000','2026-06-30T12:00:00.000000',3,0,0,'0.1.0','4adb1e95f23cf71549b837a3f82b1471a9440e8f9bfc7ba9805edb2241c2699f',1);
CREATE TABLE memfold_units (
    run_id TEXT NOT NULL,
    unit INTEGER NOT NULL,
    state TEXT NOT NULL,
    undone_by TEXT,
    plan_id TEXT,
    actions TEXT,
    reverts_run TEXT,
    reverts_unit INTEGER,
    digests TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (run_id, unit));
INSERT INTO memfold_units(rowid,run_id,unit,state,undone_by,plan_id,actions,reverts_run,reverts_unit,digests,at) VALUES(1,'20260630T120000Z-3b1cc62b',1,'applied',NULL,'pd7f4cb2c4d8c','[{"label":"a1","position":0,"type":"merge","ids":["stm_00000000000a","stm_000000000002"]}]',NULL,NULL,'{"stm_000000000002":"","stm_00000000000a":"91e7e772941c52baeca03fad791b9366a89179e125e65a28cb5f3f47d1b96f67"}','2026-06-30T12:00:00.000000');
INSERT INTO memfold_units(rowid,run_id,unit,state,undone_by,plan_id,actions,reverts_run,reverts_unit,digests,at) VALUES(2,'20260630T120000Z-3b1cc62b',2,'applied',NULL,'pd7f4cb2c4d8c','[{"label":"a2","position":1,"type":"merge","ids":["stm_000000000009","stm_000000000001"]}]',NULL,NULL,'{"stm_000000000001":"","stm_000000000009":"7935563a4c573f44bdc1c61ee0852160608dd2a7653575083938eb65a7e442f5"}','2026-06-30T12:00:00.000000');
INSERT INTO memfold_units(rowid,run_id,unit,state,undone_by,plan_id,actions,reverts_run,reverts_unit,digests,at) VALUES(3,'20260630T120000Z-3b1cc62b',3,'applied',NULL,'pd7f4cb2c4d8c','[{"label":"a3","position":2,"type":"merge","ids":["stm_000000000008","stm_000000000000"]}]',NULL,NULL,'{"stm_000000000000":"","stm_000000000008":"14ec8820ff2dd3d1b6b23719bd718662e7a86b1f48bd26b907d856fe8b26e1c3"}','2026-06-30T12:00:00.000000');
CREATE TABLE memfold_journal (
    seq INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    unit INTEGER NOT NULL,
    op TEXT NOT NULL,
    table_name TEXT NOT NULL,
    row_key TEXT NOT NULL,
    row_rowid INTEGER,
    before TEXT,
    after TEXT,
    deltas TEXT,
    survivor TEXT);
INSERT INTO memfold_journal VALUES(1,'20260630T120000Z-3b1cc62b',1,'set','stm','stm_00000000000a',NULL,'{"updated_at":"2026-01-02T10:00:00.000000","access_count":1,"source":"agent"}','{"updated_at":"2026-06-30T12:00:00.000000","access_count":3,"source":"consolidation:{\"merged_from\":[\"stm_000000000002\"],\"merged_count\":1,\"run_id\":\"20260630T120000Z-3b1cc62b\",\"at\":\"2026-06-30T12:00:00.000000\",\"previous_source\":\"agent\"}"}','{"access_count":2}',NULL);
INSERT INTO memfold_journal VALUES(2,'20260630T120000Z-3b1cc62b',1,'take_out','stm','stm_000000000002',NULL,NULL,NULL,NULL,'stm_00000000000a');
INSERT INTO memfold_journal VALUES(3,'20260630T120000Z-3b1cc62b',1,'set','memfold_lineage','1',NULL,'{"active":0}','{"active":1}',NULL,NULL);
INSERT INTO memfold_journal VALUES(4,'20260630T120000Z-3b1cc62b',2,'set','stm','stm_000000000009',NULL,'{"updated_at":"2026-01-02T10:00:00.000000","access_count":0,"source":"agent"}','{"updated_at":"2026-06-30T12:00:00.000000","access_count":1,"source":"consolidation:{\"merged_from\":[\"stm_000000000001\"],\"merged_count\":1,\"run_id\":\"20260630T120000Z-3b1cc62b\",\"at\":\"2026-06-30T12:00:00.000000\",\"previous_source\":\"agent\"}"}','{"access_count":1}',NULL);
INSERT INTO memfold_journal VALUES(5,'20260630T120000Z-3b1cc62b',2,'take_out','stm','stm_000000000001',NULL,NULL,NULL,NULL,'stm_000000000009');
INSERT INTO memfold_journal VALUES(6,'20260630T120000Z-3b1cc62b',2,'set','memfold_lineage','2',NULL,'{"active":0}','{"active":1}',NULL,NULL);
INSERT INTO memfold_journal VALUES(7,'20260630T120000Z-3b1cc62b',3,'set','stm','stm_000000000008',NULL,'{"updated_at":"2026-01-02T10:00:00.000000","source":"agent"}','{"updated_at":"2026-06-30T12:00:00.000000","source":"consolidation:{\"merged_from\":[\"stm_000000000000\"],\"merged_count\":1,\"run_id\":\"20260630T120000Z-3b1cc62b\",\"at\":\"2026-06-30T12:00:00.000000\",\"previous_source\":\"agent\"}"}',NULL,NULL);
INSERT INTO memfold_journal VALUES(8,'20260630T120000Z-3b1cc62b',3,'take_out','stm','stm_000000000000',NULL,NULL,NULL,NULL,'stm_000000000008');
INSERT INTO memfold_journal VALUES(9,'20260630T120000Z-3b1cc62b',3,'set','memfold_lineage','3',NULL,'{"active":0}','{"active":1}',NULL,NULL);
CREATE TABLE memfold_lineage (
    id INTEGER PRIMARY KEY,
    absorbed_id TEXT NOT NULL,
    survivor_id TEXT NOT NULL,
    similarity REAL,
    rule_id TEXT,
    reasons TEXT,
    run_id TEXT NOT NULL,
    unit INTEGER NOT NULL,
    at TEXT NOT NULL,
    active INTEGER NOT NULL);
INSERT INTO memfold_lineage VALUES(1,'stm_000000000002','stm_00000000000a',1.0,'R1-exact-duplicate-merge','equal text; similarity >= 0.85; proven to say the same; cluster_size >= 2','20260630T120000Z-3b1cc62b',1,'2026-06-30T12:00:00.000000',1);
INSERT INTO memfold_lineage VALUES(2,'stm_000000000001','stm_000000000009',1.0,'R1-exact-duplicate-merge','equal text; similarity >= 0.85; proven to say the same; cluster_size >= 2','20260630T120000Z-3b1cc62b',2,'2026-06-30T12:00:00.000000',1);
INSERT INTO memfold_lineage VALUES(3,'stm_000000000000','stm_000000000008',1.0,'R1-exact-duplicate-merge','equal text; similarity >= 0.85; proven to say the same; cluster_size >= 2','20260630T120000Z-3b1cc62b',3,'2026-06-30T12:00:00.000000',1);
CREATE TABLE memfold_decisions (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    group_id TEXT,
    memory_id TEXT NOT NULL,
    content_hash TEXT,
    action TEXT,
    access_count INTEGER,
    run_id TEXT NOT NULL,
    unit INTEGER NOT NULL,
    at TEXT NOT NULL,
    active INTEGER NOT NULL);
CREATE TABLE memfold_flags (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    left_id TEXT NOT NULL,
    right_id TEXT NOT NULL,
    left_hash TEXT NOT NULL,
    right_hash TEXT NOT NULL,
    similarity REAL,
    score REAL,
    signals TEXT,
    differences TEXT,
    memory_id TEXT,
    state TEXT NOT NULL,
    run_id TEXT NOT NULL,
    unit INTEGER NOT NULL,
    at TEXT NOT NULL,
    active INTEGER NOT NULL, kind TEXT, asserted_id TEXT, asserted_at TEXT);
CREATE TABLE memfold_archive (
    id INTEGER PRIMARY KEY,
    memory_id TEXT NOT NULL,
    table_name TEXT NOT NULL,
    row_rowid INTEGER,
    row TEXT NOT NULL,
    indexed INTEGER NOT NULL,
    survivor_id TEXT,
    run_id TEXT NOT NULL,
    at TEXT NOT NULL, shape INTEGER, c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12);
INSERT INTO memfold_archive VALUES(1,'stm_000000000002','stm',5,'',1,'stm_00000000000a','20260630T120000Z-3b1cc62b','2026-06-30T12:00:00.000000',1,'stm_000000000002','Note 2: w803q w6c0q w81fq wab9q w309q w4daq w48bq w966q w7fdq w815q.','["note"]',1.0,'2026-01-01T10:00:00.000002','2026-01-01T10:00:00.000000',2,'agent',NULL,NULL,NULL,NULL,NULL);
INSERT INTO memfold_archive VALUES(2,'stm_000000000002','embeddings',5,'',0,NULL,'','',2,'emb_000000000002','stm','stm_000000000002','Note 2: w803q w6c0q w81fq wab9q w309q w4daq w48bq w966q w7fdq w815q.',X'248ec4bf39bf9b3feb97d1bfbc64513e8b099cbfed21563f89e4b1bfa76ec43fc37c873ecdcecebf90c5a13f6564433fc567ee3ec80fc03e90ea033fb90150bf','m','2026-01-01T00:00:00',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO memfold_archive VALUES(3,'stm_000000000001','stm',3,'',1,'stm_000000000009','20260630T120000Z-3b1cc62b','2026-06-30T12:00:00.000000',1,'stm_000000000001','Note 1: w619q wafbq w377q w6c0q wb9dq w76q w871q w38cq w701q w7eeq.','["note"]',1.0,'2026-01-01T10:00:00.000001','2026-01-01T10:00:00.000000',1,'agent','7.0',NULL,NULL,NULL,NULL);
INSERT INTO memfold_archive VALUES(4,'stm_000000000001','embeddings',3,'',0,NULL,'','',2,'emb_000000000001','stm','stm_000000000001','Note 1: w619q wafbq w377q w6c0q wb9dq w76q w871q w38cq w701q w7eeq.',X'cce85ebf98c399be862040bf4413c2bf5db40b40c8e52cbfba72f6bf2a4b8f3f157fcf3ea8c45cbe20228dbf8b1295bf6697f2be9424ca3f9c7908404925d2bf','m','2026-01-01T00:00:00',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO memfold_archive VALUES(5,'stm_000000000000','stm',1,'',1,'stm_000000000008','20260630T120000Z-3b1cc62b','2026-06-30T12:00:00.000000',1,'stm_000000000000','Note 0: w226q w91bq w102q w414q w1e2q w7edq w731q w78eq wa6cq w612q.','["note"]',1.0,'2026-01-01T10:00:00.000000','2026-01-01T10:00:00.000000',0,'agent',NULL,X'00ff',0.5,NULL,0.0);
INSERT INTO memfold_archive VALUES(6,'stm_000000000000','embeddings',1,'',0,NULL,'','',2,'emb_000000000000','stm','stm_000000000000','Note 0: w226q w91bq w102q w414q w1e2q w7edq w731q w78eq wa6cq w612q.',X'910edb3de89fdcbefd72ef3f356cac3edde5c5bfe2e8313f82f88a3f9a666b3c924703be849335bf4bb401401aca39bf0f37643ea2a5313d015612c041d71bbf','m','2026-01-01T00:00:00',NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE memfold_revived (
    seq INTEGER PRIMARY KEY,
    memory_id TEXT NOT NULL,
    at TEXT NOT NULL);
CREATE TABLE memfold_judgements (
    key TEXT PRIMARY KEY NOT NULL,
    judge TEXT NOT NULL,
    memories TEXT NOT NULL,
    opinions TEXT NOT NULL,
    requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost REAL NOT NULL,
    latency_ms INTEGER NOT NULL,
    at TEXT NOT NULL);
CREATE TABLE memfold_edges (
    id INTEGER PRIMARY KEY,
    source_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    type TEXT NOT NULL,
    weight REAL NOT NULL,
    reason TEXT,
    confidence TEXT,
    run_id TEXT NOT NULL,
    unit INTEGER NOT NULL,
    at TEXT NOT NULL,
    active INTEGER NOT NULL);
CREATE TABLE memfold_summaries (
    id INTEGER PRIMARY KEY,
    memory_id TEXT NOT NULL,
    sources TEXT NOT NULL,
    body TEXT NOT NULL,
    run_id TEXT NOT NULL,
    unit INTEGER NOT NULL,
    at TEXT NOT NULL,
    active INTEGER NOT NULL);
CREATE TABLE memfold_tiers (
    memory_id TEXT PRIMARY KEY NOT NULL,
    tier TEXT NOT NULL,
    retention REAL NOT NULL,
    reasons TEXT,
    at TEXT NOT NULL, earlier TEXT);
CREATE TABLE memfold_mirror (
    kind TEXT NOT NULL,
    place TEXT NOT NULL,
    publishing TEXT);
CREATE TABLE memfold_origins (
    id TEXT PRIMARY KEY NOT NULL,
    mark TEXT NOT NULL,
    digest TEXT NOT NULL,
    record TEXT NOT NULL,
    pulled TEXT NOT NULL,
    published TEXT NOT NULL,
    ours INTEGER NOT NULL,
    at TEXT NOT NULL);
CREATE TABLE memfold_requests (
    key TEXT PRIMARY KEY NOT NULL,
    digest TEXT NOT NULL,
    memories TEXT NOT NULL,
    answer TEXT NOT NULL,
    at TEXT NOT NULL);
CREATE TABLE memfold_schedule (
    name TEXT PRIMARY KEY NOT NULL,
    settings TEXT,
    slot TEXT,
    holder TEXT,
    leased_until TEXT,
    outcome TEXT);
CREATE TABLE memfold_shapes (
    id INTEGER PRIMARY KEY,
    columns TEXT NOT NULL UNIQUE);
INSERT INTO memfold_shapes VALUES(1,'["id","content","categories","importance","created_at","updated_at","access_count","source","expires_at","source_message_id","confidence","last_accessed","mood"]');
INSERT INTO memfold_shapes VALUES(2,'["id","source_type","source_id","content","embedding","model","created_at"]');
INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','memfold_merged','memfold_merged',0,'CREATE VIRTUAL TABLE memfold_merged USING fts5(content, tokenize = ''porter unicode61'')');
CREATE TABLE IF NOT EXISTS 'memfold_merged_data'(id INTEGER PRIMARY KEY, block BLOB);
INSERT INTO memfold_merged_data VALUES(1,X'');
INSERT INTO memfold_merged_data VALUES(10,X'00000000000000');
CREATE TABLE IF NOT EXISTS 'memfold_merged_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS 'memfold_merged_content'(id INTEGER PRIMARY KEY, c0);
CREATE TABLE IF NOT EXISTS 'memfold_merged_docsize'(id INTEGER PRIMARY KEY, sz BLOB);
CREATE TABLE IF NOT EXISTS 'memfold_merged_config'(k PRIMARY KEY, v) WITHOUT ROWID;
INSERT INTO memfold_merged_config VALUES('version',4);
CREATE INDEX memfold_journal_unit ON memfold_journal(run_id, unit);
CREATE INDEX memfold_journal_row ON memfold_journal(row_key);
CREATE INDEX memfold_lineage_absorbed ON memfold_lineage(absorbed_id);
CREATE INDEX memfold_lineage_survivor ON memfold_lineage(survivor_id);
CREATE INDEX memfold_decisions_memory ON memfold_decisions(memory_id);
CREATE INDEX memfold_flags_key ON memfold_flags(key);
CREATE INDEX memfold_archive_memory ON memfold_archive(memory_id);
CREATE INDEX memfold_flags_left ON memfold_flags(left_id);
CREATE INDEX memfold_flags_right ON memfold_flags(right_id);
CREATE UNIQUE INDEX memfold_edges_once ON memfold_edges(source_id, target_id, type) WHERE active = 1;
CREATE INDEX memfold_edges_target ON memfold_edges(target_id);
CREATE INDEX memfold_summaries_memory ON memfold_summaries(memory_id);
CREATE INDEX memfold_requests_at ON memfold_requests(at);
PRAGMA writable_schema=OFF;
COMMIT;
