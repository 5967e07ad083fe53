//! Looking back: `runs`, `explain DB ID`.

use rusqlite::Connection;
use serde_json::Value;

use crate::support::Place;

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
    '');
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
fn folded() -> Place {
    let place = Place::with_pair();
    Connection::open(place.path("brain.db")).unwrap().execute_batch(TABLES).unwrap();
    place
}

/// With the hash that the first run writes down: of the store's name.
fn chained() -> Place {
    let place = folded();
    let connection = Connection::open(place.path("brain.db")).unwrap();
    let hash = "0ab512845b4e0f9628254983432bdd9ee29b76ab9e08ba04f6a77a2bc8613b68";
    connection.execute("UPDATE memfold_runs SET prev_hash = ?1", [hash]).unwrap();
    place
}

#[test]
fn runs_are_listed_with_their_audit_chain() {
    let place = chained();
    let before = place.files();
    insta::assert_snapshot!("runs", place.succeed(&["runs", "brain.db"]));
    let document = place.json(&["runs", "brain.db", "--json"]);
    assert_eq!(document["audit_chain"]["holds"], true);
    let run = &document["runs"][0];
    assert_eq!((&run["kind"], &run["undone"]), (&"execute".into(), &1.into()));
    assert!(before == place.files());
}

#[test]
fn a_broken_chain_is_told() {
    let place = folded();
    let text = place.succeed(&["runs", "brain.db"]);
    assert!(text.contains("audit chain: BROKEN at 20260630T120000Z-00000001"), "{text}");
    let document = place.json(&["runs", "brain.db", "--json"]);
    assert_eq!(document["audit_chain"]["holds"], false);
}

#[test]
fn the_units_of_a_run_are_listed() {
    let place = chained();
    let run = place.succeed(&["runs", "brain.db", "20260630T120000Z-00000001"]);
    insta::assert_snapshot!("run", run);
    for name in ["latest", "20260630"] {
        assert_eq!(place.succeed(&["runs", "brain.db", name]), run);
    }
    let units = place.json(&["runs", "brain.db", "latest", "--json"])["list"].clone();
    assert_eq!(units[0]["memories"].as_array().map(Vec::len), Some(2));
    assert_eq!(units[1]["state"], "undone");
    place.run(&["runs", "brain.db", "x"]).fails(
        1,
        "there is no run x",
        "`memfold runs DB` lists them; `latest` is the last one",
    );
}

#[test]
fn a_store_that_was_never_written_to_has_no_runs() {
    let place = Place::with_pair();
    let text = place.succeed(&["runs", "brain.db"]);
    assert_eq!(text, "no run has written to this store yet\n");
    assert_eq!(place.run(&["runs", "brain.db", "latest"]).code, Some(1));
}

#[test]
fn a_memory_is_explained_as_a_tree() {
    let place = chained();
    let before = place.files();
    insta::assert_snapshot!("explain-memory", place.succeed(&["explain", "brain.db", "m000001"]));
    insta::assert_snapshot!("explain-ghost", place.succeed(&["explain", "brain.db", "m000000"]));
    let document = place.json(&["explain", "brain.db", "m000000", "--json"]);
    assert_eq!(document["live_id"], "m000001");
    assert_eq!(document["folds"][0]["similarity"], 0.9876);
    let survivor = place.json(&["explain", "brain.db", "m000001", "--json"]);
    assert_eq!(survivor["absorbed"]["shown"][0]["absorbed"], "m000000");
    assert!(before == place.files());
    place.run(&["explain", "brain.db", "x"]).fails(
        1,
        "x is not in this store",
        "check the id and the store",
    );
    assert_eq!(place.run(&["explain", "brain.db"]).code, Some(2));
    assert_eq!(place.run(&["explain", "brain.db", "x", "--texts", "a", "b"]).code, Some(2));
}

#[test]
fn lineage_survives_the_loss_of_the_tables() {
    let place = folded();
    let drop = "DROP TABLE memfold_lineage; DROP TABLE memfold_archive; DROP TABLE memfold_runs;
                DROP TABLE memfold_units; DROP TABLE memfold_journal; DROP TABLE memfold_flags;
                DROP TABLE memfold_decisions; DROP TABLE memfold_schema;";
    Connection::open(place.path("brain.db")).unwrap().execute_batch(drop).unwrap();
    assert_eq!(place.live_id("m000000"), "m000001");
    let text = place.succeed(&["explain", "brain.db", "m000001"]);
    assert!(text.contains("└─ m000000 (ghost)\n"), "{text}");
    assert!(text.contains("known from the rows' source only"), "{text}");
}

#[test]
fn an_id_leads_to_the_living() {
    let place = chained();
    assert_eq!(place.live_id("m000000"), "m000001");
    assert_eq!(place.live_id("m000002"), "m000002");
    let document = place.json(&["explain", "brain.db", "m000000", "--json"]);
    assert_eq!((&document["live_id"], &document["end"]), (&"m000001".into(), &"live".into()));
    let connection = Connection::open(place.path("brain.db")).unwrap();
    connection.execute("DELETE FROM stm WHERE id = 'm000001'", []).unwrap();
    let document = place.json(&["explain", "brain.db", "m000000", "--json"]);
    assert_eq!((&document["live_id"], &document["end"]), (&Value::Null, &"gone".into()));
}

#[test]
fn texts_of_a_store_cannot_steer_a_terminal() {
    let place = folded();
    Connection::open(place.path("brain.db"))
        .unwrap()
        .execute_batch(
            "UPDATE stm SET content = 'red ' || char(27) || '[31m', categories = char(27) || '[2J',
                            source = 'x' || char(27), created_at = char(27) || '[0m'
             WHERE id = 'm000001';
             UPDATE memfold_lineage SET reasons = char(27) || '[1m', rule_id = char(27), at = char(27);
             UPDATE memfold_runs SET kind = char(27), holder = char(27), state = char(27);
             UPDATE memfold_units SET actions = char(27), state = char(27);",
        )
        .unwrap();
    for arguments in [
        &["explain", "brain.db", "m000001"][..],
        &["runs", "brain.db"],
        &["runs", "brain.db", "latest"],
    ] {
        let text = place.succeed(arguments);
        assert!(!text.contains('\u{1b}') && text.contains("\\u{1b}"), "{text}");
    }
}
