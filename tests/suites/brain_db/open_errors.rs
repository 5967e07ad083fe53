//! Every way a store cannot be opened, with the words that say so.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::{plain_store, rollback, write};
use memfold_store::brain_db::CreateOptions;
use memfold_store::{BrainDb, OpenOptions, StoreError};

fn refused(path: &Path) -> (StoreError, String, String) {
    let options = OpenOptions::default().busy_timeout(Duration::from_millis(30));
    let error = BrainDb::open(path, options).unwrap_err();
    let folder = path.parent().unwrap().display().to_string();
    let message = error.to_string().replace(&folder, "DIR");
    let hint = error.hint().unwrap_or_default().replace(&folder, "DIR");
    (error, message, hint)
}

/// The file at the path, the message and the hint.
struct Case {
    make: fn(&Path),
    message: &'static str,
    hint: &'static str,
}

fn sql(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

const CASES: [Case; 8] = [
    Case {
        make: |_| {},
        message: "DIR/brain.db does not exist",
        hint: "check the path; memfold reads stores, it creates none",
    },
    Case {
        make: |path| fs::create_dir(path).unwrap(),
        message: "DIR/brain.db is a folder, expected a SQLite file",
        hint: "name the file itself, for example DIR/brain.db/brain.db, or the kind of the folder with \
               --store-kind: none was recognised (its Markdown files, _index.json or notes in refs/notes/mem)",
    },
    Case {
        make: |path| fs::write(path, "").unwrap(),
        message: "DIR/brain.db is empty (0 bytes), expected a SQLite file",
        hint: "the store's owner writes its tables on first use",
    },
    Case {
        make: |path| fs::write(path, b"\x93NUMPY\x01\x00 and the rest of it").unwrap(),
        message: "DIR/brain.db is no SQLite file: it begins with \"\\x93NUMPY\\x01\\x00 and the\", \
                  expected \"SQLite format 3\"",
        hint: "an encrypted store must be decrypted first; a file of vectors alone is no store",
    },
    Case {
        make: |path| sql(path, "CREATE TABLE b (x); CREATE TABLE a (x);"),
        message: "DIR/brain.db has no table stm, found a, b",
        hint: SHAPE,
    },
    Case {
        make: |path| sql(path, "CREATE TABLE a (x); DROP TABLE a;"),
        message: "DIR/brain.db has no table stm, found no tables at all",
        hint: SHAPE,
    },
    Case {
        make: |path| sql(path, "CREATE TABLE stm (ID, Content, created_at, source, importance)"),
        message: "table stm of DIR/brain.db has no column categories, access_count",
        hint: SHAPE,
    },
    Case {
        make: |path| {
            write(path, 3, CreateOptions::default());
            let mut bytes = fs::read(path).unwrap();
            bytes[100..4096].fill(0xa5);
            fs::write(path, bytes).unwrap();
        },
        message: "DIR/brain.db is damaged: ",
        hint: "run `sqlite3 FILE 'PRAGMA integrity_check'`; restore a backup or try `.recover`",
    },
];

const SHAPE: &str = "a brain.db has a table stm with id, content, categories, importance, \
                     created_at, access_count and source";

#[test]
fn wrong_files_are_named_with_advice() {
    for Case { make, message, hint } in CASES {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("brain.db");
        make(&path);
        let existed = path.exists();
        let (_, found, advice) = refused(&path);
        assert!(found.starts_with(message), "{found}");
        assert_eq!(advice, hint, "{message}");
        assert_eq!(path.exists(), existed, "opening makes no file");
    }
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
    let advice = "stop the process that holds it, or wait longer with --set busy_timeout_ms=60000";
    assert_eq!(hint, advice);
}

#[test]
fn a_hot_journal_is_left_to_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("brain.db");
    write(&path, 3, rollback());
    let writer = Connection::open(&path).unwrap();
    // Spills changed pages into the file before the commit that never comes.
    let spill = "PRAGMA cache_size = 1; BEGIN; UPDATE stm SET content = hex(zeroblob(9000));";
    writer.execute_batch(spill).unwrap();
    let at = |name: &str| folder.path().join(name);
    let copy = at("crashed.db");
    fs::copy(&path, &copy).unwrap();
    fs::copy(at("brain.db-journal"), at("crashed.db-journal")).unwrap();
    let (error, message, hint) = refused(&copy);
    assert!(matches!(error, StoreError::HotJournal { .. }), "{error:?}");
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
    let error = StoreError::HotWal { path, reason: "unable to open database file".into() };
    assert_eq!(
        error.to_string(),
        "the write-ahead log of /memories/brain.db cannot be read: unable to open database file"
    );
    assert_eq!(
        error.hint().unwrap(),
        "copy brain.db together with its -wal file into a folder that you can write, and read it there"
    );
}
