//! Row numbers: hidden by a column, missing, or at their end.

use memfold::lookup::{Searched, TierChoice, Wanted};
use memfold::quick_check::{Incoming, Written};
use memfold_simd::Similarity;
use memfold_store::brain_db::{BrainDb, OpenOptions, StoreStyle};
use memfold_tests::{TestIndex, TestStore, diff, integrity, memory, unit_vector};

const DIM: usize = 8;
const KILN: &str = "The kiln is fired on Mondays.";

fn db() -> TestStore {
    let tea = "Tea is ordered from the harbour shop.";
    let said = |number, text, axis| memory(number, text, &unit_vector(DIM, axis));
    let rows = [said(0, KILN, 0), said(1, KILN, 0), said(2, tea, 1), said(3, tea, 1)];
    TestStore::of(&rows, StoreStyle::Plain)
}

fn refused(db: &TestStore) -> (String, Option<String>) {
    let error = BrainDb::open(db.path(), OpenOptions::default()).unwrap_err();
    (error.to_string(), error.hint())
}

/// Such stores answered with SQLite's own errors, command by command.
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
        let db = db();
        db.sql(sql);
        let (error, hint) = refused(&db);
        assert_eq!(error.replace(&db.path().display().to_string(), "DIR"), said);
        assert!(hint.is_some_and(|hint| hint.contains(advice)), "{sql}");
    }
    // Other names for the same hide nothing that is asked for.
    let db = db();
    db.sql("CREATE TABLE numbered AS SELECT *, 'x' AS oid, 'y' AS _rowid_ FROM stm; DROP TABLE stm; ALTER TABLE numbered RENAME TO stm");
    let _ = db.complete_run();
}

/// A memory table WITHOUT ROWID has no row numbers, so no search entries and no marks; all else works.
#[test]
fn a_table_without_row_numbers_is_executed_saved_into_and_undone() {
    for way in ["merge.absorbed=archive", "merge.absorbed=move"] {
        let db = db().set(way);
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
        assert_eq!(integrity(db.path()), Vec::<String>::new());
    }
}

/// A row with the number 2^63 - 1 made every save fail; and since SQLite then gives new rows any free number, an index
/// would never have seen them.
#[test]
fn the_last_row_number_keeps_nothing_from_being_saved_or_found() {
    for table in ["stm", "embeddings"] {
        let db = db().set("merge.absorbed=move");
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
        assert_eq!(diff(&before, &db.image()), Vec::<String>::new(), "{table}");
        assert_eq!(integrity(db.path()), Vec::<String>::new());
    }
}
