//! Stores with extreme contents: executed and undone as any other.

use memfold::execute::ExecuteError;
use memfold::lookup::{Searched, TierChoice, Wanted};
use memfold::quick_check::{Incoming, Written};
use memfold_simd::Similarity;
use memfold_store::brain_db::{BrainDb, OpenOptions};
use memfold_tests::{
    PlainMemory, StoreStyle, TestIndex, TestStore, assert_same, daemon_memory, diff, merges,
    sample_rows, unit_vector,
};

const KILN: &str = "The kiln is fired on Mondays.";

/// Two pairs of copies.
fn pairs() -> Vec<PlainMemory> {
    let tea = "Tea is ordered from the harbour shop.";
    vec![
        daemon_memory(0, KILN, 0),
        daemon_memory(1, KILN, 0),
        daemon_memory(2, tea, 1),
        daemon_memory(3, tea, 1),
    ]
}

const WAYS: [&str; 2] = ["merge.absorbed=archive", "merge.absorbed=move"];

/// Executes, undoes and compares, in both ways; returns the merges.
#[track_caller]
fn there_and_back(make: impl Fn() -> TestStore) -> Vec<Vec<String>> {
    let mut done = Vec::new();
    for way in WAYS {
        let db = make().set(way);
        let before = db.image();
        let applied = db.complete_run();
        db.assert_sound();
        assert_ne!(diff(&before, &db.image()), Vec::<String>::new(), "{way}");
        assert_eq!(db.plan().plan.changes(), 0, "{way}");
        let _ = db.undo_all(applied.run_id());
        assert_same(&before, &db.image());
        db.assert_sound();
        let ids = |ids: Vec<&str>| ids.into_iter().map(str::to_owned).collect();
        done = merges(&applied.outcome.plan).into_iter().map(ids).collect();
    }
    done
}

#[test]
fn ids_of_any_spelling_are_only_text() {
    let long = "x".repeat(10_000);
    let ids = [
        "o'neil \"x\"; DROP TABLE stm; --",
        "\u{1b}[31m\n\t",
        &long,
        "%_\\|{\"merged_into\": \"x\"}",
    ];
    let named = |(row, id): (PlainMemory, &str)| PlainMemory { id: id.to_owned(), ..row };
    let rows: Vec<PlainMemory> = pairs().into_iter().zip(ids).map(named).collect();
    let done = there_and_back(|| TestStore::of(&rows, StoreStyle::Plain));
    assert_eq!(done.len(), 2);
}

/// A store with a new memory table, and the owner's other tables as they were.
fn with_table(columns: &str, id: &str) -> TestStore {
    let db = TestStore::of(&pairs(), StoreStyle::Plain);
    db.sql(&format!(
        "CREATE TABLE made ({columns}, content TEXT NOT NULL, categories TEXT, importance REAL DEFAULT 1.0,
           access_count INTEGER DEFAULT 0, created_at TEXT NOT NULL, source TEXT DEFAULT 'agent');
         INSERT INTO made (rowid, id, content, categories, importance, access_count, created_at, source)
           SELECT rowid, {id}, content, categories, importance, access_count, created_at, source FROM stm;
         UPDATE embeddings SET source_id = (SELECT {id} FROM stm WHERE stm.id = source_id);
         DROP TABLE stm; ALTER TABLE made RENAME TO stm;"
    ));
    db
}

#[test]
fn numbers_as_ids_are_found_by_their_digits() {
    for columns in ["id TEXT PRIMARY KEY", "id INTEGER PRIMARY KEY", "id INTEGER"] {
        assert_eq!(there_and_back(|| with_table(columns, "rowid")).len(), 2, "{columns}");
    }
}

/// A column without a type tells 4 from '4': a row with such an id is not found by its digits, and
/// stays as it is.
#[test]
fn numbers_in_a_column_without_a_type_are_left_alone() {
    let db = with_table("id", "rowid");
    let before = db.image();
    let refused = db.try_apply(&db.plan());
    assert!(matches!(refused, Err(ExecuteError::AllStale { units: 2, .. })), "{refused:?}");
    assert_same(&before, &db.image());
}

#[test]
fn shared_id_is_never_written_for_both_rows() {
    for way in WAYS {
        let db = with_table("id TEXT", "id").set(way);
        db.sql("INSERT INTO stm (id, content, categories, created_at, source) SELECT id, 'Another says so.', categories, created_at, source FROM stm WHERE id = 'm000000'");
        let rows = db.ask::<i64>("SELECT count(*) FROM stm");
        let before = db.image();
        let applied = db.nightly_run();
        if let Some(execution) = applied.execution {
            let moved =
                db.ask::<i64>("SELECT count(*) FROM memfold_archive WHERE table_name = 'stm'");
            assert_eq!(db.ask::<i64>("SELECT count(*) FROM stm")[0] + moved[0], rows[0]);
            let _ = db.undo_all(&execution.run_id);
        }
        assert_same(&before, &db.image());
    }
}

/// A store with a new full-text index.
fn with_search(ddl: &str) -> TestStore {
    let db = TestStore::of(&pairs(), StoreStyle::Plain);
    db.sql(&format!("DROP TABLE stm_fts; {ddl}"));
    db
}

const FILL: &str = "INSERT INTO stm_fts (rowid, content) SELECT rowid, content FROM stm;";

#[test]
fn every_kind_of_full_text_index_is_kept_in_step() {
    let triggers = "CREATE VIRTUAL TABLE stm_fts USING fts5(content, content='stm', content_rowid='rowid');
         CREATE TRIGGER a AFTER INSERT ON stm BEGIN INSERT INTO stm_fts (rowid, content) VALUES (new.rowid, new.content); END;
         CREATE TRIGGER b AFTER DELETE ON stm BEGIN INSERT INTO stm_fts (stm_fts, rowid, content) VALUES ('delete', old.rowid, old.content); END;
         CREATE TRIGGER c AFTER UPDATE ON stm BEGIN
           INSERT INTO stm_fts (stm_fts, rowid, content) VALUES ('delete', old.rowid, old.content);
           INSERT INTO stm_fts (rowid, content) VALUES (new.rowid, new.content); END;";
    for ddl in [
        "CREATE VIRTUAL TABLE stm_fts USING fts5(content, content='', contentless_delete=1);",
        "CREATE VIRTUAL TABLE stm_fts USING fts5(content, content='', contentless_delete = '1');",
        "CREATE VIRTUAL TABLE stm_fts USING fts5(content, content='stm', content_rowid='rowid');",
        "CREATE VIRTUAL TABLE stm_fts USING fts5(content);",
        "CREATE VIRTUAL TABLE stm_fts USING fts5(content, categories, content='');",
        triggers,
    ] {
        let fill = if ddl.contains("categories") {
            "INSERT INTO stm_fts (rowid, content, categories) SELECT rowid, content, categories FROM stm;"
        } else {
            FILL
        };
        assert_eq!(there_and_back(|| with_search(&format!("{ddl} {fill}"))).len(), 2, "{ddl}");
        let half = fill.replace(';', " WHERE rowid IN (1, 3);");
        if ddl != triggers {
            assert_eq!(there_and_back(|| with_search(&format!("{ddl} {half}"))).len(), 2, "{ddl}");
        }
    }
}

#[test]
fn stores_without_search_or_vectors_work_as_well() {
    assert_eq!(there_and_back(|| with_search("")).len(), 2);
    let without = |table: &'static str| {
        move || {
            let db = with_search("");
            db.sql(&format!("DROP TABLE {table}"));
            db
        }
    };
    assert_eq!(there_and_back(without("embeddings")).len(), 2);
}

#[test]
fn garbage_and_megabytes_are_restored() {
    let word = "clay".repeat(250);
    let long = format!("{}{KILN}", format!("{word} ").repeat(1000));
    let texts = [long.as_str(), &long, "zero\u{0}byte", "zero\u{0}byte"];
    let with = |(row, text): (PlainMemory, &str)| PlainMemory { content: text.to_owned(), ..row };
    let rows: Vec<PlainMemory> = pairs().into_iter().zip(texts).map(with).collect();
    assert!(!there_and_back(|| TestStore::of(&rows, StoreStyle::Plain)).is_empty());
    for categories in ["'{garbage'", "x'00ff'", "17", "'[1, null, \"a\"]'", "''", "NULL", "2.5"] {
        there_and_back(|| {
            let db = TestStore::of(&pairs(), StoreStyle::Plain);
            db.sql(&format!(
                "UPDATE stm SET categories = {categories} WHERE id IN ('m000000', 'm000003')"
            ));
            db
        });
    }
}

#[test]
fn odd_column_values_are_restored() {
    for (column, value) in [
        ("importance", "'high'"),
        ("importance", "x'01'"),
        ("access_count", "'many'"),
        ("access_count", "2.5"),
        ("access_count", "9223372036854775807"),
        ("access_count", "-3"),
        ("source", "x'61'"),
        ("source", "'consolidation:{broken'"),
        ("updated_at", "x'00'"),
    ] {
        there_and_back(|| {
            let db = TestStore::of(&pairs(), StoreStyle::Plain);
            db.sql(&format!("UPDATE stm SET {column} = {value} WHERE id = 'm000001'"));
            db
        });
    }
}

const DIM: usize = 8;

fn numbered() -> TestStore {
    TestStore::of(&pairs(), StoreStyle::Plain)
}

fn refused(db: &TestStore) -> (String, Option<String>) {
    let error = BrainDb::open(db.path(), OpenOptions::default()).unwrap_err();
    (error.to_string(), error.hint())
}

/// These stores gave SQLite's own errors, command by command.
#[test]
fn stores_whose_rows_have_no_numbers_of_their_own_are_refused_in_words() {
    for (sql, said, advice) in [
        (
            "CREATE TABLE numbered AS SELECT *, 'x' AS rowid FROM stm; DROP TABLE stm; ALTER TABLE numbered RENAME TO stm",
            "table stm of DIR has a column named rowid, which hides the numbers of its rows",
            "ALTER TABLE stm RENAME COLUMN rowid TO row_number",
        ),
        (
            "CREATE TABLE numbered AS SELECT *, 7 AS RowID FROM embeddings; DROP TABLE embeddings; ALTER TABLE numbered RENAME TO embeddings",
            "table embeddings of DIR has a column named rowid, which hides the numbers of its rows",
            "ALTER TABLE embeddings RENAME COLUMN rowid",
        ),
        (
            "ALTER TABLE stm RENAME TO memories; CREATE VIEW stm AS SELECT * FROM memories",
            "stm of DIR is a view, expected a table",
            "name the file that holds the table itself",
        ),
        (
            "ALTER TABLE embeddings RENAME TO vectors; CREATE VIEW Embeddings AS SELECT * FROM vectors",
            "embeddings of DIR is a view, expected a table",
            "name the file that holds the table itself",
        ),
    ] {
        let db = numbered();
        db.sql(sql);
        let (error, hint) = refused(&db);
        assert_eq!(error.replace(&db.path().display().to_string(), "DIR"), said);
        assert!(hint.is_some_and(|hint| hint.contains(advice)), "{sql}");
    }
    // Other names for the same hide nothing that is requested.
    let db = numbered();
    db.sql("CREATE TABLE numbered AS SELECT *, 'x' AS oid, 'y' AS _rowid_ FROM stm; DROP TABLE stm; ALTER TABLE numbered RENAME TO stm");
    let _ = db.complete_run();
}

/// A memory table WITHOUT ROWID has no row numbers, so no search entries and no marks; all else works.
#[test]
fn a_table_without_row_numbers_is_executed_saved_into_and_undone() {
    for way in ["merge.absorbed=archive", "merge.absorbed=move"] {
        let db = numbered().set(way);
        db.sql(
            "CREATE TABLE keyed (id TEXT PRIMARY KEY, content TEXT NOT NULL, categories TEXT, importance REAL,
                 access_count INTEGER, created_at TEXT NOT NULL, updated_at TEXT, source TEXT) WITHOUT ROWID;
             INSERT INTO keyed SELECT id, content, categories, importance, access_count, created_at, updated_at, source FROM stm;
             DROP TABLE stm; ALTER TABLE keyed RENAME TO stm",
        );
        let all = "SELECT quote(id) || quote(content) || quote(categories) || quote(access_count) || quote(source)
                   FROM stm ORDER BY id";
        let before = db.ask::<String>(all);
        let run = db.complete_run().run_id().to_owned();
        assert_ne!(db.ask::<String>(all), before, "{way}");
        let index = TestIndex::of(db.path());
        let _ = index.build(TierChoice::Scan);
        let incoming =
            Incoming::text("The harbour has two cranes.").with_vector(unit_vector(DIM, 4));
        let saved = db.quick_check().save(&incoming, db.now()).unwrap();
        assert_eq!(saved.written, Written::Inserted, "{way}: {saved:?}");
        let again = db.quick_check().save(&incoming, db.now()).unwrap();
        assert_eq!((again.written, again.id), (Written::Touched, saved.id.clone()), "{way}");
        db.sql(&format!("DELETE FROM stm WHERE id = '{}'", saved.id));
        let _ = db.undo_all(&run);
        assert_eq!(db.ask::<String>(all), before, "{way}");
        db.assert_sound();
    }
}

/// A row with the number 2^63 - 1 made every save fail; and since SQLite then gives new rows any free number, an index
/// would never have seen them.
#[test]
fn the_last_row_number_keeps_nothing_from_being_saved_or_found() {
    for table in ["stm", "embeddings"] {
        let db = numbered().set("merge.absorbed=move");
        db.sql(&format!("UPDATE {table} SET rowid = 9223372036854775807 WHERE rowid = (SELECT max(rowid) FROM {table})"));
        db.sql("INSERT INTO stm_fts(stm_fts) VALUES ('delete-all'); INSERT INTO stm_fts(rowid, content) SELECT rowid, content FROM stm");
        let index = TestIndex::of(db.path());
        let _ = index.build(TierChoice::Scan);
        for number in 0..3 {
            let text = format!("The harbour has {number} cranes of its own.");
            let vector = unit_vector(DIM, 3 + number);
            let incoming = Incoming::text(&*text).with_vector(vector.clone());
            let saved = db.quick_check().save(&incoming, db.now()).unwrap();
            assert_eq!(saved.written, Written::Inserted, "{table}: {saved:?}");
            let again = db.quick_check().save(&incoming, db.now()).unwrap();
            assert_eq!((again.written, &again.id), (Written::Touched, &saved.id), "{table}");
            let wanted = Wanted { neighbors: None, similarity_min: Similarity::new(0.9) };
            let found = index.try_search(Some(&index.index()), &vector, wanted).unwrap();
            assert!(matches!(found.searched, Searched::StoreInsteadOfIndex { .. }), "{found:?}");
            assert_eq!(found.matches[0].memory.id, saved.id, "{table}");
            let words = db.ask::<String>("SELECT stm.id FROM stm_fts JOIN stm ON stm.rowid = stm_fts.rowid WHERE stm_fts MATCH 'cranes'");
            assert_eq!(words.len(), number + 1, "{table}");
        }
        let before = db.image();
        let run = db.complete_run().run_id().to_owned();
        let _ = db.undo_all(&run);
        assert_same(&before, &db.image());
        db.assert_sound();
    }
}

#[test]
fn generated_columns_are_not_written() {
    there_and_back(|| {
        let db = TestStore::of(&sample_rows()[..120], StoreStyle::Plain);
        db.sql(
            "ALTER TABLE stm ADD COLUMN size INTEGER GENERATED ALWAYS AS (length(content)) VIRTUAL",
        );
        db
    });
}
