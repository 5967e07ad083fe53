//! `doctor`: findings for people and for programs, the line for monitors, the page for Prometheus.

use memfold_tests::{NOW, StoreStyle, brain_db, sample_rows};

use crate::support::{TestFolder, consolidate};

pub(crate) fn wild() -> TestFolder {
    let dir = TestFolder::new();
    brain_db(&dir.path("brain.db"), &sample_rows(), StoreStyle::Wild);
    dir
}

fn screen(dir: &TestFolder) -> String {
    dir.succeed(&["doctor", "brain.db", "--now", NOW])
}

#[test]
fn screens_are_as_published() {
    for (name, dir) in [("sample", TestFolder::with_sample()), ("wild", wild())] {
        let text = screen(&dir);
        // Text to copy stays on one line, and so does a row of a table in a pipe.
        let is_prose = |line: &&str| {
            let is_row = line.starts_with(' ') && !line.starts_with("  ");
            !is_row && !["run:  ", "sql:  "].iter().any(|mark| line.contains(mark))
        };
        let widest = text.lines().filter(is_prose).map(|line| line.chars().count());
        assert!(widest.max() <= Some(80), "{text}");
        insta::assert_snapshot!(name, text);
    }
}

/// A full-text table of another program's tokenizer ended the examination in "SQL logic error", and one for memories was not
/// mentioned although every save failed.
#[test]
fn unreadable_virtual_table_is_named() {
    for (table, expected) in [
        ("notes_fts", "the table notes_fts was not checked, SQLite cannot open it here"),
        ("stm_fts", "SQLite cannot open the full-text index stm_fts here"),
    ] {
        let dir = TestFolder::with_pair();
        let store = dir.connect();
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
        let text = screen(&dir).replace("\n  ", " ");
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("SQLite's integrity check says ok"), "{text}");
    }
}

/// `memory.json` of which no line is a record, and "nothing is wrong with this store".
#[test]
fn unreadable_store_is_critical() {
    let dir = TestFolder::new();
    dir.write("memory.json", "{\n  \"songs\": [\n}\n");
    let words = ["doctor", "memory.json", "--store-kind", "mcp_memory"];
    let text = dir.run(&words).out;
    assert!(text.contains("nothing of the store could be read as mcp_memory"), "{text}");
    assert!(!text.contains("nothing is wrong"), "{text}");
    let health = dir.run(&[&words[..], &["--health"]].concat());
    assert_eq!(health.code, Some(2), "{health:?}");
}

/// The statement named 20 of 220 embeddings, and users who ran it took the store for repaired.
#[test]
fn repair_statement_names_every_row() {
    let dir = TestFolder::with_sample();
    let store = dir.connect();
    let broken = "UPDATE embeddings SET embedding = zeroblob(length(embedding)) WHERE rowid <= 220";
    assert_eq!(store.execute(broken, []).unwrap(), 220);
    let finding = || {
        let document = dir.json("doctor brain.db --json");
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
fn health_is_one_line_and_a_code() {
    let dir = TestFolder::with_sample();
    let before = dir.files();
    let line = dir.succeed(&["doctor", "brain.db", "--health", "--now", NOW]);
    let expected = "OK | STM:377 | live:366 | embedded:";
    assert!(line.starts_with(expected) && line.lines().count() == 1, "{line}");
    let document = dir.json(&["doctor", "brain.db", "--health", "--json", "--now", NOW]);
    assert_eq!((document["status"].as_str(), document["live"].as_u64()), (Some("ok"), Some(366)));
    assert_eq!(document["line"].as_str().unwrap(), line.trim_end());
    assert!(before == dir.files());
}

#[test]
fn locked_store_is_a_warning() {
    let dir = TestFolder::with_pair();
    let connection = dir.connect();
    connection.execute_batch("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE").unwrap();
    let answer = dir.run("doctor brain.db --health --set busy_timeout_ms=50");
    assert_eq!((answer.code, answer.err.as_str()), (Some(1), ""), "{answer:?}");
    assert!(answer.out.starts_with("WARN | brain.db was locked by another process"), "{answer:?}");
}

#[test]
fn metrics_file_is_replaced_by_each_run() {
    let dir = TestFolder::with_sample();
    dir.write("memfold.prom", "# HELP memfold_memories Memories in the store.\nold");
    dir.succeed(&consolidate(&["--metrics", "memfold.prom"]));
    let page = dir.read("memfold.prom");
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
    let answer = dir.run(&consolidate(&["--metrics", "no/such/folder.prom"]));
    assert_eq!(answer.code, Some(1));
    assert!(answer.err.contains("hint: make the folder first"), "{}", answer.err);
}
