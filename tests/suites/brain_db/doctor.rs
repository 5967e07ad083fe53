//! Examinations of real files: every kind of finding, and that its fix works.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;
use memfold_index::NoProgress;
use rusqlite::Connection;
use tempfile::TempDir;

use super::{NOW, folder_state, plain_store, rollback, write, write_wild};
use memfold_core::runs::{RunKind, RunState};
use memfold_store::LoadRequest;
use memfold_store::brain_db::{
    BrainDb, Checkup, CreateOptions, Finding, FullTextKind, HealthStatus, Mend, OpenOptions,
    RunStart, Session, SessionOptions, Severity, findings, health,
};

const SHARED_TEXTS: usize = 20;

static UTC: TimeZone = TimeZone::UTC;

fn request() -> LoadRequest<'static> {
    LoadRequest { time_zone: &UTC, now: NOW, progress: &NoProgress }
}

fn check(path: &Path) -> Checkup {
    BrainDb::open(path, OpenOptions::default()).unwrap().checkup(&request(), SHARED_TEXTS).unwrap()
}

fn judge(path: &Path) -> Vec<Finding> {
    findings(&check(path).facts, "brain.db")
}

/// The codes of findings that are not ok.
fn codes(path: &Path) -> Vec<&'static str> {
    let bad = judge(path).into_iter().filter(|finding| finding.severity > Severity::Ok);
    bad.map(|finding| finding.code).collect()
}

fn finding(path: &Path, code: &str) -> Finding {
    let found = judge(path);
    let names: Vec<&str> = found.iter().map(|finding| finding.code).collect();
    found.iter().find(|finding| finding.code == code).unwrap_or_else(|| panic!("{names:?}")).clone()
}

fn commands(finding: &Finding) -> Vec<&str> {
    let lines = finding.mend.iter().filter_map(|mend| match mend {
        Mend::Command(line) => Some(line.as_str()),
        Mend::Sql(_) | Mend::Advice(_) => None,
    });
    lines.collect()
}

/// Runs the statements of the fixes.
fn mend(path: &Path, codes: &[&str]) {
    let found = judge(path);
    let connection = Connection::open(path).unwrap();
    for finding in found.iter().filter(|finding| codes.contains(&finding.code)) {
        for mend in &finding.mend {
            if let Mend::Sql(sql) = mend {
                connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
        }
    }
}

fn change(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

fn store_with(sql: &str) -> (TempDir, PathBuf) {
    let (folder, path) = plain_store(30);
    change(&path, sql);
    (folder, path)
}

fn session(path: &Path) -> Session {
    let options =
        SessionOptions { busy_timeout: Duration::from_secs(1), holder: "host 7".to_owned() };
    Session::open_beside_runs(path, &options).unwrap()
}

/// A store that memfold has written to.
fn own_store(sql: &str) -> (TempDir, PathBuf) {
    let (folder, path) = plain_store(30);
    let connection = Connection::open(&path).unwrap();
    session(&path).prepare("t").unwrap();
    connection.execute("UPDATE memfold_schema SET store_uuid = 'store_1'", []).unwrap();
    connection.execute_batch(sql).unwrap();
    (folder, path)
}

const RUN: &str =
    "INSERT INTO memfold_runs(run_id, kind, plan_id, target, state, holder, started_at,
    heartbeat_at, applied, engine_version, prev_hash) VALUES ";

#[test]
fn doctor_statements_repair_a_wild_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("brain.db");
    write_wild(&path, 200);
    let before = codes(&path);
    let mended =
        ["full_text_missing", "embeddings_invalid", "embeddings_stale", "embeddings_orphaned"];
    for code in mended {
        assert!(before.contains(&code), "{code}: {before:?}");
    }
    let invalid = finding(&path, "embeddings_invalid");
    assert_eq!((invalid.count, invalid.examples.len()), (Some(7), 7));
    mend(&path, &mended);
    let after = codes(&path);
    assert!(mended.iter().all(|code| !after.contains(code)), "{after:?}");
    let kept: Vec<_> = before.into_iter().filter(|code| !mended.contains(code)).collect();
    assert_eq!(after, kept);
}

#[test]
fn orphaned_search_entries_are_removed() {
    let (_folder, path) = store_with("DELETE FROM stm WHERE rowid IN (5, 30)");
    let facts = check(&path).facts.full_text;
    assert_eq!((facts.kind, facts.orphans, facts.orphans_ahead), (FullTextKind::Contentless, 2, 1));
    assert_eq!(finding(&path, "full_text_orphans").severity, Severity::Warning);
    mend(&path, &["full_text_orphans"]);
    let facts = check(&path).facts.full_text;
    assert_eq!((facts.orphans, facts.missing.count), (0, 0));
    let hits = |word: &str| -> i64 {
        let sql = "SELECT count(*) FROM stm_fts WHERE stm_fts MATCH ?1";
        Connection::open(&path).unwrap().query_row(sql, [word], |row| row.get(0)).unwrap()
    };
    change(&path, "INSERT INTO stm(id, content, created_at) VALUES ('x', 'zebra', '2026-01-01')");
    assert_eq!(hits("zebra"), 0);
    assert_eq!(finding(&path, "full_text_missing").examples, ["x"]);
    mend(&path, &["full_text_missing"]);
    assert_eq!(hits("zebra"), 1);
    assert_eq!(check(&path).facts.full_text.missing.count, 0);
}

#[test]
fn every_kind_of_index_is_told_apart() {
    let (_folder, path) = store_with("DROP TABLE stm_fts");
    assert!(codes(&path).contains(&"full_text_absent"));
    for (options, kind) in [
        (", content='', columnsize=0", FullTextKind::Opaque),
        (", content=stm", FullTextKind::External),
        ("", FullTextKind::Stored),
    ] {
        change(
            &path,
            &format!(
                "DROP TABLE IF EXISTS stm_fts;
             CREATE VIRTUAL TABLE stm_fts USING fts5(content{options});
             INSERT INTO stm_fts(rowid, content) SELECT rowid, content FROM stm WHERE rowid < 20"
            ),
        );
        let facts = check(&path).facts.full_text;
        assert_eq!(facts.kind, kind);
        if kind == FullTextKind::Opaque {
            assert!(codes(&path).contains(&"full_text_opaque"));
            continue;
        }
        assert_eq!(facts.missing.count, 11);
        mend(&path, &["full_text_missing"]);
        assert_eq!(check(&path).facts.full_text.missing.count, 0);
    }
    change(&path, "DELETE FROM stm WHERE rowid = 3");
    mend(&path, &["full_text_orphans"]);
    assert!(codes(&path).iter().all(|code| !code.starts_with("full_text")));
}

#[test]
fn broken_references_are_counted_and_mended() {
    let (_folder, path) = store_with(
        "PRAGMA foreign_keys = OFF; UPDATE stm SET source_message_id = 'gone' WHERE rowid < 4",
    );
    let found = finding(&path, "references_broken");
    assert_eq!(found.count, Some(3));
    assert_eq!(found.what, "3 rows refer to rows that are not there: 3 from stm to messages");
    mend(&path, &["references_broken"]);
    assert!(!codes(&path).contains(&"references_broken"));
}

#[test]
fn damage_is_a_finding_and_no_error() {
    let (folder, path) = plain_store(400);
    let mut bytes = std::fs::read(&path).unwrap();
    let page = 4096;
    for at in (4 * page..bytes.len()).step_by(3 * page) {
        bytes[at..at + 600].fill(0x5a);
    }
    std::fs::write(&path, bytes).unwrap();
    let before = folder_state(folder.path());
    let found = finding(&path, "damaged");
    assert_eq!((found.severity, commands(&found).len()), (Severity::Critical, 1));
    assert!(!found.examples.is_empty() && found.examples.len() <= 12);
    assert_eq!(health(&path, OpenOptions::default(), &request()).status, HealthStatus::Critical);
    assert_eq!(folder_state(folder.path()), before);
}

/// The advice was `.recover`, which writes 0 bytes for a store like this in SQLite 3.40.
#[test]
fn a_damaged_full_text_index_is_filled_anew() {
    let (_folder, path) =
        store_with("UPDATE stm_fts_data SET block = x'deadbeef0102' WHERE id > 10");
    let found = finding(&path, "full_text_damaged");
    assert_eq!((found.severity, commands(&found).len()), (Severity::Critical, 0));
    assert_eq!(health(&path, OpenOptions::default(), &request()).status, HealthStatus::Critical);
    mend(&path, &["full_text_damaged"]);
    let codes = codes(&path);
    assert!(!codes.contains(&"full_text_damaged") && !codes.contains(&"damaged"), "{codes:?}");
}

#[test]
fn one_vector_under_many_texts_is_a_finding() {
    let same =
        "UPDATE embeddings SET embedding = (SELECT embedding FROM embeddings LIMIT 1) WHERE rowid";
    let (_folder, path) = store_with(&format!("{same} < 20"));
    assert!(!codes(&path).contains(&"vectors_shared"));
    change(&path, &format!("{same} < 21"));
    let found = finding(&path, "vectors_shared");
    assert_eq!((found.count, found.examples.len()), (Some(1), 1));
    assert!(found.what.contains("(20 memories)"), "{}", found.what);
}

#[test]
fn unfinished_runs_name_apply_and_undo() {
    let dead = NOW.to_naive_local(&UTC).replace("2026-06", "2026-05");
    let (_folder, path) = own_store(&format!(
        "{RUN} ('r1', 'execute', 'p1', NULL, 'interrupted', 'h', 't', '{dead}', 3, 'e', ''),
              ('r2', 'undo', NULL, 'r0', 'running', 'h', 't', '{dead}', 1, 'e', ''),
              ('r3', 'execute', 'p2', NULL, 'interrupted', 'h', 't', '{dead}', 3, 'e', ''),
              ('r4', 'execute', 'p2', NULL, 'done', 'h', 't', '{dead}', 3, 'e', '');
         INSERT INTO memfold_units(run_id, unit, state, digests, at) VALUES ('r2', 1, 'applied', '{{}}', 't')"
    ));
    let found: Vec<Finding> =
        judge(&path).into_iter().filter(|finding| finding.code == "run_unfinished").collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(commands(&found[0]), ["memfold undo brain.db r0 --execute"]);
    assert!(found[0].what.contains("stopped after 1 unit;"), "{}", found[0].what);
    let both = ["memfold apply brain.db p1 --execute", "memfold undo brain.db r1 --execute"];
    assert_eq!(commands(&found[1]), both);
    let now = NOW.to_naive_local(&UTC);
    change(&path, &format!("UPDATE memfold_runs SET heartbeat_at = '{now}' WHERE run_id = 'r2'"));
    assert_eq!(finding(&path, "run_under_way").severity, Severity::Info);
    let lock = std::fs::File::create(path.with_file_name("brain.db.memfold-lock")).unwrap();
    assert!(!codes(&path).contains(&"run_under_way"));
    lock.lock().unwrap();
    assert!(codes(&path).contains(&"run_under_way"));
    assert_eq!(health(&path, OpenOptions::default(), &request()).status, HealthStatus::Warning);
}

#[test]
fn tables_of_other_versions_and_half_gone_ones_are_told() {
    let (_folder, path) = own_store("");
    let store = Connection::open(&path).unwrap();
    let sql = "SELECT version FROM memfold_schema";
    let version: i64 = store.query_row(sql, [], |row| row.get(0)).unwrap();
    change(&path, "UPDATE memfold_schema SET version = 99");
    assert!(codes(&path).contains(&"own_tables_newer"));
    change(&path, "UPDATE memfold_schema SET version = 0");
    assert!(codes(&path).contains(&"own_tables_older"));
    change(
        &path,
        &format!(
            "UPDATE memfold_schema SET version = {version}; DROP TABLE memfold_journal;
             DROP TABLE memfold_runs"
        ),
    );
    let found = finding(&path, "own_tables_incomplete");
    assert_eq!(found.what, "memfold's tables are incomplete: no memfold_runs, memfold_journal");
    change(&path, "DROP TABLE memfold_schema");
    assert!(codes(&path).contains(&"own_tables_incomplete"));
}

#[test]
fn a_changed_record_of_runs_is_noticed() {
    let (_folder, path) = own_store("");
    assert_eq!(finding(&path, "audit_chain_whole").severity, Severity::Ok);
    for run_id in ["r1", "r2", "r3"] {
        let start = RunStart {
            run_id,
            kind: RunKind::Execute,
            plan_id: None,
            target: None,
            holder: "host 7",
            at: "2026-05-01T00:00:00",
        };
        session(&path).begin_run(&start).unwrap();
        let executed = memfold_core::report::Executed::default();
        session(&path).finish_run(run_id, RunState::Done, "t", executed).unwrap();
    }
    assert_eq!(finding(&path, "audit_chain_whole").severity, Severity::Ok);
    change(&path, "UPDATE memfold_runs SET applied = 9 WHERE run_id = 'r1'");
    let broken = finding(&path, "audit_chain_broken");
    assert!(broken.what.ends_with("before run r2"), "{}", broken.what);
    assert_eq!(commands(&broken), ["memfold runs brain.db"]);
}

#[test]
fn moved_rows_are_neither_visible_nor_gone() {
    let archived = |id: &str| {
        format!(
            "INSERT INTO memfold_archive(memory_id, table_name, row, indexed, run_id, at)
         VALUES ('{id}', 'stm', '{{}}', 1, 'r', 't');"
        )
    };
    let (_folder, path) = own_store(&format!(
        "UPDATE stm SET source = 'archived:{{\"merged_into\": \"moved_survivor\"}}' WHERE rowid IN (2, 3);
         {}", archived("moved_survivor")
    ));
    assert_eq!(finding(&path, "archived_visible").count, Some(2));
    assert!(!codes(&path).contains(&"survivor_gone"));
    change(&path, &archived("stm_000000000001"));
    assert_eq!(finding(&path, "archived_visible").count, Some(1));
}

#[test]
fn merged_rows_without_survivor_or_edited_can_be_restored() {
    let (_folder, path) = own_store(
        "UPDATE stm SET source = 'archived:{\"merged_into\": \"stm_000000000005\"}' WHERE rowid IN (2, 3);
         INSERT INTO memfold_lineage(absorbed_id, survivor_id, run_id, unit, at, active) VALUES
             ('stm_000000000001', 'stm_000000000005', 'r', 0, 't', 1),
             ('stm_000000000002', 'stm_000000000005', 'r', 0, 't', 1)",
    );
    let snapshot = check(&path).loaded.unwrap();
    let digest = |id: &str| {
        let memory = snapshot.memories.iter().find(|memory| memory.id.as_str() == id).unwrap();
        memory.base_digest.to_string()
    };
    let digests = serde_json::json!({
        "stm_000000000001": digest("stm_000000000001"),
        "stm_000000000002": digest("stm_000000000002"),
    });
    change(
        &path,
        &format!(
            "INSERT INTO memfold_units(run_id, unit, state, digests, at) VALUES ('r', 0, 'applied', '{digests}', 't')"
        ),
    );
    assert!(codes(&path).iter().all(|code| !code.starts_with("archived_edited")));
    change(&path, "UPDATE stm SET content = content || ' edited' WHERE id = 'stm_000000000002'");
    let edited = finding(&path, "archived_edited");
    assert_eq!(edited.examples, ["stm_000000000002"]);
    assert_eq!(commands(&edited), ["memfold undo brain.db --memory stm_000000000002 --execute"]);
    change(&path, "DELETE FROM stm WHERE id = 'stm_000000000005'");
    assert_eq!(finding(&path, "survivor_gone").count, Some(2));
    assert_eq!(finding(&path, "archived_visible").count, Some(2));
}

#[test]
fn other_consolidators_show_in_the_data() {
    let (folder, path) = store_with(
        "CREATE TABLE compression_log (id TEXT);
         UPDATE stm SET source = 'abstraction-engine', categories = '[\"a\", \"compressed\"]' WHERE rowid = 1;
         UPDATE stm SET source = 'archived:merged_into:stm_000000000000' WHERE rowid IN (2, 3);
         UPDATE stm SET content = '[CONSOLIDATED] x' WHERE rowid = 4",
    );
    std::fs::write(folder.path().join("consolidations.db"), "").unwrap();
    let other_consolidators = check(&path).facts.other_consolidators;
    let rows: Vec<_> = other_consolidators.iter().map(|other| other.rows).collect();
    assert_eq!(rows, [None, None, Some(1), Some(1), Some(1), Some(2)], "{other_consolidators:?}");
    let (_folder, path) = plain_store(5);
    assert!(check(&path).facts.other_consolidators.is_empty());
}

#[test]
fn files_are_looked_at() {
    let (folder, path) = plain_store(5);
    std::fs::write(folder.path().join("brain.db.memfold-lock"), "").unwrap();
    assert_eq!(finding(&path, "lock_file").severity, Severity::Ok);
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA wal_autocheckpoint = 0; CREATE TABLE big (x)").unwrap();
    let fill = "INSERT INTO big WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700)
                SELECT zeroblob(100000) FROM n";
    writer.execute_batch(fill).unwrap();
    assert!(codes(&path).contains(&"log_large"));
    writer.execute_batch("DROP TABLE big; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(writer);
    let found = codes(&path);
    assert!(found.contains(&"pages_free") && !found.contains(&"log_large"), "{found:?}");
}

#[test]
fn an_examination_leaves_no_trace() {
    let plain = |path: &Path| write(path, 30, CreateOptions::default());
    let with_journal = |path: &Path| write(path, 30, rollback());
    let wild = |path: &Path| drop(write_wild(path, 30));
    for (name, make) in
        [("plain", &plain as &dyn Fn(&Path)), ("rollback", &with_journal), ("wild", &wild)]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("brain.db");
        make(&path);
        let look = || {
            let before = folder_state(folder.path());
            check(&path);
            let health = health(&path, OpenOptions::default(), &request());
            assert!(health.counts.is_some(), "{health:?}");
            assert_eq!(folder_state(folder.path()), before, "{name}");
        };
        look();
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch("UPDATE stm SET access_count = 7").unwrap();
        look();
    }
}

#[test]
fn health_of_a_wrong_file_is_critical() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("brain.db");
    let line = || {
        let health = health(&path, OpenOptions::default(), &request());
        assert_eq!(health.status, HealthStatus::Critical);
        health.line()
    };
    assert!(line().starts_with("CRITICAL | ") && line().ends_with("brain.db does not exist"));
    for bytes in [b"".as_slice(), b"no store\n\x1b[31m", b"SQLite format 3\0 and no more"] {
        std::fs::write(&path, bytes).unwrap();
        let line = line();
        assert!(!line.contains(['\n', '\u{1b}']), "{line}");
    }
}

/// The statements of a document, by code block.
fn statements(document: &str) -> Vec<String> {
    let blocks = document.split("```sql\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_statements_of_the_recovery_document_run() {
    let document =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/recovery.md"));
    let statements = statements(&document.unwrap());
    let (_folder, path) = own_store("");
    let connection = Connection::open(&path).unwrap();
    let (drops, queries): (Vec<_>, Vec<_>) =
        statements.iter().partition(|sql| sql.contains("DROP TABLE"));
    assert_eq!(drops.len(), 1);
    let mut run = 0;
    for sql in queries {
        for part in sql.split_inclusive(';').filter(|part| !part.trim().is_empty()) {
            run += 1;
            let mut statement = connection.prepare(part).unwrap_or_else(|e| panic!("{part}: {e}"));
            let _rows: i64 = statement.query_map([], |_| Ok(())).unwrap().map(|_| 1).sum();
        }
    }
    assert_eq!(run, 5, "statements of the document that are no DROP");
    let mut tables = connection
        .prepare(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'memfold_%'
             AND name NOT GLOB 'memfold_merged_*'",
        )
        .unwrap();
    let tables: Vec<String> =
        tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(tables.len() > 9);
    for table in tables {
        assert!(drops[0].contains(&format!("DROP TABLE {table};")), "{table}");
    }
    connection.execute_batch(drops[0]).unwrap();
    assert!(check(&path).facts.own.is_none());
}
