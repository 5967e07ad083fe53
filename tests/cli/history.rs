//! Looking back: `runs`, `explain DB ID`.

use rusqlite::Connection;

use crate::support::TestFolder;

/// The columns that are read here, as an earlier run left them.
const TABLES: &str = r#"
CREATE TABLE memfold_schema (version INTEGER, store_uuid TEXT, created_at TEXT, engine_version TEXT);
CREATE TABLE memfold_runs (seq INTEGER PRIMARY KEY, run_id TEXT, kind TEXT, plan_id TEXT, target TEXT,
    state TEXT, holder TEXT, started_at TEXT, heartbeat_at TEXT, finished_at TEXT, applied INTEGER,
    stale INTEGER, failed INTEGER, engine_version TEXT, prev_hash TEXT);
CREATE TABLE memfold_units (run_id TEXT, unit INTEGER, state TEXT, undone_by TEXT, plan_id TEXT,
    actions TEXT, reverts_run TEXT, reverts_unit INTEGER, digests TEXT, at TEXT);
CREATE TABLE memfold_journal (seq INTEGER PRIMARY KEY, run_id TEXT, unit INTEGER, op TEXT,
    table_name TEXT, row_key TEXT);
CREATE TABLE memfold_lineage (id INTEGER PRIMARY KEY, absorbed_id TEXT, survivor_id TEXT,
    similarity REAL, rule_id TEXT, reasons TEXT, run_id TEXT, unit INTEGER, at TEXT, active INTEGER);
CREATE TABLE memfold_decisions (id INTEGER PRIMARY KEY, kind TEXT, group_id TEXT, memory_id TEXT,
    content_hash TEXT, action TEXT, access_count INTEGER, run_id TEXT, unit INTEGER, at TEXT,
    active INTEGER);
CREATE TABLE memfold_flags (id INTEGER PRIMARY KEY, key TEXT, left_id TEXT, right_id TEXT,
    similarity REAL, score REAL, state TEXT, run_id TEXT, at TEXT, active INTEGER);
CREATE TABLE memfold_archive (id INTEGER PRIMARY KEY, memory_id TEXT, table_name TEXT, row TEXT,
    survivor_id TEXT);
INSERT INTO memfold_schema VALUES (1, 'store_1', 't', '0');
INSERT INTO memfold_runs VALUES (1, '20260630T120000Z-00000001', 'execute', 'p0123456789ab', NULL,
    'partial', 'host 7', '2026-06-30T12:00:00.000000', 't', '2026-06-30T12:00:01.000000', 2, 1, 0, '0',
    '0ab512845b4e0f9628254983432bdd9ee29b76ab9e08ba04f6a77a2bc8613b68');
INSERT INTO memfold_units VALUES
    ('20260630T120000Z-00000001', 1, 'applied', NULL, 'p0123456789ab',
     '[{"label":"a1","position":0,"type":"merge","ids":["m000001","m000000"]}]', NULL, NULL, '{}', 't'),
    ('20260630T120000Z-00000001', 2, 'undone', '20260701T120000Z-00000002', 'p0123456789ab',
     '[{"label":"a2","position":1,"type":"promote","ids":["m000002"]}]', NULL, NULL, '{}', 't');
INSERT INTO memfold_journal(run_id, unit, op, table_name, row_key) VALUES
    ('20260630T120000Z-00000001', 1, 'set', 'stm', 'm000001'),
    ('20260630T120000Z-00000001', 1, 'set', 'stm', 'm000000'),
    ('20260630T120000Z-00000001', 1, 'set', 'memfold_lineage', '1');
INSERT INTO memfold_lineage VALUES (1, 'm000000', 'm000001', 0.9876, 'R2-near-duplicate-merge',
    'similarity >= 0.95; cluster_size >= 2', '20260630T120000Z-00000001', 1, '2026-06-30T12:00:00.000000', 1);
INSERT INTO memfold_decisions VALUES (1, 'promoted', NULL, 'm000001', NULL, NULL, 7,
    '20260630T120000Z-00000001', 1, '2026-06-30T12:00:00.000000', 1);
INSERT INTO memfold_flags VALUES (1, 'k', 'm000001', 'm000002', 0.9, 0.95, 'open',
    '20260630T120000Z-00000001', '2026-06-30T12:00:00.000000', 1);
UPDATE stm SET categories = '["archived"]', source = 'archived:{"merged_into":"m000001"}'
    WHERE id = 'm000000';
"#;

/// The pair of which the older one was merged into the newer one.
fn folded() -> TestFolder {
    let dir = TestFolder::with_pair();
    Connection::open(dir.path("brain.db")).unwrap().execute_batch(TABLES).unwrap();
    dir
}

#[test]
fn runs_are_listed_with_their_audit_chain() {
    let dir = folded();
    let before = dir.files();
    insta::assert_snapshot!("runs", dir.succeed("runs brain.db"));
    let document = dir.json("runs brain.db --json");
    assert_eq!(document["audit_chain"]["holds"], true);
    let run = &document["runs"][0];
    assert_eq!((&run["kind"], &run["undone"]), (&"execute".into(), &1.into()));
    assert!(before == dir.files());
}

#[test]
fn the_units_of_a_run_are_listed() {
    let dir = folded();
    let run = dir.succeed("runs brain.db 20260630T120000Z-00000001");
    insta::assert_snapshot!("run", run);
    for name in ["latest", "20260630"] {
        assert_eq!(dir.succeed(&["runs", "brain.db", name]), run);
    }
    let units = dir.json("runs brain.db latest --json")["list"].clone();
    assert_eq!(units[0]["memories"].as_array().map(Vec::len), Some(2));
    assert_eq!(units[1]["state"], "undone");
    dir.run("runs brain.db x").fails(
        1,
        "there is no run x",
        "`memfold runs DB` lists them; `latest` is the last one",
    );
}

#[test]
fn a_memory_is_explained_as_a_tree() {
    let dir = folded();
    let before = dir.files();
    insta::assert_snapshot!("explain-memory", dir.succeed("explain brain.db m000001"));
    insta::assert_snapshot!("explain-ghost", dir.succeed("explain brain.db m000000"));
    let document = dir.json("explain brain.db m000000 --json");
    assert_eq!(document["live_id"], "m000001");
    assert_eq!(document["folds"][0]["similarity"], 0.9876);
    let survivor = dir.json("explain brain.db m000001 --json");
    assert_eq!(survivor["absorbed"]["shown"][0]["absorbed"], "m000000");
    assert!(before == dir.files());
    dir.run("explain brain.db x").fails(1, "x is not in this store", "check the id and the store");
    assert_eq!(dir.run("explain brain.db").code, Some(2));
    assert_eq!(dir.run("explain brain.db x --texts a b").code, Some(2));
}
