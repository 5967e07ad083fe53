//! `doctor`: findings for people and for programs, the line for monitors, the page for Prometheus.

use memfold_store::brain_db::StoreStyle;
use memfold_tests::{NOW, brain_db, sample_rows};
use rusqlite::Connection;
use serde_json::Value;

use crate::support::{Place, consolidate};

pub(crate) fn wild() -> Place {
    let place = Place::new();
    brain_db(&place.path("brain.db"), &sample_rows(), StoreStyle::Wild);
    place
}

/// The sample with pages overwritten.
pub(crate) fn damaged() -> Place {
    let place = Place::with_sample();
    let mut bytes = std::fs::read(place.path("brain.db")).unwrap();
    let length = bytes.len();
    for at in (8 * 4096..length).step_by(5 * 4096) {
        bytes[at..at + 512].fill(0x5a);
    }
    place.write("brain.db", bytes);
    place
}

fn screen(place: &Place) -> String {
    place.succeed(&["doctor", "brain.db", "--now", NOW])
}

#[test]
fn screens_are_as_published() {
    for (name, place) in [("sample", Place::with_sample()), ("wild", wild())] {
        let text = screen(&place);
        // What is to be copied stays on one line, and so does a row of a table in a pipe.
        let is_prose = |line: &&str| {
            let is_row = line.starts_with(' ') && !line.starts_with("  ");
            !is_row && !["run:  ", "sql:  "].iter().any(|mark| line.contains(mark))
        };
        let widest = text.lines().filter(is_prose).map(|line| line.chars().count());
        assert!(widest.max() <= Some(80), "{text}");
        insta::assert_snapshot!(name, text);
    }
}

#[test]
fn a_repaired_store_has_nothing_to_mend() {
    let place = Place::with_pair();
    let text = screen(&place);
    assert!(text.contains("nothing is wrong with this store"), "{text}");
    assert!(!text.contains("sql"), "{text}");
}

/// A full-text table of another program's tokenizer ended the examination in "SQL logic error", and one for memories was not
/// mentioned although every save failed.
#[test]
fn a_table_that_sqlite_cannot_open_is_named() {
    for (table, expected) in [
        ("notes_fts", "the table notes_fts was not checked, SQLite cannot open it here"),
        ("stm_fts", "SQLite cannot open the full-text index stm_fts here"),
    ] {
        let place = Place::with_pair();
        let store = Connection::open(place.path("brain.db")).unwrap();
        store
            .execute_batch(
                "CREATE VIRTUAL TABLE IF NOT EXISTS notes_fts USING fts5(content);
                 PRAGMA writable_schema = ON;",
            )
            .unwrap();
        let sql = "UPDATE sqlite_master SET sql = replace(sql, '(content', '(tokenize=''jieba'', content')
                   WHERE name = ?1";
        assert_eq!(store.execute(sql, [table]).unwrap(), 1, "{table}");
        drop(store);
        let text = screen(&place).replace("\n  ", " ");
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("SQLite's integrity check says ok"), "{text}");
    }
}

/// `memory.json` as one JSON value: no line of it is a record, and "nothing is wrong with this store".
#[test]
fn a_store_of_which_nothing_can_be_read_is_critical() {
    let place = Place::new();
    place.write("memory.json", "{\n  \"entities\": [],\n  \"relations\": []\n}\n");
    let words = ["doctor", "memory.json", "--store-kind", "mcp_memory"];
    let text = place.run(&words).out;
    assert!(text.contains("nothing of the store could be read as mcp_memory"), "{text}");
    assert!(!text.contains("nothing is wrong"), "{text}");
    let health = place.run(&[&words[..], &["--health"]].concat());
    assert_eq!(health.code, Some(2), "{health:?}");
}

/// The statement named 20 of 220 embeddings, and whoever ran it took the store for mended.
#[test]
fn a_statement_names_every_row_that_it_mends() {
    let place = Place::with_sample();
    let store = Connection::open(place.path("brain.db")).unwrap();
    let broken = "UPDATE embeddings SET embedding = zeroblob(length(embedding)) WHERE rowid <= 220";
    assert_eq!(store.execute(broken, []).unwrap(), 220);
    let finding = || {
        let document = place.json(&["doctor", "brain.db", "--json"]);
        let findings = document["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|finding| finding["code"] == "embeddings_invalid")
    };
    let found = finding().unwrap();
    let sql = found["mend"][0]["text"].as_str().unwrap();
    let count = found["count"].as_u64().unwrap();
    assert!(count > 100, "{found:#}");
    assert_eq!(sql.matches("stm_").count() as u64, count, "{sql}");
    store.execute_batch(sql).unwrap();
    assert_eq!(finding(), None);
}

#[test]
fn programs_get_the_findings_with_all_that_was_there_before() {
    let place = wild();
    let document = place.json(&["doctor", "brain.db", "--json"]);
    for field in [
        "store_id",
        "memories",
        "live",
        "with_embedding",
        "skipped",
        "examples",
        "spaces",
        "rivals",
        "notes",
    ] {
        assert!(!document[field].is_null(), "{field}");
    }
    let findings = document["findings"].as_array().unwrap();
    for finding in findings {
        let severity = finding["severity"].as_str().unwrap();
        assert!(["ok", "info", "warning", "critical"].contains(&severity));
        for mend in finding["mend"].as_array().into_iter().flatten() {
            let kind = mend["kind"].as_str().unwrap();
            assert!(["command", "sql", "advice"].contains(&kind) && mend["text"].is_string());
        }
    }
    let by_code = |code: &str| findings.iter().find(|finding| finding["code"] == code).unwrap();
    assert_eq!(by_code("embeddings_invalid")["count"], 7);
    assert_eq!(by_code("sound")["severity"], "ok");
    assert_eq!(document["rivals"][0]["rows"], 1);
}

#[test]
fn damage_is_told_with_what_mends_it() {
    let place = damaged();
    let before = place.files();
    let answer = place.run(&["doctor", "brain.db"]);
    assert!(answer.out.starts_with("1 critical finding"), "{answer:?}");
    assert!(answer.out.contains("the file is damaged: "), "{answer:?}");
    assert!(answer.out.contains("run:  sqlite3 brain.db .recover | sqlite3 brain.db.recovered"));
    let health = place.run(&["doctor", "brain.db", "--health"]);
    assert_eq!((health.code, health.err.as_str()), (Some(2), ""), "{health:?}");
    assert!(health.out.starts_with("CRITICAL | "), "{health:?}");
    assert!(before == place.files());
}

#[test]
fn health_is_one_line_and_a_code() {
    let place = Place::with_sample();
    let before = place.files();
    let line = place.succeed(&["doctor", "brain.db", "--health", "--now", NOW]);
    let expected = "OK | STM:377 | live:366 | embedded:";
    assert!(line.starts_with(expected) && line.lines().count() == 1, "{line}");
    let document = place.json(&["doctor", "brain.db", "--health", "--json", "--now", NOW]);
    assert_eq!((document["status"].as_str(), document["live"].as_u64()), (Some("ok"), Some(366)));
    assert_eq!(document["line"].as_str().unwrap(), line.trim_end());
    assert!(before == place.files());
}

#[test]
fn health_of_what_is_no_store_is_critical_and_quiet() {
    let place = Place::new();
    place.write("empty.db", "");
    place.write("text.db", "id,content\n1,\x1b[31mred\n");
    place.write("cut.db", "SQLite format 3\0");
    std::fs::create_dir(place.path("folder.db")).unwrap();
    for name in ["missing.db", "empty.db", "text.db", "cut.db", "folder.db"] {
        let answer = place.run(&["doctor", name, "--health"]);
        assert_eq!((answer.code, answer.err.as_str()), (Some(2), ""), "{name}: {answer:?}");
        assert!(answer.out.starts_with(&format!("CRITICAL | {name} ")), "{answer:?}");
        assert_eq!(answer.out.lines().count(), 1, "{answer:?}");
        let document = place.run(&["doctor", name, "--health", "--json"]);
        let document: Value = serde_json::from_str(&document.out).unwrap();
        assert_eq!(document["status"], "critical");
        assert!(document["memories"].is_null());
    }
    let answer = place.run(&["doctor", "brain.db", "--health", "--set", "no.such.key=1"]);
    assert_eq!((answer.code, answer.err.as_str()), (Some(2), ""), "{answer:?}");
    assert!(answer.out.starts_with("CRITICAL | failed to read the configuration"), "{answer:?}");
}

#[test]
fn a_store_that_somebody_locks_is_a_warning() {
    let place = Place::with_pair();
    let connection = Connection::open(place.path("brain.db")).unwrap();
    connection.execute_batch("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE").unwrap();
    let answer = place.run(&["doctor", "brain.db", "--health", "--set", "busy_timeout_ms=50"]);
    assert_eq!((answer.code, answer.err.as_str()), (Some(1), ""), "{answer:?}");
    assert!(answer.out.starts_with("WARN | brain.db was locked by another process"), "{answer:?}");
}

#[test]
fn metrics_of_a_run_replace_those_of_the_one_before() {
    let place = Place::with_sample();
    place.write("memfold.prom", "# HELP memfold_memories Memories in the store.\nold");
    place.succeed(&consolidate(&["--metrics", "memfold.prom"]));
    let page = std::fs::read_to_string(place.path("memfold.prom")).unwrap();
    for line in [
        "# TYPE memfold_memories gauge",
        "memfold_memories 377",
        "memfold_consolidated_share 0",
        "memfold_live 366",
        "memfold_last_run_success 1",
        "memfold_executed{outcome=\"applied\"} 0",
    ] {
        assert!(page.lines().any(|found| found == line), "no {line:?} in {page}");
    }
    let answer = place.run(&consolidate(&["--metrics", "no/such/folder.prom"]));
    assert_eq!(answer.code, Some(1));
    assert!(answer.err.contains("hint: make the folder first"), "{}", answer.err);
}

#[test]
fn a_row_that_was_edited_after_a_merge_is_proposed_for_restoring() {
    let place = Place::with_sample();
    let in_place = ["--set", "merge.absorbed=archive"];
    place.succeed(&consolidate(
        &[&in_place[..], &["--execute", "--max-change-share", "1"]].concat(),
    ));
    let codes = || -> Vec<Value> {
        let document = place.json(&["doctor", "brain.db", "--json", "--now", NOW]);
        document["findings"].as_array().unwrap().clone()
    };
    let find = |code: &str| codes().into_iter().find(|finding| finding["code"] == code);
    assert!(find("archived_edited").is_none() && find("survivor_gone").is_none());
    assert_eq!(find("audit_chain_whole").unwrap()["severity"], "ok");
    assert_eq!(find("full_text_complete").unwrap()["severity"], "ok");
    let connection = Connection::open(place.path("brain.db")).unwrap();
    let sql =
        "SELECT absorbed_id FROM memfold_lineage WHERE active = 1 ORDER BY absorbed_id LIMIT 1";
    let id: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    let edit = "UPDATE stm SET content = content || ' And more.' WHERE id = ?1";
    connection.execute(edit, [&id]).unwrap();
    let edited = find("archived_edited").unwrap();
    assert_eq!(edited["examples"], serde_json::json!([id]));
    let command = format!("memfold undo brain.db --memory {id} --execute");
    assert_eq!(edited["mend"][0]["text"], command);
}
