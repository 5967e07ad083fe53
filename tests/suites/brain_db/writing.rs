//! Stores that are created look like the owner's and never replace one by accident.

use std::fs;

use rusqlite::Connection;

use super::{folder_state, plain_store, wild, write};
use memfold_store::brain_db::{BrainDbWriter, CreateOptions};

#[test]
fn a_created_store_is_whole_and_searchable() {
    let folder = tempfile::tempdir().unwrap();
    for (name, options) in [("plain.db", CreateOptions::default()), ("wild.db", wild())] {
        let path = folder.path().join(name);
        write(&path, 30, options);
        let connection = Connection::open(&path).unwrap();
        let text =
            |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(text("PRAGMA integrity_check"), "ok");
        assert_eq!(text("PRAGMA journal_mode"), "wal");
        let found: i64 = connection
            .query_row(
                "SELECT count(*) FROM stm JOIN stm_fts ON stm_fts.rowid = stm.rowid
                 WHERE stm_fts MATCH '\"stm\" OR \"the\"' AND stm.content LIKE '%the%'",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert!(found > 5, "{name}: {found}");
    }
}

#[test]
fn the_same_rows_give_the_same_bytes() {
    let (first, _) = plain_store(30);
    let (second, _) = plain_store(30);
    assert_eq!(folder_state(first.path()), folder_state(second.path()));
}

#[test]
fn an_existing_file_is_replaced_only_when_told() {
    let (folder, path) = plain_store(3);
    let before = fs::read(&path).unwrap();
    let error = BrainDbWriter::create(&path, CreateOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), format!("{} exists", path.display()));
    assert_eq!(error.hint().unwrap(), "name another file, or remove this one first");
    let told = CreateOptions { overwrite: true, ..CreateOptions::default() };
    drop(BrainDbWriter::create(&path, told).unwrap());
    assert_eq!(fs::read(&path).unwrap(), before);
    write(&path, 9, told);
    assert_ne!(fs::read(&path).unwrap(), before);
    assert_eq!(folder_state(folder.path()).len(), 1);
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no/brain.db");
    let error = BrainDbWriter::create(&path, CreateOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with(&format!("write {}: ", path.display())), "{error}");
    assert_eq!(error.hint().unwrap(), "check that the folder exists and can be written");
}
