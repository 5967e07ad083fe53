//! Every way in which a store cannot be opened, in the words that a user reads.

use rusqlite::Connection;

use crate::support::{Place, consolidate};

const SHAPE: &str = "a brain.db has a table stm with id, content, categories, importance, \
                     created_at, access_count and source";

fn sql_store(sql: &str) -> Place {
    let place = Place::new();
    Connection::open(place.path("brain.db")).unwrap().execute_batch(sql).unwrap();
    place
}

#[test]
fn a_missing_store_is_not_made() {
    let place = Place::new();
    place.run(&consolidate(&[])).fails(
        1,
        "failed to open the store: brain.db does not exist",
        "check the path; memfold reads stores, it creates none",
    );
    assert!(place.files().is_empty());
}

#[test]
fn a_folder_is_no_store() {
    let place = Place::new();
    std::fs::create_dir(place.path("brain.db")).unwrap();
    place.run(&consolidate(&[])).fails(
        1,
        "failed to open the store: brain.db is a folder, expected a SQLite file",
        "name the file itself, for example brain.db/brain.db",
    );
}

/// All of these were "no SQLite file", and a JSON file had to be "decrypted first".
#[test]
fn json_and_repositories_are_named_as_what_they_are() {
    let place = Place::new();
    for folder in ["brain.db", "brain.db/.git"] {
        std::fs::create_dir(place.path(folder)).unwrap();
    }
    let is = |what: &str| {
        format!("failed to open the store: brain.db is {what}, expected a SQLite file")
    };
    place
        .run(&consolidate(&[]))
        .fails_with(1, &[&is("a git repository without notes of memories")]);
    std::fs::remove_dir(place.path("brain.db/.git")).unwrap();
    place.write("brain.db/a.json", "{}");
    let hint = "--store-kind json_folder";
    place.run(&consolidate(&[])).fails_with(1, &[&is("a folder of JSON files"), hint]);
    std::fs::remove_dir_all(place.path("brain.db")).unwrap();
    for text in ["{\"text\": \"User likes tea\"}\n", "\n  [1]"] {
        place.write("brain.db", text);
        let hint = "memfold import brain.db --into brain.db makes a store of it";
        place.run(&consolidate(&[])).fails_with(1, &[&is("a JSON file"), hint]);
    }
}

#[test]
fn an_empty_file_is_no_store() {
    let place = Place::new();
    place.write("brain.db", "");
    place.run(&consolidate(&[])).fails(
        1,
        "failed to open the store: brain.db is empty (0 bytes), expected a SQLite file",
        "the store's owner writes its tables on first use",
    );
}

#[test]
fn another_file_is_named_by_its_first_bytes() {
    let place = Place::new();
    place.write("brain.db", "id,content\n1,\x1b[31mred\n");
    place.run(&consolidate(&[])).fails(
        1,
        "failed to open the store: brain.db is no SQLite file: it begins with \
         \"id,content\\n1,\\x1b[3\", expected \"SQLite format 3\"",
        "an encrypted store must be decrypted first; a file of vectors alone is no store",
    );
}

#[test]
fn a_damaged_store_is_named_so() {
    let place = Place::with_sample();
    let mut bytes = std::fs::read(place.path("brain.db")).unwrap();
    bytes[100..4096].fill(0xa5);
    place.write("brain.db", bytes);
    place.run(&consolidate(&[])).fails_with(1, &["brain.db is damaged: ", "integrity_check"]);
}

#[test]
fn a_database_of_something_else_lists_its_tables() {
    let place = sql_store("CREATE TABLE songs (x); CREATE TABLE albums (x);");
    let error = "no table of memories is recognised, found albums (x), songs (x)";
    let hint = "memfold consolidate brain.db --table albums --id ID --text TEXT";
    place.run(&consolidate(&[])).fails_with(1, &[error, hint]);
}

#[test]
fn missing_columns_are_named() {
    let place = sql_store("CREATE TABLE stm (id, content, created_at, source, importance)");
    let error = "failed to open the store: table stm of brain.db has no column categories, \
                 access_count";
    place.run(&consolidate(&[])).fails(1, error, SHAPE);
}

#[test]
fn a_locked_store_is_waited_for_and_then_reported() {
    let place = Place::with_sample();
    let writer = Connection::open(place.path("brain.db")).unwrap();
    writer.execute_batch("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE").unwrap();
    place.run(&consolidate(&["--set", "busy_timeout_ms=50"])).fails(
        1,
        "failed to open the store: brain.db was locked by another process for 50 ms",
        "stop the process that holds it, or wait longer with --set busy_timeout_ms=60000",
    );
}

#[test]
fn a_hot_journal_is_left_to_a_writer() {
    let place = Place::with_sample();
    let writer = Connection::open(place.path("brain.db")).unwrap();
    writer
        .execute_batch(
            "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1;
             BEGIN; UPDATE stm SET content = hex(zeroblob(9000));",
        )
        .unwrap();
    std::fs::copy(place.path("brain.db"), place.path("crashed.db")).unwrap();
    std::fs::copy(place.path("brain.db-journal"), place.path("crashed.db-journal")).unwrap();
    let answer = place.run(&["consolidate", "crashed.db"]);
    answer.fails_with(1, &["crashed.db has a hot rollback journal: ", "which rolls it back"]);
}

#[test]
fn every_command_that_opens_a_store_says_the_same() {
    let place = Place::new();
    for arguments in [
        ["doctor", "nowhere.db", "--quiet"].as_slice(),
        &["export", "nowhere.db", "-o", "x.arrow"],
        &["consolidate", "nowhere.db", "--json"],
    ] {
        let answer = place.run(arguments);
        answer
            .fails_with(1, &["error: failed to open the store: nowhere.db does not exist\nhint: "]);
    }
    assert!(place.files().is_empty());
}
