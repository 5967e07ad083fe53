//! A table of a SQLite file: named or recognised, planned, applied, undone, and the refusals.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::support::TestFolder;

const NOTES: &str = "
    CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT, extra BLOB, weight REAL, user_id TEXT, archived INTEGER DEFAULT 0);
    INSERT INTO notes VALUES
        (1, 'The API deploys every Friday at 5 pm', x'00ff', 0.1, 'ana', 0),
        (2, 'The API deploys every Friday at 5 pm.', x'fe', 1e300, 'ana', 0),
        (3, 'Bob likes green tea', NULL, 2, 'ana', 0),
        (4, 'The API deploys every Friday at 5 pm', NULL, 2, 'bob', 0),
        (5, NULL, NULL, 2, 'bob', 0);";
const NAMED: [&str; 4] = ["--table", "notes", "--text", "body"];
const EXECUTE: [&str; 3] = ["--execute", "--max-change-share", "1"];

fn made(sql: &str) -> TestFolder {
    let dir = TestFolder::new();
    Connection::open(dir.path("notes.db")).unwrap().execute_batch(sql).unwrap();
    dir
}

/// Every cell with its storage class.
pub(crate) fn rows(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare("SELECT rowid, * FROM notes ORDER BY 1").unwrap();
    let columns = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut found = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let cells = (0..columns).map(|at| match row.get_ref(at).unwrap() {
            ValueRef::Text(bytes) => format!("text {}", String::from_utf8_lossy(bytes)),
            other => format!("{other:?}"),
        });
        found.push(cells.collect::<Vec<_>>().join("|"));
    }
    found
}

fn consolidate<'a>(further: &[&'a str]) -> Vec<&'a str> {
    [&["consolidate", "notes.db"], further].concat()
}

#[test]
fn a_named_table_is_merged_and_taken_back_bit_for_bit() {
    let dir = made(NOTES);
    let (bytes, before) = (dir.files(), rows(&dir.path("notes.db")));
    let planned = dir.json(&consolidate(&[&NAMED[..], &["--json"]].concat()));
    assert_eq!(planned["planned"]["merge"], 1, "users are apart: {planned}");
    assert_eq!(dir.files(), bytes, "a dry run leaves every byte and no file");

    dir.run(&consolidate(&EXECUTE)).fails_with(
        1,
        &[
            "nobody said how rows are taken out of it",
            "memfold consolidate notes.db --removed delete or --removed COLUMN=VALUE says so",
            "--sql OUT",
        ],
    );
    assert_eq!(rows(&dir.path("notes.db")), before);

    // The table was named before.
    dir.succeed(&consolidate(&[&EXECUTE[..], &["--removed", "delete"]].concat()));
    assert_eq!(rows(&dir.path("notes.db")).len(), 4);
    let again = dir.json(&consolidate(&[&EXECUTE[..], &["--json"]].concat()));
    assert_eq!(again["planned"]["merge"], 0, "{again}");
    let answer = dir.run(&["doctor", "notes.db"]);
    for part in [
        "table notes: id id, text body, user user_id",
        "has the only copy of removed rows",
        "1 rows without a text",
    ] {
        assert!(answer.err.contains(part), "{part}: {}", answer.err);
    }
    dir.succeed(&["undo", "notes.db", "latest", "--execute"]);
    assert_eq!(rows(&dir.path("notes.db")), before);
    assert_eq!(dir.files().keys().count(), bytes.len(), "no file beside it");
}

#[test]
fn every_command_works_on_a_table_and_a_mark_is_taken_off() {
    let dir = made(NOTES);
    let before = rows(&dir.path("notes.db"));
    let words = [&NAMED[..], &["--removed", "archived=1", "--save-plan"]].concat();
    let saved = dir.run(&consolidate(&words));
    assert!(saved.err.contains("notes.db: table notes"), "{}", saved.err);
    let text = "The API deploys every Friday at 5 pm";
    let check =
        dir.json(&["check", "notes.db", "--text", text, "--category", "user:ana", "--json"]);
    assert_eq!(check["decision"], "touch");
    let found = dir.succeed(&["search", "notes.db", "--text", "green tea"]);
    assert!(found.contains("green tea"), "{found}");
    for command in ["status", "runs"] {
        let _ = dir.succeed(&[command, "notes.db"]);
    }
    assert_eq!(rows(&dir.path("notes.db")), before);
    let plans = dir.succeed(&["runs", "notes.db", "--plans"]);
    assert!(!plans.is_empty());
    dir.succeed(&["apply", "notes.db", "latest", "--execute"]);
    let marked = rows(&dir.path("notes.db"));
    assert_eq!((marked.len(), marked != before), (5, true));
    dir.succeed(&["undo", "notes.db", "latest", "--execute"]);
    assert_eq!(rows(&dir.path("notes.db")), before);
    dir.succeed(&["save", "notes.db", "--text", "The kiln is blue", "--category", "user:ana"]);
    assert!(rows(&dir.path("notes.db"))[5].contains("Integer(6)|Integer(6)"));
    let forgotten = dir.run(&["forget", "notes.db", "1"]);
    forgotten.fails_with(2, &["memories of a sqlite_table store are not forgotten by memfold"]);
}

#[test]
fn a_script_is_written_instead() {
    let dir = made(NOTES);
    let words = [&NAMED[..], &["--sql", "out.sql", "--ids", "gone.jsonl"]].concat();
    dir.succeed(&consolidate(&words));
    assert_eq!(dir.read("gone.jsonl").lines().count(), 1);
    Connection::open(dir.path("notes.db")).unwrap().execute_batch(&dir.read("out.sql")).unwrap();
    assert_eq!(rows(&dir.path("notes.db")).len(), 4);
    let refused = dir.run(&["consolidate", "notes.db", "--sql", "x.sql", "--execute"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    dir.write("memory.jsonl", "{\"type\":\"entity\",\"name\":\"A\",\"observations\":[\"a\"]}\n");
    dir.run("consolidate memory.jsonl --removed delete")
        .fails_with(2, &["memory.jsonl has no table to name"]);
    let unknown = made("CREATE TABLE songs (id, content); CREATE TABLE albums (x);");
    let advice = "memfold consolidate notes.db --table songs --id id --text content";
    unknown.run("consolidate notes.db").fails_with(1, &[advice]);
    assert_eq!(unknown.files().len(), 1);
}
