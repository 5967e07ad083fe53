//! Looking back and taking back: `runs`, `explain`, `undo --memory`, `forget`, pruning.

use memfold_tests::{diff, integrity};
use serde_json::Value;

use crate::support::{TestFolder, consolidate};

/// The time of upkeep: a day after that of the runs.
const LATER: &str = "2026-07-01T12:00:00Z";

fn execute(dir: &TestFolder, further: &[&str]) -> Value {
    let arguments = consolidate(&["--execute", "--max-change-share", "1", "--json"]);
    dir.json(&[&arguments[..], further].concat())
}

/// The pair, of which m000000 was merged into m000001.
fn merged_store(further: &[&str]) -> (TestFolder, String) {
    let dir = TestFolder::with_pair();
    let document = execute(&dir, further);
    assert_eq!(document["executed"]["applied"], 1, "{document}");
    let run = document["run_id"].as_str().unwrap().to_owned();
    assert_eq!(dir.live_id("m000000"), "m000001");
    (dir, run)
}

fn planned_merges(dir: &TestFolder) -> Value {
    dir.json(&["consolidate", "brain.db", "--now", LATER, "--json"])["planned"]["merge"].clone()
}

fn restore<'a>(id: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    [&["undo", "brain.db", "--memory", id, "--now", LATER], further].concat()
}

fn forget<'a>(id: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    [&["forget", "brain.db", id, "--now", LATER], further].concat()
}

/// Every table's cells that hold a text; search indexes hold tokens and are queried by words.
fn cells_with(dir: &TestFolder, text: &str) -> Vec<String> {
    let connection = dir.connect();
    let columns: Vec<String> = dir.all(
        "SELECT t.name || '.' || c.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c
         WHERE t.type = 'table' AND t.name NOT LIKE '%_fts%' ORDER BY t.rowid, c.cid",
    );
    let holds = |column: &String| -> bool {
        let (table, name) = column.split_once('.').unwrap();
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM {table} WHERE instr(CAST(\"{name}\" AS TEXT), ?1) > 0)"
        );
        connection.query_row(&sql, [text], |row| row.get(0)).unwrap()
    };
    columns.into_iter().filter(holds).collect()
}

fn matches(dir: &TestFolder, word: &str) -> i64 {
    let sql = "SELECT count(*) FROM stm_fts WHERE stm_fts MATCH ?1";
    dir.connect().query_row(sql, [word], |row| row.get(0)).unwrap()
}

#[test]
fn restored_memory_lives_apart() {
    for merged in ["archive", "move"] {
        let setting = format!("merge.absorbed={merged}");
        let (dir, _) = merged_store(&["--set", &setting]);
        let before = dir.image();
        let files = dir.files();
        let preview = dir.succeed(&restore("m000000", &[]));
        assert!(preview.contains("kept apart from m000001"), "{preview}");
        assert!(preview.contains("undo brain.db --memory m000000 --execute"), "{preview}");
        assert!(files == dir.files());
        let document = dir.json(&restore("m000000", &["--execute", "--json"]));
        assert_eq!(document["restoration"]["apart_from"][0], "m000001");
        assert_eq!(dir.live_id("m000000"), "m000000");
        assert_eq!(planned_merges(&dir), 0, "{merged}");
        let row = "SELECT categories || source FROM stm WHERE id = 'm000000'";
        assert_eq!(dir.one::<String>(row), r#"["general"]agent"#);
        assert_eq!(integrity(&dir.path("brain.db")), [""; 0]);
        let run = document["run_id"].as_str().unwrap();
        dir.succeed(&["undo", "brain.db", run, "--execute"]);
        assert_eq!(diff(&before, &dir.image()), [""; 0], "{merged}");
        assert_eq!(dir.live_id("m000000"), "m000001");
    }
}

#[test]
fn undo_archived_lists_edited_and_orphaned_memories() {
    let (dir, _) = merged_store(&["--set", "merge.absorbed=archive"]);
    let nothing = "no archived memory was edited since, and every survivor is there\n";
    assert_eq!(dir.succeed("undo brain.db --archived"), nothing);
    dir.sql("UPDATE stm SET content = 'The kiln is fired on Tuesdays.' WHERE id = 'm000000'");
    insta::assert_snapshot!("restore-edited", dir.succeed("undo brain.db --archived"));
    dir.sql("DELETE FROM stm WHERE id = 'm000001'");
    let listed = dir.json("undo brain.db --archived --json");
    assert_eq!(listed["candidates"][0]["reason"], "survivor_gone");
    assert_eq!(listed["candidates"][0]["survivor"], "m000001");
    dir.succeed(&restore("m000000", &["--execute"]));
    assert_eq!(dir.live_id("m000000"), "m000000");
    assert_eq!(dir.succeed("undo brain.db --archived"), nothing);
}

#[test]
fn a_forgotten_memory_leaves_nothing_behind() {
    let (dir, run) = merged_store(&[]);
    dir.sql(
        r#"INSERT INTO stm(id, content, categories, source, created_at) VALUES
           ('flag_1', '{"type":"contradiction","ids":["m000001","m000002"]}', '[]',
            'consolidation:contradiction:k', '2026-06-30T00:00:00');"#,
    );
    let files = dir.files();
    let refused = dir.run(&forget("m000001", &["--execute"]));
    refused.fails_with(1, &["1 memories were merged into m000001: m000000", "--with-merged"]);
    let preview = dir.succeed(&forget("m000001", &["--with-merged"]));
    insta::assert_snapshot!("forget", preview.replace(&run, "RUN"));
    assert!(files == dir.files());
    let done = dir.json(&forget("m000001", &["--with-merged", "--execute", "--json"]));
    assert_eq!(done["erasure"]["ids"], serde_json::json!(["flag_1", "m000000", "m000001"]));
    assert_eq!([&done["erasure"]["memories"], &done["erasure"]["archived"]], [2, 2]);
    assert_eq!(done["files"]["backups"].as_array().unwrap().len(), 1);
    assert_eq!(done["files"]["reports"].as_array().unwrap().len(), 2);
    for text in ["m000000", "m000001", "flag_1", "kiln"] {
        assert_eq!(cells_with(&dir, text), [""; 0], "{text}");
        let log = std::fs::read(dir.path("brain.db-wal")).unwrap_or_default();
        let bytes = [std::fs::read(dir.path("brain.db")).unwrap(), log].concat();
        let is_there = bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(!is_there, "{text} is still in the file");
    }
    assert_eq!((matches(&dir, "kiln"), matches(&dir, "harbour")), (0, 1));
    assert_eq!(integrity(&dir.path("brain.db")), [""; 0]);
    let history = dir.json("runs brain.db --json");
    assert_eq!(history["audit_chain"]["holds"], true);
    assert_eq!(history["runs"][1]["kind"], "forget");
    dir.run(&["undo", "brain.db", &run, "--execute"]);
    assert_eq!(cells_with(&dir, "kiln"), [""; 0]);
    assert_eq!(planned_merges(&dir), 0);
    dir.run("explain brain.db m000001").fails_with(1, &["is not in this store"]);
}

/// `forget` did not mention memfold's own index, which kept the id, the hash of the text and the
/// vector: beside the store, and in another folder that was named. Processes that have an index
/// open go on with it.
#[test]
fn forget_removes_indexes_with_the_memory() {
    let dir = TestFolder::with_pair();
    let build =
        |further: &[&str]| dir.succeed(&[&["index", "build", "brain.db"], further].concat());
    build(&[]);
    build(&["--index-dir", "elsewhere"]);
    let open = memfold::lookup::StoreIndex::open(&dir.path("brain.db.memfold"));
    let holds = |folder: &str| {
        let files = dir.files();
        let mut inside = files.iter().filter(|(path, _)| path.to_string_lossy().contains(folder));
        inside.any(|(_, bytes)| bytes.windows(7).any(|window| window == b"m000000"))
    };
    assert!(holds("brain.db.memfold/") && holds("elsewhere/"));
    let files = dir.files();
    let preview = dir.json(&forget("m000000", &["--json"]));
    assert_eq!(preview["indexes"].as_array().unwrap().len(), 1);
    assert!(files == dir.files());
    let done = dir.succeed(&forget("m000000", &["--index-dir", "elsewhere", "--execute"]));
    assert!(done.contains("index removed, since it holds id and vector"), "{done}");
    assert!(done.contains("brain.db.memfold") && done.contains("elsewhere"), "{done}");
    assert!(!holds("brain.db.memfold/") && !holds("elsewhere/"));
    let known = open.unwrap().unwrap();
    assert_eq!(known.files().columns().len(), 3, "a reader keeps what it has open");
    // One that does not hold the memory stays.
    build(&[]);
    assert!(!holds("brain.db.memfold/"));
    dir.succeed(&forget("m000002", &["--execute"]));
    build(&[]);
    let others = dir.json(&forget("m000001", &["--json"]));
    assert_eq!(others["indexes"].as_array().unwrap().len(), 1);
}

/// Rows of the owner's other tables follow a forgotten memory where the schema says so; that is
/// reported before.
#[test]
fn forget_names_rows_that_follow() {
    let dir = TestFolder::with_pair();
    dir.sql(
        "CREATE TABLE notes (m TEXT REFERENCES stm(id) ON DELETE CASCADE);
         INSERT INTO notes VALUES ('m000000'), ('m000001')",
    );
    let preview = dir.succeed(&forget("m000000", &[]));
    let said = "your tables follow: table notes refers to stm by a foreign key";
    assert!(preview.contains(said), "{preview}");
    dir.succeed(&forget("m000000", &["--execute"]));
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM notes"), 1);
}

#[test]
fn forgotten_merged_memory_is_not_named_by_its_survivor() {
    for merged in ["archive", "move"] {
        let setting = format!("merge.absorbed={merged}");
        let (dir, run) = merged_store(&["--set", &setting]);
        dir.succeed(&forget("m000000", &["--execute"]));
        assert_eq!(cells_with(&dir, "m000000"), [""; 0], "{merged}");
        assert_eq!(dir.live_id("m000001"), "m000001");
        let undone = dir.run(&["undo", "brain.db", &run, "--execute"]);
        assert!(undone.out.contains("its journal was pruned"), "{undone:?}");
        assert_eq!(cells_with(&dir, "kiln"), ["stm.content", "embeddings.content"]);
        assert_eq!(dir.run(&forget("m000000", &[])).code, Some(1));
    }
}

#[test]
fn a_plan_that_names_a_forgotten_memory_is_not_applied() {
    let dir = TestFolder::with_pair();
    dir.succeed(&consolidate(&["--save-plan"]));
    dir.succeed(&forget("m000000", &["--execute"]));
    assert_eq!(cells_with(&dir, "m000000"), [""; 0]);
    assert_eq!(dir.run("apply brain.db latest --execute").code, Some(1));
    assert_eq!(dir.live_id("m000001"), "m000001");
}

#[test]
fn old_entries_of_the_journal_are_removed() {
    let (dir, run) = merged_store(&[]);
    dir.succeed(&consolidate(&["--save-plan", "--set", "guard.enabled=false"]));
    let prune = |age: &str, further: &[&str]| {
        let all = ["runs", "brain.db", "--prune-older-than", age, "--now", LATER];
        dir.json(&[&all[..], &["--json"], further].concat())
    };
    let files = dir.files();
    assert_eq!(prune("2d", &[])["runs"].as_array().unwrap().len(), 0);
    let preview = prune("23h", &[]);
    assert_eq!(preview["runs"][0]["run_id"], run.as_str());
    assert_eq!(preview["runs"][0]["no_longer_undoable"], 1);
    assert!(files == dir.files());
    prune("23h", &["--execute"]);
    for (table, left) in [("journal", 0), ("units", 0), ("lineage", 1)] {
        let count: i64 = dir.one(&format!("SELECT count(*) FROM memfold_{table}"));
        assert_eq!(count, left, "{table}");
    }
    assert_eq!(prune("23h", &[])["runs"].as_array().unwrap().len(), 0);
    dir.run(&["undo", "brain.db", &run, "--execute"]).fails_with(1, &["was pruned"]);
    assert_eq!(dir.live_id("m000000"), "m000001");
    assert_eq!(planned_merges(&dir), 0);
    let history = dir.json("runs brain.db --json");
    assert_eq!(history["audit_chain"]["holds"], true);
    assert_eq!(history["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn the_kill_switch_beats_execute() {
    let (dir, _) = merged_store(&[]);
    let files = dir.files();
    for arguments in [
        &restore("m000000", &["--execute"])[..],
        &forget("m000000", &["--execute"]),
        &["runs", "brain.db", "--prune-older-than", "0h", "--now", LATER, "--execute"],
        &["embed", "brain.db", "--execute", "--set", "embed.provider=daemon"],
    ] {
        for set in ["read_only=true", "enabled=false"] {
            let answer = dir.run(&[arguments, &["--set", set]].concat());
            assert_eq!(answer.code, Some(0), "{answer:?}");
            assert!(answer.err.contains("beats --execute"), "{answer:?}");
            assert!(files == dir.files(), "{arguments:?}");
        }
        let dry = dir.run(&[arguments, &["--dry-run"]].concat());
        assert!(dry.code == Some(0) && files == dir.files(), "{dry:?}");
    }
}

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
fn recorded_merge() -> TestFolder {
    let dir = TestFolder::with_pair();
    dir.sql(TABLES);
    dir
}

#[test]
fn runs_are_listed_with_their_audit_chain() {
    let dir = recorded_merge();
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
    let dir = recorded_merge();
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
    let dir = recorded_merge();
    let before = dir.files();
    insta::assert_snapshot!("explain-memory", dir.succeed("explain brain.db m000001"));
    insta::assert_snapshot!("explain-merged", dir.succeed("explain brain.db m000000"));
    let document = dir.json("explain brain.db m000000 --json");
    assert_eq!(document["live_id"], "m000001");
    assert_eq!(document["merges"][0]["similarity"], 0.9876);
    let survivor = dir.json("explain brain.db m000001 --json");
    assert_eq!(survivor["merged"]["shown"][0]["merged"], "m000000");
    assert!(before == dir.files());
    dir.run("explain brain.db x").fails(1, "x is not in this store", "check the id and the store");
}

#[test]
fn what_others_archived_is_restored_without_our_tables() {
    let dir = TestFolder::with_pair();
    dir.sql(
        "UPDATE stm SET source = 'archived:low_utility', categories = '[\"x\", \"archived\"]'
         WHERE id = 'm000002'",
    );
    dir.succeed(&restore("m000002", &["--execute"]));
    let row = "SELECT categories || source FROM stm WHERE id = 'm000002'";
    assert_eq!(dir.one::<String>(row), r#"["x"]agent"#);
}
