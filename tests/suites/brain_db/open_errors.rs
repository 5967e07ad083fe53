//! Every way a store cannot be opened, with the words that say so.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::{plain_store, rollback, sql_store, write};
use memfold_store::{BrainDb, OpenOptions, OpenStoreError};

fn refused(path: &Path) -> (OpenStoreError, String, String) {
    let options = OpenOptions::default().busy_timeout(Duration::from_millis(30));
    let error = BrainDb::open(path, options).unwrap_err();
    let folder = path.parent().unwrap().display().to_string();
    let message = error.to_string().replace(&folder, "DIR");
    let hint = error.hint().unwrap_or_default().replace(&folder, "DIR");
    (error, message, hint)
}

#[test]
fn a_missing_file_is_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("brain.db");
    let (_, message, hint) = refused(&path);
    assert_eq!(message, "DIR/brain.db does not exist");
    assert_eq!(hint, "check the path; memfold reads stores, it creates none");
    assert!(!path.exists());
}

#[test]
fn a_folder_is_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory");
    fs::create_dir(&path).unwrap();
    let (_, message, hint) = refused(&path);
    assert_eq!(message, "DIR/memory is a folder, expected a SQLite file");
    assert_eq!(hint, "name the file itself, for example DIR/memory/brain.db");
}

#[test]
fn an_empty_file_is_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("brain.db");
    fs::write(&path, "").unwrap();
    let (_, message, hint) = refused(&path);
    assert_eq!(message, "DIR/brain.db is empty (0 bytes), expected a SQLite file");
    assert_eq!(hint, "the store's owner writes its tables on first use");
}

#[test]
fn other_bytes_are_shown_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("brain.db");
    fs::write(&path, b"\x93NUMPY\x01\x00 and the rest of it").unwrap();
    let (_, message, hint) = refused(&path);
    assert_eq!(
        message,
        "DIR/brain.db is no SQLite file: it begins with \"\\x93NUMPY\\x01\\x00 and the\", \
         expected \"SQLite format 3\""
    );
    assert_eq!(
        hint,
        "an encrypted store must be decrypted first; a file of vectors alone is no store"
    );
}

#[test]
fn a_damaged_file_is_named_so() {
    let (_folder, path) = plain_store(3);
    let mut bytes = fs::read(&path).unwrap();
    bytes[100..4096].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let (error, message, hint) = refused(&path);
    assert!(matches!(error, OpenStoreError::Damaged { .. }), "{error:?}");
    assert!(message.starts_with("DIR/brain.db is damaged: "), "{message}");
    assert_eq!(
        hint,
        "run `sqlite3 FILE 'PRAGMA integrity_check'`; restore a backup or try `.recover`"
    );
}

#[test]
fn a_database_of_something_else_lists_its_tables() {
    let (_folder, path) = sql_store("CREATE TABLE b (x); CREATE TABLE a (x);");
    let (_, message, hint) = refused(&path);
    assert_eq!(message, "DIR/brain.db has no table stm, found a, b");
    assert!(hint.starts_with("a brain.db has a table stm with id, content"), "{hint}");
    let (_folder, path) = sql_store("CREATE TABLE a (x); DROP TABLE a;");
    assert_eq!(refused(&path).1, "DIR/brain.db has no table stm, found no tables at all");
}

#[test]
fn missing_columns_are_named() {
    let (_folder, path) =
        sql_store("CREATE TABLE stm (ID, Content, created_at, source, importance)");
    let (_, message, _) = refused(&path);
    assert_eq!(message, "table stm of DIR/brain.db has no column categories, access_count");
}

#[test]
fn a_lock_is_waited_for_and_then_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("brain.db");
    write(&path, 3, rollback());
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let (_, message, hint) = refused(&path);
    assert_eq!(message, "DIR/brain.db was locked by another process for 30 ms");
    assert_eq!(
        hint,
        "stop the process that holds it, or wait longer with --set busy_timeout_ms=60000"
    );
}

#[test]
fn a_hot_journal_is_left_to_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("brain.db");
    write(&path, 3, rollback());
    let writer = Connection::open(&path).unwrap();
    // Spills changed pages into the file before the commit that never comes.
    writer
        .execute_batch(
            "PRAGMA cache_size = 1; BEGIN; UPDATE stm SET content = hex(zeroblob(9000));",
        )
        .unwrap();
    let copy = folder.path().join("crashed.db");
    fs::copy(&path, &copy).unwrap();
    fs::copy(folder.path().join("brain.db-journal"), folder.path().join("crashed.db-journal"))
        .unwrap();
    let (error, message, hint) = refused(&copy);
    assert!(matches!(error, OpenStoreError::HotJournal { .. }), "{error:?}");
    assert!(message.starts_with("DIR/crashed.db has a hot rollback journal: "), "{message}");
    assert!(hint.starts_with("open crashed.db once with a program that may write"), "{hint}");
}

#[cfg(unix)]
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn no_permission_is_said_plainly() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, path) = plain_store(1);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&path).is_ok() {
        eprintln!("skipped: this user may read everything");
        return;
    }
    let (_, message, hint) = refused(&path);
    assert!(message.starts_with("DIR/brain.db cannot be read: Permission denied"), "{message}");
    assert_eq!(hint, "run as the user who owns the store, or grant it read access");
}

#[test]
fn a_log_that_cannot_be_read_has_its_own_words() {
    let path = Path::new("/memories/brain.db").to_path_buf();
    let error = OpenStoreError::HotWal { path, reason: "unable to open database file".into() };
    assert_eq!(
        error.to_string(),
        "the write-ahead log of /memories/brain.db cannot be read: unable to open database file"
    );
    assert_eq!(
        error.hint().unwrap(),
        "copy brain.db together with its -wal file into a folder that you can write, and read it there"
    );
}
